from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

_PARENT = """
import os, sys, time
from types import SimpleNamespace
from floecat.child_process import ChildProcess


child = ChildProcess("tests.unit.waiting_child", SimpleNamespace(path=sys.path, niceness=1))
print(child.connection.recv(), flush=True)
child.connection.recv()
"""


def test_a_process_ends_with_the_one_that_started_it() -> None:
    """Even with one that is killed, and in the middle of its work."""
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Path("/proc", parent.stdout.readline().strip())
        assert child.exists()
        parent.kill()
        deadline = time.monotonic() + 120
        while child.exists() and "State:\tZ" not in (child / "status").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
