"""`floecat serve` in a process that begins with its modules imported, which is most of the time of a start.

The processes are forks of a server process that has imported them and done nothing else.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

__all__ = ["start_service"]

_MODULES = [
    "floecat_rest.app",
    "floecat_rest.__main__",
    "floecat_rest.commands.service.serve",
    "floecat_rest.serving",
]

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(_MODULES)


def start_service(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path
) -> ForkServerProcess:
    """Runs the command with these arguments in a folder, and adds its output to a log.

    The process leads a group of its own.
    """
    process = _context.Process(target=_run, args=(list(arguments), folder, dict(environment), log))
    process.start()
    return process


def _run(arguments: list[str], folder: Path, environment: dict[str, str], log: Path) -> None:
    os.setsid()
    threading.Thread(target=_end_with_session, daemon=True).start()
    os.chdir(folder)
    with log.open("ab") as output, Path(os.devnull).open("rb") as nothing:
        for stream, target in enumerate((nothing, output, output)):
            os.dup2(target.fileno(), stream)
    sys.stdin = os.fdopen(0)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["floecat", *arguments]
    # as in `python -m floecat_rest`; workers of the service import it
    sys.modules["__main__"] = importlib.import_module("floecat_rest.__main__")
    from floecat_rest.cli import main

    main()


def _end_with_session() -> None:
    session = multiprocessing.parent_process()
    if session is not None:
        session.join()
        os.killpg(0, signal.SIGKILL)
