"""Processes of our own programs, which work for the process that started them and end with it.

Messages are pickled: both ends are of one version and trust each other. A message that the other end sends
as the first one is the setup of the process.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import Any, Final, Protocol

from floecat.errors import UnavailableError

__all__ = ["ChildPool", "ChildProcess", "ProcessSetup", "serve_parent"]

_LIFE: Final = 0
"""File descriptor that a process holds open for as long as it lives, and its children read: stdin."""

_IDLE_S: Final = 60.0


class ProcessSetup(Protocol):
    """What the first message to a process says beside what its program needs."""

    @property
    def path(self) -> list[str]:
        """Where Python finds modules."""
        ...

    @property
    def niceness(self) -> int:
        """How far its priority is below that of the process that starts it."""
        ...


class ChildProcess:
    """One process. Used by one thread at a time."""

    def __init__(
        self,
        module: str,
        setup: ProcessSetup,
        *,
        descriptors: Sequence[int] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Starts it.

        Args:
            module: whose `main` calls `serve_parent`.
            setup: the first message.
            descriptors: open files that it gets too; see `serve_parent`.
            environment: variables that it has, unless they are set here.

        Raises:
            OSError: the system starts no process.
        """
        own, other = socket.socketpair()
        with own, other:
            passed = (other.fileno(), *descriptors)
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-c", f"from {module} import main; main()", *map(str, passed)],
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
    """Processes of one program, each working for one thread at a time. Thread-safe.

    A process that is free stays for a minute.
    """

    def __init__(
        self,
        module: str,
        setup: ProcessSetup,
        *,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Starts nothing yet; for the arguments see `ChildProcess`."""
        self._module = module
        self._setup = setup
        self._environment = environment
        self._lock = threading.Lock()
        self._free: list[ChildProcess] = []
        self._idle: threading.Timer | None = None
        self._closed = False

    def take(self) -> ChildProcess:
        """A free process, or a new one. It is given back, or ended.

        Raises:
            UnavailableError: the system starts no process.
        """
        with self._lock:
            while self._free:
                process = self._free.pop()
                if process.is_alive:
                    return process
                process.end()
        try:
            return ChildProcess(self._module, self._setup, environment=self._environment)
        except OSError as error:
            raise UnavailableError(f"A process cannot be started: {error.strerror}") from None

    def give_back(self, process: ChildProcess) -> None:
        """Frees a process that waits for its next work."""
        with self._lock:
            self._free.append(process)
            if self._idle is not None:
                self._idle.cancel()
            self._idle = threading.Timer(_IDLE_S, self._end_free)
            self._idle.daemon = True
            self._idle.start()
        if self._closed:
            self._end_free()

    def close(self) -> None:
        """Ends the free processes; the others end when they are given back."""
        self._closed = True
        self._end_free()

    def _end_free(self) -> None:
        with self._lock:
            free, self._free = self._free, []
            if self._idle is not None:
                self._idle.cancel()
        for process in free:
            process.end()


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
