"""A purge process: purges one table after the other for the process that started it.

It reads and deletes files. The store, the lease of the job and the keys of storage are with the other
process, which it asks; see `processes`. So a purge here makes the same checks in the same order as there.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from floecat.child_process import serve_parent
from floecat.entries.areas import Area
from floecat.entries.metadata_files import MetadataFiles
from floecat.errors import FloecatError, UnavailableError
from floecat.iceberg.values.bounds import process_bounds
from floecat.purge.live_tables import LiveTable, NearTable, all_folders
from floecat.purge.progress import PurgeProgress
from floecat.purge.shared_files import SharedFiles
from floecat.purge.table_purge import LargeTableError, PurgeTarget, TablePurge
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.entry_areas import StoredArea
from floecat.store.job_claims import Lease
from floecat.struct_types import prepare_struct_types

__all__ = ["Answer", "Ended", "PurgeOrder", "PurgeSetup", "Question", "RefusedError", "main"]


class PurgeSetup(msgspec.Struct, frozen=True):
    """The first message."""

    path: list[str]
    niceness: int
    limits: bytes
    """`LimitSettings`, pickled."""
    metadata_file_bytes: int
    """Bound on a metadata file."""
    files_per_call: int
    threads: int
    large_from: int | None
    area_bytes: int
    formats: tuple[str, ...]
    """Names of the formats other than Iceberg."""


class PurgeOrder(NamedTuple):
    """A table to purge."""

    target: bytes
    """`PurgeTarget`, pickled."""
    progress: PurgeProgress
    refuse_large: bool
    renews: bool
    """Whether new keys can be asked for."""


class Question(NamedTuple):
    """Something that the other process does, by name."""

    name: str
    arguments: tuple[Any, ...]


class Answer(NamedTuple):
    """What it returned, or raised."""

    value: Any = None
    error: Exception | None = None


class Ended(NamedTuple):
    """The last message about a table."""

    progress: PurgeProgress
    error: Exception | None = None


class RefusedError(Exception):
    """The other process raised something that is none of this one's business, and knows what."""


def main() -> None:
    """Serves the process that started this one."""
    serve_parent(_serve)


def _serve(connection: Connection[Any, Any], setup: PurgeSetup) -> None:
    limits = process_bounds.limits = pickle.loads(setup.limits)  # noqa: S301
    parent = _Parent(connection)
    shared = SharedFiles(
        _LiveTables(parent),
        dict.fromkeys(setup.formats, all_folders),
        bounds=limits,
        area_bytes=setup.area_bytes,
    )
    purge = TablePurge(
        MetadataFiles(max_bytes=setup.metadata_file_bytes, max_inflated_bytes=limits.inflated_file_bytes),
        shared,
        batch_size=setup.files_per_call,
        threads=setup.threads,
        large_from=setup.large_from,
        bounds=limits,
        sidecars=[lambda _: parent.each("sidecars")],
    )
    prepare_struct_types()
    while True:
        order: PurgeOrder = connection.recv()
        connection.send(Ended(order.progress, _purged(purge, parent, order)))


def _purged(purge: TablePurge, parent: _Parent, order: PurgeOrder) -> Exception | None:
    target: PurgeTarget = pickle.loads(order.target)  # noqa: S301
    if order.renews:
        target = msgspec.structs.replace(target, renew=lambda: parent.ask("renew"))
    try:
        purge.purge(
            target,
            lambda: parent.ask("check", order.progress),
            order.progress,
            refuse_large=order.refuse_large,
        )
    except (FloecatError, LargeTableError, RefusedError) as error:
        return error
    except (EOFError, ConnectionError):
        raise
    except Exception as error:  # noqa: BLE001 - it goes on with other tables
        # its text could hold anything, and the row is shown to users
        sys.excepthook(*sys.exc_info())
        return UnavailableError(f"internal error: {type(error).__name__}")
    return None


class _Parent:
    """Asks the process that started this one. Safe to share between threads."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def ask(self, name: str, *arguments: Any) -> Any:
        with self._lock:
            self._connection.send(Question(name, arguments))
            answer: Answer = self._connection.recv()
        if answer.error is not None:
            raise answer.error
        return answer.value

    def each(self, name: str, *arguments: Any) -> Iterator[Any]:
        """What the other process iterates over, a part at a time."""
        number = self.ask(name, *arguments)
        while part := self.ask("next", number):
            yield from part


class _LiveTables:
    """`LiveTables` of the other process."""

    def __init__(self, parent: _Parent) -> None:
        self._parent = parent

    def near(self, area: Area, table_uuid: str, scopes: Collection[str]) -> Iterator[Sequence[NearTable]]:
        return self._parent.each("near", area, table_uuid, tuple(scopes))

    def remember(self, areas: Sequence[StoredArea]) -> None:
        if areas:
            self._parent.ask("remember", areas)

    def document(self, table: LiveTable) -> bytes | None:
        found: bytes | None = self._parent.ask("document", table)
        return found

    def sidecars(self, table: LiveTable) -> Iterator[str]:
        return self._parent.each("sidecars of", table)

    def storages(self) -> Mapping[UUID, CatalogStorage]:
        found: Mapping[UUID, CatalogStorage] = self._parent.ask("storages")
        return found

    def own_storages(self) -> Mapping[UUID, CatalogStorage]:
        found: Mapping[UUID, CatalogStorage] = self._parent.ask("own_storages")
        return found

    def positions(self) -> Mapping[UUID, int]:
        found: Mapping[UUID, int] = self._parent.ask("positions")
        return found

    def changed(self, seen: Mapping[UUID, int], now: Mapping[UUID, int]) -> Sequence[LiveTable]:
        found: Sequence[LiveTable] = self._parent.ask("changed", seen, now)
        return found

    def begin_batch(self, lease: Lease, folders: Sequence[str]) -> bool:
        begun: bool = self._parent.ask("begin_batch", lease, folders)
        return begun

    def end_batch(self, lease: Lease) -> None:
        self._parent.ask("end_batch", lease)
