"""Processes of our own program, which work for the process that started them and end with it.

Work is a module-level function, or a `functools.partial` of one. It is called in a process with what the
process made for itself once, and with a `WorkStep`, and yields results. Messages are pickled: both ends are
of one version and trust each other.
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
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from floecat.errors import FloecatError, UnavailableError
from floecat.gate import LockedGate, Turn

__all__ = ["NICENESS", "Check", "ChildPool", "PoolSetup", "ProcessEndedError", "Work", "WorkStep", "main"]

Check: TypeAlias = Callable[[Any], None]
"""Called with the value of the last step, None before the first one. Raises to stop the work."""

NICENESS: Final = 10
"""Steps by which the priority of a process is below that of the one that starts it."""

_LIFE: Final = 0
"""File descriptor that a process holds open for as long as it lives, and its children read: stdin."""

_MOST_KEYS: Final = 1000
_OF_THE_WORK: Final = frozenset(
    {signal.SIGXCPU, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
)
"""Signals by which work ends its process. Others come from outside."""


class PoolSetup(NamedTuple):
    """The processes of a pool."""

    open: Callable[[], Any]
    """Makes what work is given; called in the process, with the first work."""
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


class ChildPool:
    """Processes that do work, each for one thread at a time. Thread-safe.

    Attributes:
        turns: where work waits for a process, one unit each; accounts take turns.
    """

    def __init__(
        self,
        name: str,
        open_setup: Callable[[], PoolSetup],
        *,
        most: int = sys.maxsize,
        most_waiting: int | None = None,
        idle_s: float | None = 60.0,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Starts nothing yet.

        Args:
            name: of the kind of work, for errors and the list of processes.
            open_setup: makes the setup of a process that starts.
            most: processes at a time; further work waits for its turn.
            most_waiting: work that waits, `floecat.<name>.most-waiting`; None for any number.
            idle_s: how long processes stay when all work has ended; None for ever.
            environment: variables that a process has, unless they are set here.
        """
        self._name = name
        self._open_setup = open_setup
        self._environment = environment
        self.turns = LockedGate(most, most_waiting=most_waiting)
        self._most_waiting = most_waiting
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._free: list[_Process] = []
        self._last: dict[Hashable, _Process] = {}
        self._idle: threading.Timer | None = None
        self._closed = False

    def run(
        self,
        work: Work,
        check: Check,
        *,
        key: Hashable = None,
        every_s: float | None = None,
        stop_s: float = 60.0,
    ) -> Iterator[Any]:
        """Yields the results of work that a process does. To close the iterator stops the work.

        Args:
            work: it, and what it yields, are pickled.
            check: called at each step, and from time to time while work waits for its turn. An error stops
                the work, and is raised here when it has ended.
            key: the process that did the last work of the same key does this one, if it is free.
            every_s: calls `check` also with each result, and so often while nothing comes.
            stop_s: ends the process if nothing comes of stopped work for so long.

        Raises:
            ProcessEndedError: the process ended.
            UnavailableError: too much work waits, the system starts no process, or work failed by an error
                that is not passed.
            Exception: what `work` or `check` raises.
        """
        packed = pickle.dumps(work)
        with self._turn(check, every_s):
            for is_retry in (False, True):
                process = self._take(key)
                dialogue = _Dialogue(process.connection, check, every_s, stop_s)
                try:
                    yield from dialogue.results(packed)
                except (EOFError, ConnectionError):
                    exit_code = process.end()
                    # one that was idle may have ended before it saw the work
                    if is_retry or dialogue.begun:
                        raise ProcessEndedError(self._name, dialogue.value, exit_code) from None
                else:
                    break
                finally:
                    if dialogue.ended:
                        self._give_back(process, key)
                    else:
                        process.end()
        if dialogue.error is not None:
            raise dialogue.error

    def close(self) -> None:
        """Ends the free processes; the others end with their work."""
        self._closed = True
        self._end_free()

    @contextmanager
    def _turn(self, check: Check, every_s: float | None) -> Iterator[None]:
        turn = Turn()
        if not self.turns.ask(turn):
            raise UnavailableError(
                f"Too much work waits for a {self._name} process: {self._most_waiting}"
                f" (floecat.{self._name}.most-waiting); try again later",
                retry_after_s=5,
            )
        try:
            while not wait([turn.granted], every_s or 1.0).done:
                check(None)
            yield
        finally:
            if not self.turns.withdraw(turn):
                self.turns.give_back(1)

    def _take(self, key: Hashable) -> _Process:
        with self._lock:
            while self._free:
                last = self._last.get(key)
                process = last if last in self._free else self._free[0]
                self._free.remove(process)
                if process.is_alive:
                    return process
                process.end()
        try:
            return _Process(self._name, self._open_setup(), self._environment)
        except OSError as error:
            raise UnavailableError(f"A {self._name} process cannot be started: {error.strerror}") from None

    def _give_back(self, process: _Process, key: Hashable) -> None:
        with self._lock:
            self._free.append(process)
            if key is not None:
                self._last[key] = process
            if len(self._last) > _MOST_KEYS:
                self._last.clear()
            if self._idle is not None:
                self._idle.cancel()
            if self._idle_s is not None:
                self._idle = threading.Timer(self._idle_s, self._end_free)
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


class _Process:
    """A process. Used by one thread at a time."""

    def __init__(self, name: str, setup: PoolSetup, environment: Mapping[str, str]) -> None:
        """Starts it.

        Raises:
            OSError: the system starts no process.
        """
        own, other = socket.socketpair()
        with own, other:
            program = f"from {__name__} import main; main()  # {name}"
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-c", program, str(other.fileno())],
                pass_fds=[other.fileno()],
                stdin=subprocess.PIPE,
                env={**environment, **os.environ},
                start_new_session=True,  # an interrupt of the service is not for it
            )
            self.connection: Connection[Any, Any] = Connection(own.detach())
        self.connection.send(sys.path)
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
    """The messages about one work.

    Attributes:
        begun: whether the process has said anything.
        ended: whether the work has ended; then the process may do other work.
        value: of the last step.
        error: why the work was stopped, or failed.
    """

    def __init__(
        self, connection: Connection[Any, Any], check: Check, every_s: float | None, stop_s: float
    ) -> None:
        self._connection = connection
        self._check = check
        self._every_s = every_s
        self._stop_s = stop_s
        self.begun = False
        self.ended = False
        self.value: Any = None
        self.error: Exception | None = None

    def results(self, packed: bytes) -> Iterator[Any]:
        """Yields results until the work has ended, or takes too long to end.

        Raises:
            EOFError, ConnectionError: the process ended.
        """
        self._connection.send(packed)
        try:
            yield from self._rest()
        except GeneratorExit:
            with suppress(EOFError, ConnectionError):
                self.error = _StoppedError()
                self._connection.send(False)
                for _ in self._rest():
                    pass
            raise

    def _rest(self) -> Iterator[Any]:
        while not self.ended:
            if not self._connection.poll(self._every_s if self.error is None else self._stop_s):
                if self.error is not None:
                    return
                self._check_between()
                continue
            message = self._connection.recv()
            self.begun = True
            if isinstance(message, _Result):
                if self._every_s is not None:
                    self._check_between()
                yield message.value
            elif isinstance(message, _Told):
                self.value = message.value
                self._connection.send(self._may_go_on())
            else:
                self.ended = True
                self.error = self.error or message.error

    def _check_between(self) -> None:
        if self.error is None and not self._may_go_on():
            self._connection.send(False)

    def _may_go_on(self) -> bool:
        if self.error is None:
            try:
                self._check(self.value)
            except Exception as error:  # noqa: BLE001 - raised once the work has ended
                self.error = error
        return self.error is None


class WorkStep:
    """Lets work tell how far it is, and hear whether it may go on. Thread-safe."""

    def __init__(self, connection: Connection[Any, Any], processor_s: int | None) -> None:
        self._connection = connection
        self._processor_s = processor_s
        self._asking = threading.Lock()
        self._sending = threading.Lock()

    def __call__(self, value: Any) -> None:
        """Tells a value, and returns when the work may go on; raises to stop it."""
        if self._processor_s is not None:
            # a few bytes can stand for any number of rows
            _, hard = resource.getrlimit(resource.RLIMIT_CPU)
            limit = math.ceil(time.process_time()) + self._processor_s
            resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))
        with self._asking:
            with self._sending:
                self._connection.send(_Told(value))
            if not self._connection.recv():
                raise _StoppedError

    def is_stopped(self) -> bool:
        """Whether the work is to end. Asks nobody, and so waits for nobody."""
        with self._asking:
            return self._connection.poll()

    def send(self, result: Any) -> None:
        """Sends a result; raises to stop the work."""
        with self._sending:
            self._connection.send(_Result(result))
        if self.is_stopped():
            raise _StoppedError


Work: TypeAlias = Callable[[Any, WorkStep], Iterable[Any]]
"""A function that is called with what the process made for itself."""


def main() -> None:
    """Does the work of a `ChildPool`; the process ends at once when its parent does."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    with suppress(EOFError, ConnectionError):
        sys.path[:] = connection.recv()
        os.nice(NICENESS)
        _serve(connection, connection.recv())


def _serve(connection: Connection[Any, Any], setup: PoolSetup) -> None:
    if setup.memory_bytes is not None:
        # pages of a damaged file may claim any size
        resource.setrlimit(resource.RLIMIT_DATA, (setup.memory_bytes, setup.memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would hold rows
    step = WorkStep(connection, setup.processor_s)
    opened: list[Any] = []
    passed: tuple[type[Exception], ...] = (FloecatError, _StoppedError, *setup.passed)
    while True:
        packed = connection.recv()
        if packed is False:
            continue  # a stop that came after the end
        try:
            if not opened:
                opened.append(setup.open())
            step(None)
            for result in pickle.loads(packed)(opened[0], step):  # noqa: S301
                step.send(result)
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


def _end_with_parent() -> None:
    # nothing is ever written there: it ends when the parent is gone, killed or not
    with suppress(OSError):
        os.read(_LIFE, 1)
    os._exit(1)
