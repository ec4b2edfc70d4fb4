"""Child processes that are started, watched and ended together."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from threading import Event
from types import FrameType, TracebackType
from typing import Self

from floecat.errors import FloecatError
from floecat_rest.commands.service.log_files import ServiceLog, cause
from floecat_rest.exit_codes import describe_exit

__all__ = ["DIRECT", "ChildEndedError", "Processes", "Service", "StopRequestedError"]

_POLL_S = 0.1
_STOP_S = 40.0
"""Longest time that a service takes to end after SIGTERM, if nothing else is said of it."""

_LEFTOVER_S = 3.0
"""Longest time that remains of a service take to end after it, before they are killed."""

_TAIL_LINES = 20

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Services of this machine are not asked through a proxy."""


class ChildEndedError(FloecatError):
    """A service that should run has ended."""


class StopRequestedError(FloecatError):
    """The user or the system asked to stop."""


class Service:
    """A child process in a process group of its own."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: ServiceLog | None = None,
        ready_url: str | None = None,
        *,
        stop_s: float = _STOP_S,
    ) -> None:
        """Describes a service.

        Args:
            name: of the service, for messages.
            command: program and arguments.
            log: for its output. None: it writes where we do.
            ready_url: answers 200 as soon as the service is ready. None: ready once started.
            stop_s: how long it may take to end after SIGTERM.
        """
        self.name = name
        self.command = list(command)
        self.log = log
        self.ready_url = ready_url
        self.stop_s = stop_s
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, environ: Mapping[str, str]) -> None:
        """Starts it in its own session, so that a Ctrl-C of the terminal reaches only us."""
        with self.log.open() if self.log else nullcontext() as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own programs
                self.command,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if output else None,
                start_new_session=True,
            )

    def exit_code(self) -> int | None:
        """The exit code; None while it runs or before it was started."""
        return None if self._process is None else self._process.poll()

    def is_ready(self) -> bool:
        """Whether it answers."""
        if self.ready_url is None:
            return True
        try:
            with DIRECT.open(self.ready_url, timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, http.client.HTTPException):
            return False

    def terminate(self) -> None:
        """Ask it to end. It ends its own children."""
        if self._process is not None:
            self._process.terminate()

    def end(self, deadline: float) -> None:
        """Waits for the end of the service and of what it left behind; kills what does not end in time.

        Args:
            deadline: on the clock of `time.monotonic`.
        """
        if self._process is None:
            return
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._group_ends(self._process.pid, number):
                break
        self._process.wait()

    def _group_ends(self, group: int, number: signal.Signals) -> bool:
        """Sends a signal to what is left of the group; whether nothing is left soon after."""
        deadline = time.monotonic() + _LEFTOVER_S
        try:
            os.killpg(group, number)
            while time.monotonic() < deadline:
                time.sleep(_POLL_S)
                self.exit_code()  # collects the service itself, which is of the group until then
                os.killpg(group, 0)
        except ProcessLookupError:
            return True
        return False

    def ending(self) -> str:
        """The reason why it ended, then the last lines that it wrote. A signal is reason enough."""
        code = self.exit_code()
        lines = self.log.lines() if self.log else []
        killed = code is not None and code < 0
        why = None if killed else cause(lines)
        first = f"{self.name} ended{f': {why}' if why else ''} ({describe_exit(code)})"
        tail = [f"The end of {self.log.path}:", *lines[-_TAIL_LINES:]] if self.log and lines else []
        return "\n".join([first, *tail])

    def silence(self, problem: str) -> str:
        """A message that it takes too long, and where to look."""
        return f"{self.name} {problem}" + (f"; see {self.log.path}" if self.log else "")


class Processes:
    """Services that are started and stopped together.

    As a context manager it turns SIGINT, SIGTERM and SIGHUP into a request that `check` reports, and ends all
    services when the block is left, however it is left.

    Attributes:
        environ: environment of the services.
    """

    def __init__(self, environ: Mapping[str, str], tell: Callable[[str], object] = lambda _: None) -> None:
        self.environ = environ
        self._tell = tell
        self._started: list[Service] = []
        self._watched: list[Service] = []
        self._stop = Event()
        self._handlers: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._handlers[number] = signal.signal(number, lambda *_: self._stop.set())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The handlers stay while the services end: a second Ctrl-C must not leave some of them behind.
        self._end_all()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def start(self, service: Service) -> None:
        """Starts a service and watches it from now on."""
        self._start(service)
        self._watched.append(service)

    def run(self, service: Service, timeout_s: float) -> None:
        """Runs a command to completion.

        Raises:
            ChildEndedError: it failed or took too long, or a watched service ended meanwhile.
            StopRequestedError: a signal came.
        """
        deadline = time.monotonic() + timeout_s
        self._start(service)
        while service.exit_code() is None:
            if time.monotonic() > deadline:
                raise ChildEndedError(service.silence(f"did not finish within {timeout_s:.0f} s"))
            self._stop.wait(_POLL_S)
            self.check()
        if service.exit_code() != 0:
            raise ChildEndedError(service.ending())

    def check(self) -> None:
        """Raise if there is a reason to stop.

        Raises:
            StopRequestedError: a signal came.
            ChildEndedError: a service has ended; with the end of its log.
        """
        if self._stop.is_set():
            raise StopRequestedError("stopped")
        for service in self._watched:
            if service.exit_code() is not None:
                raise ChildEndedError(service.ending())

    def wait_ready(self, service: Service, timeout_s: float) -> None:
        """Waits until a service answers.

        Raises:
            ChildEndedError: a service ended meanwhile, or this one did not answer in time.
            StopRequestedError: a signal came.
        """
        self.wait_until(service.is_ready, service, timeout_s)

    def wait_until(self, done: Callable[[], bool], service: Service, timeout_s: float) -> None:
        """Waits until a condition holds that depends on a service; raises what `wait_ready` raises."""
        deadline = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > deadline:
                raise ChildEndedError(service.silence(f"did not answer within {timeout_s:.0f} s"))
            self._stop.wait(_POLL_S)
            self.check()

    def wait(self) -> None:
        """Waits until one of them ends or a signal comes.

        Raises:
            ChildEndedError: a service has ended.
            StopRequestedError: a signal came.
        """
        while True:
            self._stop.wait(0.5)
            self.check()
            for service in self._watched:
                if service.log is not None:
                    service.log.rotate()

    def _start(self, service: Service) -> None:
        self.check()
        service.start(self.environ)
        self._started.append(service)

    def _end_all(self) -> None:
        self._tell("Stopping")
        for service in self._started:
            service.terminate()
        asked_at = time.monotonic()
        for service in self._started:
            service.end(asked_at + service.stop_s)
