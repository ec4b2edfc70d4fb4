"""The state of a table that a query reads."""

from __future__ import annotations

from typing import Literal, TypeAlias

from floecat.auth.authorizer import Privilege
from floecat.entries.calls import Call
from floecat.entries.formats import TableFormats
from floecat.entries.lookup import Entries, Entry
from floecat.entries.names import missing_table
from floecat.errors import BadRequestError, NotFoundError
from floecat.iceberg.metadata.snapshots import SnapshotSummary
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import TableIdentifier

__all__ = ["CurrentTables", "PinKind", "named_snapshot_id", "snapshot_of"]

PinKind: TypeAlias = Literal["current", "as_of", "snapshot_id"]
"""Form in which a state is asked for."""

_LAST_ID = 2**63 - 1


class CurrentTables:
    """Tables as they are now, of any format."""

    def __init__(self, entries: Entries, formats: TableFormats) -> None:
        self._entries = entries
        self._formats = formats

    def load(self, call: Call, identifier: TableIdentifier) -> Entry[TableMetadata]:
        """A table, brought up to date.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: it does not exist.
            FloecatError: it cannot be brought up to date; see `TableFormat.current`.
        """
        found = self._entries.find_table(call, identifier, Privilege.READ_TABLE)
        entry = None if found is None else self._formats.of(found.row).current(call, found)
        if entry is None:
            raise missing_table(identifier)
        return entry

    def files_have_partition_columns(self, entry: Entry[TableMetadata]) -> bool:
        """Whether data files of a table have the columns that they are partitioned by."""
        return self._formats.of(entry.row).files_have_partition_columns


def snapshot_of(
    metadata: TableMetadata, *, snapshot_id: int | None = None, as_of_ms: int | None = None
) -> SnapshotSummary | None:
    """The snapshot that is asked for: by id, as of a time, or the current one.

    Returns:
        None for a table without snapshots of which the current one is asked for.

    Raises:
        BadRequestError: the table has no such snapshot, or had none then.
    """
    if snapshot_id is None and as_of_ms is not None:
        past = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= as_of_ms]
        if not past:
            raise BadRequestError(f"The table has no snapshot as of {as_of_ms} ms")
        snapshot_id = past[-1].snapshot_id
    if snapshot_id is None:
        current_id = metadata.current_snapshot_id
        return None if current_id is None else metadata.snapshot(current_id)
    snapshot = metadata.snapshot(snapshot_id)
    if snapshot is None:
        raise BadRequestError(f"The table has no snapshot {snapshot_id}: it may have expired")
    return snapshot


def named_snapshot_id(metadata: TableMetadata, snapshot: str | None) -> int | None:
    """The id of the snapshot that people name.

    Args:
        metadata: the table.
        snapshot: an id, or the name of a branch or tag; None for the current one.

    Returns:
        None if the table has no current snapshot.

    Raises:
        BadRequestError: it is neither an id nor the name of a branch or tag.
        NotFoundError: the table has no such snapshot.
    """
    if snapshot is None:
        return metadata.current_snapshot_id
    ref = metadata.refs.get(snapshot)
    if ref is not None:
        return ref.snapshot_id
    try:
        wanted = int(snapshot)
    except ValueError:
        raise BadRequestError("Invalid snapshot: neither an id nor the name of a branch or tag") from None
    if abs(wanted) > _LAST_ID or metadata.snapshot(wanted) is None:
        raise NotFoundError(f"The table has no snapshot {snapshot[:20]}: it may have expired")
    return wanted
