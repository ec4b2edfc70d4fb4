"""A planning process: makes one plan after the other for the process that started it.

Messages are pickled; see `processes`. It ends when the other end of the connection does.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final

import msgspec

from floecat.errors import FloecatError, PlanStoppedError, UnavailableError

__all__ = ["Failed", "Job", "Setup", "main"]

_STORAGES: Final = 64


class Setup(msgspec.Struct, frozen=True):
    """The first message.

    Attributes:
        path: where Python finds modules.
        memory_bytes: of manifests.
        threads: how many decode manifests.
        niceness: how far its priority is below that of the other process.
        bounds: of manifests, pickled.
    """

    path: list[str]
    memory_bytes: int
    threads: int
    niceness: int
    bounds: bytes


class Job(msgspec.Struct, frozen=True):
    """A plan to make; all pickled."""

    storage: bytes
    target: bytes
    work: bytes


class Failed(msgspec.Struct, frozen=True):
    """The last message of a job that failed, in place of None."""

    error: Exception


def main() -> None:
    """Serves the file descriptor of the command line until its other end is closed."""
    connection = Connection(int(sys.argv[1]))
    with suppress(EOFError, ConnectionError):
        setup = connection.recv()
        sys.path[:] = setup.path
        os.nice(setup.niceness)
        _serve(connection, setup)


def _serve(connection: Connection, setup: Setup) -> None:
    from floecat.planning.files.scan_planning import local_planner

    planner = local_planner(setup.memory_bytes, setup.threads, pickle.loads(setup.bounds))  # noqa: S301
    storages: OrderedDict[bytes, Any] = OrderedDict()
    while True:
        message = connection.recv()
        if not isinstance(message, Job):
            continue  # a stop that came after the end
        try:
            storage = storages.pop(message.storage, None) or pickle.loads(message.storage)  # noqa: S301
            storages[message.storage] = storage
            if len(storages) > _STORAGES:
                storages.popitem(last=False)
            target, work = pickle.loads(message.target), pickle.loads(message.work)  # noqa: S301
            _make(connection, lambda: work(planner.plan(storage, target, connection.poll)))  # noqa: B023
            last = None
        except FloecatError as error:
            last = Failed(error)
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - it goes on with other plans
            last = Failed(UnavailableError(f"Planning failed: {type(error).__name__}"))
            sys.excepthook(*sys.exc_info())
        connection.send(last)


def _make(connection: Connection, results: Callable[[], Iterator[Any]]) -> None:
    for result in results():
        connection.send((result,))
        if connection.poll():
            raise PlanStoppedError("The plan was stopped")
