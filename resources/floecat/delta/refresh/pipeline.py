"""Delta tables for the pipeline: which of them have work, the work itself, and whether its result is right.

A load refreshes a table by itself if the work is short enough to wait for. The pipeline works ahead of
readers, does what is too much for a load, and counts afterwards.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from uuid import UUID

from floecat.delta import delta_rows as delta_tables
from floecat.delta.artifacts.chunks import ChunkRunner
from floecat.delta.delta_rows import DeltaTableRow, NamedDeltaTable
from floecat.delta.log.delta_log import DeltaLog
from floecat.delta.refresh.delta_table import DeltaState, DeltaTableEntry
from floecat.delta.refresh.pipeline_results import (
    BrokenTable,
    DeltaTable,
    Look,
    Materialised,
    PendingTable,
    TablePosition,
)
from floecat.delta.refresh.refresh_service import DeltaRefreshService
from floecat.delta.refresh.verification import TableCounts, count_table
from floecat.errors import FloecatError, NoSuchTableError
from floecat.events.catalog_events import PIPELINE_PRINCIPAL
from floecat.identifiers.namespace import TableIdentifier
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store.catalogs import catalogs
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.database.engine import Store
from floecat.store.entries import snapshots, tables

__all__ = ["DeltaPipeline"]

_log = logging.getLogger(__name__)


class DeltaPipeline:
    """Keeps the Delta tables of all catalogs of every account readable."""

    def __init__(
        self,
        store: Store,
        storages: CatalogStorages,
        worker: DeltaRefreshService,
        *,
        time_budget_s: float = 30.0,
        parallel_looks: int = 16,
    ) -> None:
        """`time_budget_s`: how long one call of `look` waits for storage in all."""
        self._time_budget_s = time_budget_s
        self._parallel_looks = parallel_looks
        self._store = store
        self._storages = storages
        self._worker = worker

    def tables(self) -> Iterator[DeltaTable]:
        """Every Delta table, in order of position.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        after: TablePosition | None = None
        while True:
            page = self._page(after, 1_000)
            for catalog, table in page:
                after = TablePosition(catalog.id, table.entry_id)
                yield DeltaTable(table.entry_id, _name(catalog, table), after)
            if not page:
                return

    def look(self, after: TablePosition | None, *, limit: int) -> Look:
        """Lists the logs of some tables, several at a time, for a bounded time.

        Args:
            after: the `next` of the previous look; `None` to start with the first table.
            limit: how many tables.

        Returns:
            What is pending. A table whose log cannot be listed is reported as broken and stops no other.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        page = self._page(after, limit)
        found = self._look_at(page)
        at_end = len(found) == len(page) < limit
        catalog, table = page[len(found) - 1] if found else (None, None)
        end = None if at_end or not catalog or not table else TablePosition(catalog.id, table.entry_id)
        return Look(
            looked=len(found),
            pending=tuple(one for one in found if isinstance(one, PendingTable)),
            broken=tuple(one for one in found if isinstance(one, BrokenTable)),
            next=end,
        )

    def materialise(
        self,
        entry_id: UUID,
        progress: Callable[[int, int], None],
        run_chunks: Callable[[DeltaTableEntry], ChunkRunner] | None = None,
    ) -> Materialised:
        """Makes every version that the log has readable.

        Args:
            progress: called with the number of older versions done, and of all.
            run_chunks: returns what builds the chunks of the table; `None` for threads of this process.

        Raises:
            NoSuchTableError: there is no such Delta table.
            InvalidDeltaTableError, UnsupportedDeltaTableError, FileMissingError: its newest version cannot be
                read exactly.
            UnavailableError: storage or the store is unavailable.
        """
        table, name = self._table(entry_id)
        runner = run_chunks(table) if run_chunks is not None else None
        changed = self._worker.materialise(table, progress, run_chunks=runner)
        with self._store.read() as conn:
            row = tables.get(conn, entry_id)
            delta = delta_tables.get(conn, entry_id)
            versions = len(snapshots.list_all(conn, entry_id))
        if row is None or delta is None or delta.version is None:
            raise _no_such_table(entry_id)
        return Materialised(
            entry_id=entry_id,
            name=name,
            changed=changed,
            version=delta.version,
            versions=versions,
            location=delta.location,
            metadata_location=row.metadata_location,
        )

    def local_chunks(self, table: DeltaTableEntry) -> ChunkRunner:
        """The runner that builds the chunks of a table on threads of this process."""
        return self._worker.local_chunks(table)

    def repair(self, entry_id: UUID) -> bool:
        """Rebuilds the artifacts of a table if any that its entry leads to are missing.

        Returns:
            Whether any were.

        Raises:
            FloecatError: as `materialise`.
        """
        return self._worker.repair(self._table(entry_id)[0])

    def counts(self, entry_id: UUID) -> TableCounts:
        """Counts a table twice: by its Delta log, and by the manifests of its current snapshot.

        Raises:
            NoSuchTableError: there is no such Delta table, or it has not been read yet.
            FloecatError: a file is missing or broken, or storage is unavailable.
        """
        table, _ = self._table(entry_id)
        return count_table(self._store, table.files, table)

    def _look_at(
        self, page: Sequence[tuple[CatalogRow, NamedDeltaTable]]
    ) -> list[PendingTable | BrokenTable | None]:
        """The results for the tables, or for the first of them if time ran out."""
        found: list[PendingTable | BrokenTable | None] = []
        looks = ThreadPoolExecutor(self._parallel_looks, thread_name_prefix="delta-look")
        try:
            begun = [looks.submit(self._look, item) for item in page]
            deadline = time.monotonic() + self._time_budget_s
            for (catalog, table), answer in zip(page, begun, strict=True):
                try:
                    found.append(answer.result(timeout=max(0.0, deadline - time.monotonic())))
                except TimeoutError:
                    if answer.cancel():
                        # the next look starts with this table, which is still in the queue
                        break
                    problem = f"Storage did not answer within {self._time_budget_s:g} s"
                    found.append(BrokenTable(table.entry_id, _name(catalog, table), problem))
            return found
        finally:
            # a call to storage that hangs ends by its own time-out, and is not waited for
            looks.shutdown(wait=False, cancel_futures=True)

    def _look(self, item: tuple[CatalogRow, NamedDeltaTable]) -> PendingTable | BrokenTable | None:
        catalog, table = item
        name = _name(catalog, table)
        try:
            return self._pending(catalog, table)
        except FloecatError as error:
            return BrokenTable(table.entry_id, name, error.message)
        except Exception:  # noqa: BLE001 - one log must not hold up the other tables
            _log.exception("cannot look at the Delta log of %s", name)
            return BrokenTable(table.entry_id, name, f"Cannot read the Delta log in {table.location}")

    def _pending(self, catalog: CatalogRow, table: NamedDeltaTable) -> PendingTable | None:
        with self._store.read() as conn:
            known = delta_tables.get(conn, table.entry_id)
        if known is None:
            return None
        storage = self._storages.of(catalog).with_artifacts
        log = DeltaLog(storage.files(known.location), storage.allowed, known.location)
        listing = log.listing(after=None if known.version is None else known.version - 1)
        reason = _reason(known, listing.latest, listing.fingerprint_of)
        if reason == "replaced" and listing.after is not None:
            listing = log.listing()
        if reason is None and not DeltaState.is_complete(known.state):
            reason = "incomplete"
        if reason is None:
            return None
        return PendingTable(
            entry_id=table.entry_id,
            name=_name(catalog, table),
            position=TablePosition(catalog.id, table.entry_id),
            version=listing.latest,
            state=_state(listing.latest, listing.fingerprint_of(listing.latest), known.generation, reason),
            reason=reason,
        )

    def _page(self, after: TablePosition | None, limit: int) -> list[tuple[CatalogRow, NamedDeltaTable]]:
        page: list[tuple[CatalogRow, NamedDeltaTable]] = []
        with self._store.read() as conn:
            for catalog in catalogs.list_all_accounts(conn):
                if after is not None and catalog.id < after.catalog_id:
                    continue
                last = after.entry_id if after is not None and catalog.id == after.catalog_id else None
                found = delta_tables.list_all(conn, catalog.id, last, limit - len(page))
                page += [(catalog, table) for table in found]
                if len(page) == limit:
                    break
        return page

    def _table(self, entry_id: UUID) -> tuple[DeltaTableEntry, str]:
        with self._store.read() as conn:
            row = tables.get(conn, entry_id)
            delta = delta_tables.get(conn, entry_id)
            named = delta_tables.at_location(conn, delta.location) if delta is not None else []
            catalog = catalogs.get(conn, row.catalog_id) if row is not None else None
        found = next((one for one in named if one.entry_id == entry_id), None)
        if row is None or catalog is None or found is None:
            raise _no_such_table(entry_id)
        identifier = TableIdentifier(found.namespace, found.name)
        storage = self._storages.of(catalog).with_artifacts
        return DeltaTableEntry(row, identifier, storage, PIPELINE_PRINCIPAL), _name(catalog, found)


def _reason(known: DeltaTableRow, latest: int, fingerprint_of: Callable[[int], str | None]) -> str | None:
    if known.version is None:
        return "unread"
    if latest < known.version or fingerprint_of(known.version) not in (known.log_fingerprint, None):
        return "replaced"
    return "behind" if latest > known.version else None


def _state(version: int, fingerprint: str | None, generation: int, reason: str) -> str:
    # artifacts may be missing after a run that built this version
    digest = blake2b(f"{fingerprint}|{generation}|{reason}".encode(), digest_size=6).hexdigest()
    return f"{version}-{digest}"


def _name(catalog: CatalogRow, table: NamedDeltaTable) -> str:
    return f"{catalog.name}.{TableIdentifier(table.namespace, table.name)}"


def _no_such_table(entry_id: UUID) -> NoSuchTableError:
    return NoSuchTableError(f"There is no readable Delta table with the id {entry_id}")
