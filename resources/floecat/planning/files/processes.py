"""Processes that make plans, so that heavy ones do not hold the interpreter that answers loads.

Decoded manifests stay in the memory of the process, and a table's plans go to the process that planned it
last if that one is free. Processes that no plan waits for decode manifests for one that finds few in memory:
it listens at a socket, where they connect and send what they decode.
"""

from __future__ import annotations

import pickle
import secrets
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, Final, NamedTuple, TypeVar

from floecat.child_process import ChildPool, PoolSetup, WorkStep
from floecat.errors import FloecatError, PlanStoppedError, UnavailableError
from floecat.iceberg.values.bounds import Bounds, process_bounds
from floecat.memory_budget import LruCache
from floecat.planning.files.disk_cache import open_disk_cache
from floecat.planning.files.scan_planning import local_planner
from floecat.planning.files.scans import ScanPlan, Stop
from floecat.planning.files.targets import ScanTarget
from floecat.storage.catalog_storage import CatalogStorage
from floecat.storage.own_folders import CheckRead

__all__ = ["PlanProcesses"]

T = TypeVar("T")

_KEEPS_MEMORY: Final = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
"""Decoding a manifest takes and frees megabytes, which glibc would return to the system each time."""

_CHECK_S: Final = 0.05
_STOP_S: Final = 5.0
_START_S: Final = 30.0
_STORAGES: Final = 64


class PlanProcesses:
    """The processes. Thread-safe."""

    def __init__(
        self,
        count: int,
        *,
        memory_bytes: int,
        threads: int,
        most_waiting: int,
        bounds: Bounds,
        disk: tuple[str | None, int] = (None, 0),
    ) -> None:
        """Starts nothing yet: a process starts with the first plan that finds no free one.

        Args:
            count: of processes.
            memory_bytes: of manifests, for all processes together.
            threads: of each process.
            most_waiting: plans that may wait for a process.
            bounds: of manifests.
            disk: folder and bytes of a `DiskCache`.
        """
        opening = partial(_Opened, memory_bytes // count, threads, bounds, disk, secrets.token_bytes())
        self._pool = ChildPool(
            "planning",
            lambda: PoolSetup(opening),
            most=count,
            most_waiting=most_waiting,
            idle_s=None,  # they keep manifests
            environment=_KEEPS_MEMORY,
        )
        self._closed = False

    def run(
        self,
        storage: CatalogStorage,
        target: ScanTarget,
        work: Callable[[ScanPlan], Iterator[T]],
        stop: Stop | None,
        check_read: CheckRead,
    ) -> Iterator[T]:
        """Yields what `work` makes of a plan; see `Planner.run`. Results must be taken without delay.

        `check_read` is that of `ScanPlanner.plan`, and called here; for the same folders more than once.
        """
        packed = pickle.dumps(storage)
        over = threading.Event()
        calls: list[_Call] = []

        def check(call: _Call | _Folders | None) -> None:
            if self._closed:
                raise UnavailableError("The service is stopping")
            if stop is not None and stop():
                raise PlanStoppedError("The plan was stopped")
            if isinstance(call, _Folders):
                check_read(call.folders)
            elif call is not None and not calls:
                calls.append(call)
                self._help(partial(_decode, packed, target, call), over)

        table = target.snapshots[0].manifest_list if target.snapshots else None
        folder = (table or "").rpartition("/")[0]
        planning = partial(_plan, packed, target, work)
        try:
            yield from self._pool.run(planning, check, key=folder, every_s=_CHECK_S, stop_s=_STOP_S)
        finally:
            over.set()

    def close(self) -> None:
        """Ends all processes; plans that are being made fail."""
        self._closed = True
        self._pool.close()

    def _help(self, decode: Callable[..., Iterator[None]], over: threading.Event) -> None:
        """Has processes that nobody waits for decode a part of the manifests each, until the plan is over."""

        def check(_: None) -> None:
            if over.is_set() or self._pool.turns.is_waited_for:
                raise PlanStoppedError("The help is no longer needed")

        def help(part: int) -> None:
            with suppress(FloecatError):  # the plan does without
                # one that is only starting takes a moment to stop
                list(self._pool.run(partial(decode, (part, parts)), check, every_s=_CHECK_S, stop_s=_START_S))

        parts = self._pool.turns.spare
        for part in range(1, parts + 1):
            threading.Thread(target=help, args=(part,), daemon=True).start()


class _Call(NamedTuple):
    """A call for help: many manifests of a plan have to be decoded.

    Attributes:
        column_ids: columns whose metrics are needed.
        address: of the socket to which decoded manifests may be sent.
    """

    column_ids: frozenset[int]
    address: str


class _Folders(NamedTuple):
    """Folders of manifests that are not the table's own; nothing of them is read without an answer."""

    folders: Collection[str]


class _Opened:
    """The parts that a process works with."""

    def __init__(
        self, memory_bytes: int, threads: int, bounds: Bounds, disk: tuple[str | None, int], key: bytes
    ) -> None:
        process_bounds.limits = bounds
        self.planner = local_planner(memory_bytes, threads, bounds, open_disk_cache(*disk))
        self.key = key
        self.address = f"\0floecat-{secrets.token_hex(16)}"  # of no file
        self._storages: LruCache[CatalogStorage] = LruCache(_STORAGES)
        listener = Listener(self.address, "AF_UNIX", authkey=key)
        threading.Thread(target=self._take_help, args=(listener,), daemon=True).start()

    def storage(self, packed: bytes) -> CatalogStorage:
        """A catalog's storage, with the connections that it has."""
        return self._storages.get_or_make(packed, lambda: pickle.loads(packed), lambda _: 1)  # noqa: S301

    def _take_help(self, listener: Listener) -> None:
        while True:
            with suppress(AuthenticationError, EOFError, ConnectionError):
                threading.Thread(target=self._keep, args=(listener.accept(),), daemon=True).start()

    def _keep(self, other: Connection[Any, Any]) -> None:
        """Keeps what another process decodes."""
        with other, suppress(EOFError, ConnectionError):
            storage, table_uuid = other.recv()
            while True:
                self.planner.manifests.keep(self.storage(storage), table_uuid, *other.recv())


def _plan(
    storage: bytes,
    target: ScanTarget,
    work: Callable[[ScanPlan], Iterator[T]],
    opened: _Opened,
    step: WorkStep,
) -> Iterator[T]:
    """Runs in a process."""

    def call(column_ids: frozenset[int]) -> None:
        step(_Call(column_ids, opened.address))

    def check_read(folders: Collection[str]) -> None:
        step(_Folders(folders))

    plan = opened.planner.plan(opened.storage(storage), target, step.is_stopped, call, check_read)
    yield from work(plan)


def _decode(
    storage: bytes, target: ScanTarget, call: _Call, part: tuple[int, int], opened: _Opened, step: WorkStep
) -> Iterator[None]:
    """Runs in a process that helps, until all manifests are decoded, or it is stopped, or the plan ends."""
    decoded = opened.planner.decode(opened.storage(storage), target, call.column_ids, part, step.is_stopped)
    with suppress(EOFError, ConnectionError), Client(call.address, "AF_UNIX", opened.key) as other:
        other.send((storage, target.table_uuid))
        for each in decoded:
            other.send(each)
    yield from ()
