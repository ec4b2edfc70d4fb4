"""Runs one service for a test session and ends it with the session, however that ends.

    python -m tests.services.supervisor OWNER_PID FOLDER COMMAND...

The service runs in FOLDER, with its output in ``FOLDER/log``. When the process OWNER_PID is gone, on SIGTERM,
or when the service ends by itself, the service is stopped and FOLDER is removed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

__all__ = ["owner_pid", "start"]

_POLL_S = 1.0
_STOP_S = 10.0


def owner_pid() -> int:
    """The process whose end is the end of the test session: under xdist the parent of the workers."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


def start(folder: Path, command: list[str]) -> subprocess.Popen[bytes]:
    """Starts a supervised service; terminate the returned process to stop it."""
    arguments = [str(owner_pid()), str(folder), *command]
    return subprocess.Popen(
        [sys.executable, str(Path(__file__)), *arguments], start_new_session=True, stdin=subprocess.DEVNULL
    )


def _is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def _supervise(owner: int, folder: Path, command: list[str]) -> None:
    with (folder / "log").open("wb") as log:
        service = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, stop)
    try:
        while _is_alive(owner) and service.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                service.wait(_POLL_S)
    finally:
        service.terminate()
        try:
            service.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _supervise(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
