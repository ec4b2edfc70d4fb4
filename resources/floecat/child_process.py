"""Processes of our own program, which work for the process that started them and end with it.

Work is a module-level function, or a `functools.partial` of one. It is called in a process with what the
process made for itself once, and with a `Step`, and yields results. Messages are pickled: both ends are of
one version and trust each other.
"""

from __future__ import annotations

import math
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from floecat.errors import FloecatError, UnavailableError

__all__ = [
    "ChildPool",
    "ChildProcess",
    "PoolSetup",
    "ProcessEndedError",
    "ProcessSetup",
    "Step",
    "Work",
    "main",
    "serve_parent",
]

Step: TypeAlias = Callable[[Any], None]
"""Tells the other process how far the work is, and returns when it may go on; raises to stop it."""

Work: TypeAlias = Callable[[Any, Step], Iterable[Any]]
"""Called with what the process made for itself."""

_LIFE: Final = 0
"""File descriptor that a process holds open for as long as it lives, and its children read: stdin."""

_IDLE_S: Final = 60.0
_STOP_S: Final = 60.0
_OF_THE_WORK: Final = frozenset(
    {signal.SIGXCPU, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
)
"""Signals by which work ends its process. Others come from outside."""


class ProcessSetup(Protocol):
    """The first message to a process, beside what its program needs."""

    @property
    def path(self) -> list[str]:
        """The places where Python finds modules."""
        ...

    @property
    def niceness(self) -> int:
        """The difference of its priority to that of the process that starts it, downwards."""
        ...


class PoolSetup(NamedTuple):
    """The processes of a pool."""

    open: bytes
    """Pickled function without arguments, which makes what work is given; called with the first work."""
    path: list[str]
    niceness: int = 10
    memory_bytes: int | None = None
    """Bytes that a process may allocate."""
    processor_s: int | None = None
    """Processor time from one step to the next."""
    passed: tuple[type[Exception], ...] = ()
    """Errors of work that are raised in the other process, beside `FloecatError`."""


class ProcessEndedError(UnavailableError):
    """The process ended in the middle of its work.

    Attributes:
        value: of the last step.
        signal: what ended it, if the work did: a library failed, or it took too much processor time.
    """

    def __init__(self, name: str, value: Any, exit_code: int) -> None:
        super().__init__(f"The {name} process ended")
        self.value = value
        self.signal = signal.Signals(-exit_code) if -exit_code in _OF_THE_WORK else None


class ChildProcess:
    """A process. Used by one thread at a time."""

    def __init__(
        self,
        module: str,
        setup: ProcessSetup,
        *,
        descriptors: Sequence[int] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
        name: str = "",
    ) -> None:
        """Starts it.

        Args:
            module: whose `main` calls `serve_parent`.
            setup: the first message.
            descriptors: open files that it gets too; see `serve_parent`.
            environment: variables that it has, unless they are set here.
            name: shown in the list of processes.

        Raises:
            OSError: the system starts no process.
        """
        own, other = socket.socketpair()
        with own, other:
            passed = (other.fileno(), *descriptors)
            program = f"from {module} import main; main()  # {name}"
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-c", program, *map(str, passed)],
                pass_fds=passed,
                stdin=subprocess.PIPE,
                env={**environment, **os.environ},
                start_new_session=True,  # an interrupt of the service is not for it
            )
            self.connection: Connection[Any, Any] = Connection(own.detach())
        self.connection.send(setup)

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def end(self) -> int:
        """Ends it, whatever it does. Returns its exit code, a negative signal number if one ended it."""
        self.connection.close()
        self._process.kill()
        exit_code = self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        return exit_code


class ChildPool:
    """Processes that do work, each for one thread at a time. Thread-safe.

    A process that is free stays for a minute.
    """

    def __init__(
        self,
        name: str,
        open_setup: Callable[[], PoolSetup],
        *,
        most: int | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Starts nothing yet.

        Args:
            name: of the kind of work, for errors and the list of processes.
            open_setup: makes the setup of a process that starts.
            most: processes at a time; further work waits for its turn.
            environment: variables that a process has, unless they are set here.
        """
        self._name = name
        self._open_setup = open_setup
        self._environment = environment
        self._turns = None if most is None else threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._free: list[ChildProcess] = []
        self._idle: threading.Timer | None = None
        self._closed = False

    def run(self, work: Work, check: Step, *, every_s: float | None = None) -> Iterator[Any]:
        """Yields the results of work that a process does.

        Args:
            work: it, and what it yields, are pickled.
            check: called with the value of each step, and with None while work waits for its turn. An error
                stops the work there, and is raised here.
            every_s: calls `check` with the last value also so often between steps; an error ends the process.

        Raises:
            ProcessEndedError: the process ended.
            UnavailableError: the system starts no process, or work failed by an error that is not passed.
            Exception: what `work` or `check` raises.
        """
        if self._turns is None:
            yield from self._run(pickle.dumps(work), check, every_s)
            return
        while not self._turns.acquire(timeout=1.0):
            check(None)
        try:
            yield from self._run(pickle.dumps(work), check, every_s)
        finally:
            self._turns.release()

    def _run(self, packed: bytes, check: Step, every_s: float | None) -> Iterator[Any]:
        for is_retry in (False, True):
            process = self._take()
            dialogue = _Dialogue(process.connection, check, every_s)
            try:
                yield from dialogue.results(packed)
            except (EOFError, ConnectionError):
                exit_code = process.end()
                # one that was idle may have ended before it saw the work
                if is_retry or dialogue.begun:
                    raise ProcessEndedError(self._name, dialogue.value, exit_code) from None
            except BaseException:
                process.end()
                raise
            else:
                self._give_back(process)
                if dialogue.error is not None:
                    raise dialogue.error
                return

    def close(self) -> None:
        """Ends the free processes; the others end with their work."""
        self._closed = True
        self._end_free()

    def _take(self) -> ChildProcess:
        with self._lock:
            while self._free:
                process = self._free.pop()
                if process.is_alive:
                    return process
                process.end()
        try:
            return ChildProcess(__name__, self._open_setup(), environment=self._environment, name=self._name)
        except OSError as error:
            raise UnavailableError(f"A process cannot be started: {error.strerror}") from None

    def _give_back(self, process: ChildProcess) -> None:
        with self._lock:
            self._free.append(process)
            if self._idle is not None:
                self._idle.cancel()
            self._idle = threading.Timer(_IDLE_S, self._end_free)
            self._idle.daemon = True
            self._idle.start()
        if self._closed:
            self._end_free()

    def _end_free(self) -> None:
        with self._lock:
            free, self._free = self._free, []
            if self._idle is not None:
                self._idle.cancel()
        for process in free:
            process.end()


class _Told(NamedTuple):
    """A step; the process waits whether it may go on."""

    value: Any


class _Result(NamedTuple):
    """A result."""

    value: Any


class _Ended(NamedTuple):
    """The last message about some work."""

    error: Exception | None = None


class _StoppedError(Exception):
    """The other process stops the work, and knows why."""


class _Dialogue:
    """The messages about one work."""

    def __init__(self, connection: Connection[Any, Any], check: Step, every_s: float | None) -> None:
        self._connection = connection
        self._check = check
        self._every_s = every_s
        self.begun = False
        self.value: Any = None
        self.error: Exception | None = None

    def results(self, packed: bytes) -> Iterator[Any]:
        """Yields results until the work has ended.

        Raises:
            EOFError, ConnectionError: the process ended.
            Exception: of `check` between two steps, or if stopped work does not end.
        """
        self._connection.send(packed)
        while True:
            if not self._connection.poll(self._every_s if self.error is None else _STOP_S):
                if self.error is not None:
                    raise self.error
                self._check(self.value)
                continue
            message = self._connection.recv()
            self.begun = True
            if isinstance(message, _Result):
                yield message.value
            elif isinstance(message, _Told):
                self._answer(message.value)
            else:
                self.error = self.error or message.error
                return

    def _answer(self, value: Any) -> None:
        self.value = value
        if self.error is None:
            try:
                self._check(value)
            except Exception as error:  # noqa: BLE001 - raised once the work has ended
                self.error = error
        self._connection.send(self.error is None)


def main() -> None:
    """Does the work of a `ChildPool`."""
    serve_parent(_work)


def _work(connection: Connection[Any, Any], setup: PoolSetup) -> None:
    if setup.memory_bytes is not None:
        # pages of a damaged file may claim any size
        resource.setrlimit(resource.RLIMIT_DATA, (setup.memory_bytes, setup.memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would hold rows
    lock = threading.Lock()
    opened: list[Any] = []
    passed: tuple[type[Exception], ...] = (FloecatError, _StoppedError, *setup.passed)

    def step(value: Any) -> None:
        if setup.processor_s is not None:
            # a few bytes can stand for any number of rows
            _, hard = resource.getrlimit(resource.RLIMIT_CPU)
            limit = math.ceil(time.process_time()) + setup.processor_s
            resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))
        with lock:
            connection.send(_Told(value))
            if not connection.recv():
                raise _StoppedError

    while True:
        packed = connection.recv()
        try:
            if not opened:
                opened.append(pickle.loads(setup.open)())  # noqa: S301
            step(None)
            for result in pickle.loads(packed)(opened[0], step):  # noqa: S301
                with lock:
                    connection.send(_Result(result))
            ended = _Ended()
        except passed as error:
            ended = _Ended(error)
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - it goes on with other work
            # its text could hold anything, and the row of a job is shown to users
            sys.excepthook(*sys.exc_info())
            ended = _Ended(UnavailableError(f"internal error: {type(error).__name__}"))
        connection.send(ended)


def serve_parent(serve: Callable[..., None]) -> None:
    """Runs the program of a `ChildProcess`; the process ends at once when its parent does.

    Args:
        serve: gets the connection to the parent, the setup, and the further descriptors.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    own, *descriptors = map(int, sys.argv[1:])
    connection: Connection[Any, Any] = Connection(own)
    with suppress(EOFError, ConnectionError):
        setup = connection.recv()
        sys.path[:] = setup.path
        os.nice(setup.niceness)
        serve(connection, setup, *descriptors)


def _end_with_parent() -> None:
    # nothing is ever written there: it ends when the parent is gone, killed or not
    with suppress(OSError):
        os.read(_LIFE, 1)
    os._exit(1)
