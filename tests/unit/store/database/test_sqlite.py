from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from floecat.store.database.errors import StoreUnavailableError
from floecat.store.database.sqlite import ProcessTurns

_GREEDY = """
import sys
import time
import sqlalchemy as sa
from floecat.store.database.sqlite import ProcessTurns

turns = ProcessTurns(sa.make_url(sys.argv[1]))
with open(sys.argv[2], "ab", buffering=0) as log:
    while True:
        with turns.hold(time.monotonic() + 30):
            log.write(b"x")
"""

_HOLDER = """
import sys
import time
import sqlalchemy as sa
from floecat.store.database.sqlite import ProcessTurns

with ProcessTurns(sa.make_url(sys.argv[1])).hold(time.monotonic() + 30):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'floecat.db'}"


def test_a_process_that_writes_all_the_time_keeps_no_other_waiting(url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    turns = ProcessTurns(sa.make_url(url))
    with subprocess.Popen([sys.executable, "-c", _GREEDY, url, str(log)]) as greedy:
        try:
            while not log.stat().st_size:
                assert greedy.poll() is None
            overtakes = []
            for _ in range(50):
                before = log.stat().st_size
                with turns.hold(time.monotonic() + 30):
                    overtakes.append(log.stat().st_size - before)
        finally:
            greedy.kill()
    turns.close()
    # the turn that it had, and one for which it was next already; sometimes this test is not scheduled
    assert sorted(overtakes)[25] <= 2


def test_a_turn_ends_with_its_process(url: str) -> None:
    turns = ProcessTurns(sa.make_url(url))
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(StoreUnavailableError, match="another process"),
            turns.hold(time.monotonic() + 0.05),
        ):
            pass
        holder.kill()
        holder.wait()
        with turns.hold(time.monotonic() + 30):
            pass
    turns.close()


def test_a_turn_whose_file_goes_away_ends_without_an_error(url: str) -> None:
    turns = ProcessTurns(sa.make_url(url))
    with turns.hold(time.monotonic() + 30):
        # as on a network file system that loses its locks
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/self/fd/{name}") == url.removeprefix("sqlite:///") + "-turns":
                    os.close(int(name))


def test_writers_go_on_without_turns_where_the_file_cannot_be_opened(url: str) -> None:
    Path(f"{url.removeprefix('sqlite:///')}-turns").mkdir()
    turns = ProcessTurns(sa.make_url(url))
    with turns.hold(time.monotonic() + 0.05):
        pass
    turns.close()
