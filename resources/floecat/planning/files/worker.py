"""A planning process: makes one plan after the other for the process that started it.

While it is free it decodes manifests for another one, whose plan finds few in memory. Messages are pickled;
see `floecat.child_process`.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections import OrderedDict
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any, Final

import msgspec

from floecat.child_process import serve_parent
from floecat.errors import FloecatError, PlanStoppedError, UnavailableError

__all__ = ["Failed", "Job", "NeedsHelp", "Setup", "Share", "main"]

_STORAGES: Final = 64


class Setup(msgspec.Struct, frozen=True):
    """The first message.

    Attributes:
        path: where Python finds modules.
        memory_bytes: of manifests.
        threads: how many decode manifests.
        niceness: how far its priority is below that of the other process.
        bounds: on what is read, pickled.
        disk_folder: of manifests on disk; None to keep none there.
        disk_bytes: of these.
    """

    path: list[str]
    memory_bytes: int
    threads: int
    niceness: int
    bounds: bytes
    disk_folder: str | None
    disk_bytes: int


class Job(msgspec.Struct, frozen=True):
    """A plan to make; all pickled."""

    storage: bytes
    target: bytes
    work: bytes


class Share(msgspec.Struct, frozen=True):
    """Manifests to decode for a process that makes a plan. A socket to that process follows.

    Attributes:
        storage: of the plan, pickled.
        target: of the plan, pickled.
        column_ids: columns whose metrics are needed.
        part: which part of the manifests, counted from 1; that process goes on from the first one.
        parts: into how many they are divided.
    """

    storage: bytes
    target: bytes
    column_ids: frozenset[int]
    part: int
    parts: int


class NeedsHelp(msgspec.Struct, frozen=True):
    """Tells that many manifests of a plan have to be decoded.

    Sockets of processes that decode some of them may come then, on the connection for help.
    """

    column_ids: frozenset[int]


class Failed(msgspec.Struct, frozen=True):
    """The last message of a job that failed, in place of None."""

    error: Exception


def main() -> None:
    """Makes plans for the process that started this one, until that ends."""
    serve_parent(lambda connection, setup, help: _Worker(connection, setup).serve(Connection(help)))


class _Worker:
    def __init__(self, connection: Connection[Any, Any], setup: Setup) -> None:
        from floecat.iceberg.values.bounds import process_bounds
        from floecat.planning.files.disk_cache import open_disk_cache
        from floecat.planning.files.scan_planning import local_planner

        self._connection = connection
        bounds = process_bounds.limits = pickle.loads(setup.bounds)  # noqa: S301
        disk = open_disk_cache(setup.disk_folder, setup.disk_bytes)
        self._planner = local_planner(setup.memory_bytes, setup.threads, bounds, disk)
        self._storages: OrderedDict[bytes, Any] = OrderedDict()

    def serve(self, help: Connection[Any, Any]) -> None:
        threading.Thread(target=self._take_help, args=(help,), daemon=True).start()
        while True:
            message = self._connection.recv()
            if not isinstance(message, Job | Share):
                continue  # a stop that came after the end
            try:
                if isinstance(message, Job):
                    self._make(message)
                else:
                    self._decode(message)
                last = None
            except FloecatError as error:
                last = Failed(error)
            except (EOFError, ConnectionError):
                raise
            except Exception as error:  # noqa: BLE001 - it goes on with other plans
                last = Failed(UnavailableError(f"Planning failed: {type(error).__name__}"))
                sys.excepthook(*sys.exc_info())
            self._connection.send(last)

    def _storage(self, pickled: bytes) -> Any:
        storage = self._storages.get(pickled) or pickle.loads(pickled)  # noqa: S301
        self._storages[pickled] = storage
        self._storages.move_to_end(pickled)
        if len(self._storages) > _STORAGES:
            self._storages.popitem(last=False)
        return storage

    def _make(self, job: Job) -> None:
        connection = self._connection
        target, work = pickle.loads(job.target), pickle.loads(job.work)  # noqa: S301
        plan = self._planner.plan(
            self._storage(job.storage), target, connection.poll, lambda ids: connection.send(NeedsHelp(ids))
        )
        for result in work(plan):
            connection.send((result,))
            if connection.poll():
                raise PlanStoppedError("The plan was stopped")

    def _decode(self, share: Share) -> None:
        """Decodes manifests until all are done, or the other process or the plan has ended."""
        with Connection(recv_handle(self._connection)) as other:
            storage, target = self._storage(share.storage), pickle.loads(share.target)  # noqa: S301
            decoded = self._planner.decode(
                storage, target, share.column_ids, (share.part, share.parts), self._connection.poll
            )
            with suppress(ConnectionError):
                other.send((share.storage, target.table_uuid))
                for each in decoded:
                    other.send(each)

    def _take_help(self, help: Connection[Any, Any]) -> None:
        """Keeps what other processes decode."""
        with suppress(EOFError, OSError):
            while True:
                other = Connection(recv_handle(help))
                threading.Thread(target=self._keep, args=(other,), daemon=True).start()

    def _keep(self, other: Connection[Any, Any]) -> None:
        with other, suppress(EOFError, OSError):
            pickled, table_uuid = other.recv()
            storage = self._storages.get(pickled)
            while storage is not None:
                self._planner.manifests.keep(storage, table_uuid, *other.recv())
