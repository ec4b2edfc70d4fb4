"""Runs the application in this process, or in several."""

from __future__ import annotations

import gc
import logging
import math
import os
import signal
import socket
import sys
import tempfile
import time
from functools import partial
from types import FrameType

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from floecat.allocator import limit_heaps
from floecat.auth.authentication import open_authentication
from floecat.auth.issuers import issuer_key, issuers
from floecat.credentials.secrets import require_keys
from floecat.errors import UnavailableError
from floecat.memory_budget import MemoryBudget
from floecat.runtime import kernel
from floecat.settings import Settings
from floecat.settings.loading import check_rules
from floecat_rest.exit_codes import describe_exit
from floecat_rest.http.connections import Connections
from floecat_rest.http.protocol import CatalogHttpProtocol
from floecat_rest.logs import configure_logging

__all__ = ["Supervisor", "bind_sockets", "run"]

_log = logging.getLogger(__name__)

_END_AFTER_GRACE_S = 5
_WORKER_START_S = 60
_STEADY_S = 30
_LONGEST_PAUSE_S = 60
_COLLECT_AFTER = 50_000
_SWITCH_INTERVAL_S = 0.0005
"""Time a thread computes before others get their turn. With the default, 5 ms, a commit waits in line after
each call of disk and store: sixteen clients make a quarter fewer commits, measured."""
_ACCEPTED_AT_ONCE = 16
"""Connections that are accepted before requests of others are read again. The event loop accepts one of each
socket: with one socket, a new client waited as many rounds as there were others before it."""
_METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def run(settings: Settings) -> None:
    """Serves until SIGINT or SIGTERM.

    Running requests then have `limits.shutdown-grace` to finish; 5 s later the process ends, whatever runs.

    Raises:
        SettingsError: the settings are unsafe together, as `auth-mode=dev` on an address that others
            reach, or the issuer of tokens has another name, or the schema of the store is an old one, or
            keys of secrets are missing.
        StoreUnavailableError: the store does not answer.
    """
    check_rules(settings)
    configure_logging(settings.log)
    config = uvicorn.Config(
        partial(_worker_app, settings),
        factory=True,
        host=settings.gateway.host,
        port=settings.gateway.rest_port,
        workers=settings.gateway.workers,
        loop="uvloop",
        http=partial(CatalogHttpProtocol, Connections(settings.limits)),  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(settings.limits.shutdown_grace.seconds),
        timeout_worker_healthcheck=_WORKER_START_S,
    )
    # Opened here too, because a worker that cannot start reports it in the log only.
    with kernel(settings) as opened:
        opened.catalog.nested.adopt_separator()
    require_keys(settings)
    _check_issuer(settings)
    if settings.gateway.workers == 1:
        uvicorn.Server(config).run(sockets=bind_sockets(config))
    else:
        _run_workers(config)


def _check_issuer(settings: Settings) -> None:
    """Compares the settings with the issuer, where it can be reached.

    Raises:
        SettingsError: they contradict each other.
    """
    try:
        open_authentication(settings, MemoryBudget()).check()
    except UnavailableError as error:
        _log.warning("%s", error.message)  # workers ask again
    if settings.gateway.auth_mode != "oidc":
        return
    for name, issuer in issuers(settings).items():
        if not issuer.audience:
            _log.warning(
                "%s.audience is not set: every access token of the issuer is accepted, also those for other"
                " services",
                issuer_key(name),
            )


def _run_workers(config: uvicorn.Config) -> None:
    # Counters of all workers are summed up through files in this folder.
    with tempfile.TemporaryDirectory(prefix="floecat-metrics-") as folder:
        os.environ.setdefault(_METRICS_FOLDER, folder)
        Supervisor(config, sockets=bind_sockets(config)).run()


def bind_sockets(config: uvicorn.Config) -> list[socket.socket]:
    """The socket of the configured address, `_ACCEPTED_AT_ONCE` times."""
    bound = config.bind_socket()
    return [bound, *(bound.dup() for _ in range(_ACCEPTED_AT_ONCE - 1))]


class Supervisor(Multiprocess):
    """Restarts workers that die or hang, with pauses that double while they die soon after their start.

    It never waits for a worker, so it notices each death at once.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._asked_at_s: dict[Process, float] = {}
        self._places = [_Place() for _ in range(config.workers)]
        self._begun_at_s = time.monotonic()

    def keep_subprocess_alive(self) -> None:
        """Looks after all workers; called twice a second."""
        for index, place in enumerate(self._places):
            worker = self.processes[index]
            now_s = time.monotonic()
            if place.starts_at_s is None:
                if self._is_well(worker):
                    continue
                worker.kill()
                worker.join()
                self._asked_at_s.pop(worker, None)
                _forget_gauges(worker.pid)
                how = describe_exit(worker.exitcode)
                if worker.exitcode == STARTUP_FAILURE and now_s - self._begun_at_s < _STEADY_S:
                    _log.error("worker %s could not start; the service stops", worker.pid)
                    self.should_exit.set()
                    return
                pause_s = place.pause_s(now_s)
                _log.error("worker %s ended (%s); another one starts in %d s", worker.pid, how, pause_s)
                place.starts_at_s = now_s + pause_s
            if place.starts_at_s <= now_s:
                self.processes[index] = Process(self.config, self.sockets)
                self.processes[index].start()
                place.starts_at_s, place.started_at_s = None, now_s

    def join_all(self) -> None:
        """Waits for the workers, and kills those that do not end in time."""
        grace_s = self.config.timeout_graceful_shutdown or 0
        deadline_s = time.monotonic() + grace_s + _END_AFTER_GRACE_S + 1
        for worker in self.processes:
            worker.process.join(max(0.0, deadline_s - time.monotonic()))
            worker.process.kill()
        super().join_all()

    def _is_well(self, worker: Process) -> bool:
        if not worker.process.is_alive():
            return False
        now_s = time.monotonic()
        try:
            while worker.parent_conn.poll():
                worker.parent_conn.recv()
                self._asked_at_s.pop(worker, None)
            if worker not in self._asked_at_s:
                worker.parent_conn.send(b"ping")
                self._asked_at_s[worker] = now_s
        except (OSError, EOFError):
            return False
        return now_s - self._asked_at_s[worker] < self.config.timeout_worker_healthcheck


class _Place:
    """The start of the worker of a place, past or to come."""

    def __init__(self) -> None:
        self.started_at_s = time.monotonic()
        self.starts_at_s: float | None = None
        self._early_deaths = 0

    def pause_s(self, now_s: float) -> int:
        """The pause after a death: none after the first, or after a worker that lived for a while."""
        if now_s - self.started_at_s > _STEADY_S:
            self._early_deaths = 0
        self._early_deaths += 1
        return min((1 << (self._early_deaths - 1)) - 1, _LONGEST_PAUSE_S)


def _forget_gauges(pid: int | None) -> None:
    """Takes the gauges of a worker that ended out of the sums of `/metrics`."""
    # imported once the folder of metrics is set, as the library looks for it when it is imported
    from prometheus_client import multiprocess

    if _METRICS_FOLDER in os.environ:
        multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]


def _end_in_time(number: int, within_s: int) -> None:
    """Has the system end this process, if it has not ended by itself some time after a signal."""
    handler = signal.getsignal(number)

    def end(received: int, frame: FrameType | None) -> None:
        # not a thread: one that never lets go of the interpreter would keep it from running
        signal.alarm(within_s)
        if callable(handler):
            handler(received, frame)

    signal.signal(number, end)


def _worker_app(settings: Settings) -> object:
    from floecat_rest.app import create_app

    configure_logging(settings.log)
    limit_heaps()
    within_s = math.ceil(settings.limits.shutdown_grace.seconds) + _END_AFTER_GRACE_S
    for number in (signal.SIGINT, signal.SIGTERM):
        _end_in_time(number, within_s)
    try:
        app = create_app(settings)
    except Exception as error:
        _log.error("the worker cannot start: %s: %s", type(error).__name__, error)
        raise
    # Routes and modules live as long as the process, so the garbage collector can skip them.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    return app
