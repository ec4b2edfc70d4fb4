from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

_PARENT = """
import pickle, sys
from floecat.child_process import ChildPool, PoolSetup
from tests.unit.waiting_child import nothing, work

pool = ChildPool("waiting", lambda: PoolSetup(pickle.dumps(nothing), sys.path))
for process in pool.run(work, lambda _: None):
    print(process, flush=True)
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
