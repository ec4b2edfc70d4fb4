"""A capture process: works for the process that started it; see `processes`."""

from __future__ import annotations

import math
import pickle
import resource
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from floecat.child_process import serve_parent
from floecat.errors import FloecatError, UnavailableError
from floecat.iceberg.values.bounds import process_bounds
from floecat.struct_types import prepare_struct_types

__all__ = ["Done", "Setup", "main"]


class Setup(NamedTuple):
    """The first message."""

    path: list[str]
    niceness: int
    limits: bytes
    """`LimitSettings`, pickled."""
    memory_bytes: int
    """What the process may allocate."""
    processor_s: int
    """Processor time from one report of progress to the next."""


class Done(NamedTuple):
    """The last message about some work; before it come numbers, of what is done."""

    result: Any = None
    error: Exception | None = None


def main() -> None:
    """Serves the process that started this one."""
    serve_parent(_serve)


def _serve(connection: Connection[Any, Any], setup: Setup) -> None:
    # pages of a damaged file may claim any size
    resource.setrlimit(resource.RLIMIT_DATA, (setup.memory_bytes, setup.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would hold rows

    def report(done: int) -> None:
        # a few bytes can stand for any number of rows
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + setup.processor_s, hard))
        connection.send(done)

    process_bounds.limits = pickle.loads(setup.limits)  # noqa: S301
    prepare_struct_types()
    while True:
        packed = connection.recv()
        report(0)
        connection.send(_done(packed, report))


def _done(packed: bytes, report: Callable[[int], None]) -> Done:
    try:
        return Done(pickle.loads(packed)(report))  # noqa: S301
    except FloecatError as error:
        return Done(error=error)
    except (EOFError, ConnectionError):
        raise
    except Exception as error:  # noqa: BLE001 - it goes on with other work
        # its text could hold anything, and the row is shown to users
        sys.excepthook(*sys.exc_info())
        return Done(error=UnavailableError(f"internal error: {type(error).__name__}"))
