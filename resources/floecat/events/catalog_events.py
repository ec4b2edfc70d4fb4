"""The commit log as events, each with what the table looked like after the commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

import msgspec

from floecat.events.commit_cursor import CommitCursor
from floecat.events.committed_tables import CommittedTable, CommittedTables, MetadataReader
from floecat.events.live_entries import catalog_label
from floecat.events.table_description import TableDescription
from floecat.identifiers.namespace import TableIdentifier
from floecat.identifiers.written_names import written
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store.catalogs import catalogs
from floecat.store.commits import commit_log
from floecat.store.database.engine import Connection, Store
from floecat.store.entries import entry_names

__all__ = [
    "PIPELINE_PRINCIPAL",
    "REMOVALS",
    "STATISTICS_PRINCIPAL",
    "CatalogEvent",
    "CatalogEvents",
    "EventBatch",
    "shares",
]

REMOVALS = frozenset({"drop", "unregister"})
"""Operations after which an entry is no longer in its catalog."""

PIPELINE_PRINCIPAL = "pipeline"
"""Principal that brings in Delta versions in runs of the pipeline, in the commit log."""

STATISTICS_PRINCIPAL = "floecat-statistics"
"""Principal that sets the statistics files of captured snapshots, in the commit log."""


class CatalogEvent(msgspec.Struct, frozen=True):
    """A row of the commit log: the change of one commit to one table or view."""

    catalog_id: UUID
    catalog_name: str
    """Name as `floecat.events.live_entries.catalog_label` writes it."""
    commit_version: int
    """Place in the commit log of the catalog: 1, 2, 3 without gaps."""
    entry_id: UUID
    """The table or view; stays the same over renames."""
    kind: str
    """`table` or `view`."""
    operation: str
    """Name in the commit log, e.g. `create`, `rename`, `drop`. `create`, `rename`, `drop`."""
    identifier: TableIdentifier
    committed_at_ms: int
    principal: str
    snapshot_id: int | None = None
    """Current snapshot after the commit."""
    changed_snapshot: bool = False
    """The snapshot was not the current one before."""
    metadata_location: str | None = None
    """Current metadata file after the commit, or the last one of what was removed."""
    purge_requested: bool = False
    """A drop that has the files of the table deleted."""
    wrote_metadata: bool = False
    """The commit made a new metadata document."""
    format: str | None = None
    """As of `LiveEntry`; `None` for an entry that was dropped since."""
    created_by: str | None = None
    """Principal of the first commit of the entry."""
    former: TableIdentifier | None = None
    """Name before a rename."""
    table: TableDescription | None = None
    undescribed: str | None = None
    """Reason why `table` is missing although the commit left table metadata."""
    schema_separator: str | None = None
    """Of the catalog; none in a flat one."""

    @property
    def qualified_name(self) -> str:
        """Catalog, namespace levels and name, joined by dots."""
        return f"{self.catalog_name}.{self.identifier}"

    @property
    def logical_name(self) -> str:
        """Namespace and name for people: `A:B.orders`."""
        return written(self.identifier, self.schema_separator)

    @property
    def left_metadata(self) -> bool:
        """The commit says what the entry looks like under its name: it wrote metadata, or gave the name."""
        return self.wrote_metadata or self.operation == "rename"

    @property
    def only_statistics(self) -> bool:
        """The commit set the statistics file of a snapshot, and nothing else."""
        return self.principal == STATISTICS_PRINCIPAL

    @property
    def brought_in_by_service(self) -> bool:
        """The service brought in a version of a Delta table, as for a load."""
        return self.operation == "refresh" and self.principal != PIPELINE_PRINCIPAL

    @property
    def removed(self) -> bool:
        """The table or view is no longer in the catalog."""
        return self.operation in REMOVALS


class EventBatch(msgspec.Struct, frozen=True):
    """A stretch of the commit logs."""

    events: tuple[CatalogEvent, ...]
    """Events, of each catalog in the order of its log."""
    more: bool
    """The logs held more than was asked for."""
    ahead_of_log: tuple[str, ...] = ()
    """Names of catalogs whose log ends before the cursor, as after the restore of a backup."""


class CatalogEvents:
    """Reads the commit logs of all catalogs, of every account."""

    def __init__(
        self,
        store: Store,
        files: MetadataReader,
        storages: CatalogStorages,
        *,
        default_account_id: UUID | None = None,
        memory_bytes: int,
    ) -> None:
        """`default_account_id`: see `LiveEntries`; `memory_bytes`: of metadata files read at a time."""
        self._store = store
        self._default_account_id = default_account_id
        self._tables = CommittedTables(store, files, memory_bytes=memory_bytes)
        self._storages = storages

    def after(self, cursor: CommitCursor, *, limit: int, until: CommitCursor | None = None) -> EventBatch:
        """The commits that follow a position.

        Args:
            cursor: what was read before.
            limit: most events, over all catalogs. A busy catalog leaves room for the others.
            until: the last commit to read of each catalog; by default the last one there is.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        with self._store.read() as conn:
            known = {row.id: row for row in catalogs.list_all_accounts(conn)}
            ends = {row.id: row.commit_version for row in known.values()}
            if until is not None:
                ends = {catalog_id: min(end, until.position(catalog_id)) for catalog_id, end in ends.items()}
            pending = {catalog_id: end - cursor.position(catalog_id) for catalog_id, end in ends.items()}
            rows = [
                (catalog_id, row)
                for catalog_id, share in shares(pending, limit).items()
                for row in commit_log.read_after(conn, catalog_id, cursor.position(catalog_id), share)
            ]
            of_entries = _Entries(conn, [row for _, row in rows])
        labels = {row.id: catalog_label(row, self._default_account_id) for row in known.values()}
        events = [of_entries.event(known[catalog_id], labels[catalog_id], row) for catalog_id, row in rows]
        return EventBatch(
            events=tuple(self._described(known, events)),
            more=sum(count for count in pending.values() if count > 0) > len(events),
            ahead_of_log=tuple(
                row.name for row in known.values() if row.commit_version < cursor.position(row.id)
            ),
        )

    def _described(
        self, known: Mapping[UUID, catalogs.CatalogRow], events: list[CatalogEvent]
    ) -> Iterator[CatalogEvent]:
        storages = {row.id: self._storages.of(row).with_artifacts for row in known.values()}
        questions = {
            index: CommittedTable(event.entry_id, event.metadata_location, storages[event.catalog_id])
            for index, event in enumerate(events)
            if event.kind == "table" and event.left_metadata and event.metadata_location is not None
        }
        answers = dict(zip(questions, self._tables.describe(list(questions.values())), strict=True))
        for index, event in enumerate(events):
            answer = answers.get(index)
            if isinstance(answer, TableDescription):
                yield msgspec.structs.replace(event, table=answer)
            else:
                yield msgspec.structs.replace(event, undescribed=answer)


def shares(pending: Mapping[UUID, int], limit: int) -> dict[UUID, int]:
    """The number of commits to read of each catalog: equal parts, and unused parts go to the rest.

    Args:
        pending: unread commits by catalog; catalogs without any get no share.
        limit: the sum of all shares at most.
    """
    waiting = sorted((count, catalog_id) for catalog_id, count in pending.items() if count > 0)
    result: dict[UUID, int] = {}
    for served, (count, catalog_id) in enumerate(waiting):
        # rounded up: with more catalogs than room the first get one each, and the next batch serves others
        share = min(count, -(-limit // (len(waiting) - served)))
        if share > 0:
            result[catalog_id] = share
            limit -= share
    return result


class _Entries:
    """The entries of some commits, as the store has them."""

    def __init__(self, conn: Connection, rows: Sequence[commit_log.CommitLogRow]) -> None:
        wanted = sorted({row.entry_id for row in rows})
        files = [row.previous_metadata_location for row in rows if row.previous_metadata_location is not None]
        self._snapshots = commit_log.snapshots_at(conn, files)
        self._formats = entry_names.formats_of(conn, wanted) if wanted else {}
        self._changes: dict[UUID, list[entry_names.NameChange]] = {entry_id: [] for entry_id in wanted}
        for change in entry_names.changes_of(conn, wanted) if wanted else ():
            self._changes[change.entry_id].append(change)

    def event(self, catalog: catalogs.CatalogRow, label: str, row: commit_log.CommitLogRow) -> CatalogEvent:
        changes = self._changes[row.entry_id]
        before = [each.identifier for each in changes if each.commit_version < row.commit_version]
        return CatalogEvent(
            catalog_id=catalog.id,
            catalog_name=label,
            commit_version=row.commit_version,
            entry_id=row.entry_id,
            kind=row.kind,
            operation=row.operation,
            identifier=TableIdentifier(row.namespace, row.name),
            committed_at_ms=row.committed_at_ms,
            principal=row.principal,
            snapshot_id=row.snapshot_id,
            changed_snapshot=row.snapshot_id
            not in (
                None,
                self._snapshots.get(row.previous_metadata_location or ""),
            ),
            metadata_location=row.metadata_location,
            purge_requested=row.purge_requested,
            wrote_metadata=row.metadata_location not in (None, row.previous_metadata_location),
            format=self._formats.get(row.entry_id),
            created_by=changes[0].principal if changes else None,
            former=before[-1] if row.operation == "rename" and before else None,
            schema_separator=catalog.schema_separator,
        )
