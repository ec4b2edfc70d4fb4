from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from floecat.child_process import ChildPool, PoolSetup
from tests.unit.waiting_child import endless, nothing

_PARENT = """
from floecat.child_process import ChildPool, PoolSetup
from tests.unit.waiting_child import nothing, work

pool = ChildPool("waiting", lambda: PoolSetup(nothing))
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


@pytest.fixture
def pool() -> Iterator[ChildPool]:
    opened = ChildPool("waiting", lambda: PoolSetup(nothing), most=2, idle_s=None)
    yield opened
    opened.close()


def go_on(_: None) -> None:
    pass


def test_work_of_a_key_goes_to_the_process_that_did_the_last_of_it(pool: ChildPool) -> None:
    running = {key: pool.run(endless, go_on, key=key) for key in "ab"}
    processes = {key: next(results) for key, results in running.items()}
    assert pool.turns.spare == 0
    for results in running.values():
        results.close()  # type: ignore[attr-defined]
    for key in "bab":
        results = pool.run(endless, go_on, key=key)
        assert next(results) == processes[key]
        results.close()  # type: ignore[attr-defined]
    assert pool.turns.spare == 2
