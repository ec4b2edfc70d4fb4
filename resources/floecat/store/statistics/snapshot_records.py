"""Records of snapshots: target statistics, index artifacts and constraints, three tables of one form.

A record is found by entry, snapshot and storage id; the ids of one kind share their beginning, so that a page
of a kind is a range of the primary key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT, insert_if_absent, upsert
from floecat.store.statistics import schema

__all__ = ["CONSTRAINTS", "INDEX_ARTIFACTS", "TARGETS", "RecordRow", "SnapshotRecords"]

_LAST: Final = "\U0010ffff"


class RecordRow(msgspec.Struct, frozen=True):
    """A record."""

    snapshot_id: int
    storage_id: str
    etag: str
    """Names the content; times are not part of it."""
    body: bytes
    """Encoded by the service of its kind."""
    updated_at_ms: int


class SnapshotRecords:
    """The statements of one of the tables."""

    def __init__(self, table: sa.Table) -> None:
        of_entry = table.c.entry_id == sa.bindparam("of_entry")
        of_snapshot = (of_entry, table.c.snapshot_id == sa.bindparam("of_snapshot"))
        columns = [table.c[name] for name in RecordRow.__struct_fields__]
        after, before = (
            table.c.storage_id > sa.bindparam("after"),
            table.c.storage_id < sa.bindparam("before"),
        )
        self._put = upsert(table, table.c.entry_id, table.c.snapshot_id, table.c.storage_id)
        self._get = sa.select(*columns).where(*of_snapshot, table.c.storage_id == sa.bindparam("of_id"))
        self._page = (
            sa.select(*columns).where(*of_snapshot, after, before).order_by(table.c.storage_id).limit(LIMIT)
        )
        later = (of_entry, table.c.snapshot_id > sa.bindparam("after"))
        snapshots = (table.c.snapshot_id, table.c.storage_id)
        self._snapshots = sa.select(*columns).where(*later).order_by(*snapshots).limit(LIMIT)
        size = sa.func.length(table.c.body)
        self._sizes = (
            sa.select(size).where(*of_snapshot, after, before).order_by(table.c.storage_id).limit(LIMIT)
        )
        self._snapshot_sizes = sa.select(size).where(*later).order_by(*snapshots).limit(LIMIT)
        self._insert = insert_if_absent(table, table.c.entry_id, table.c.snapshot_id, table.c.storage_id)
        self._swap = (
            sa.update(table)
            .where(
                *of_snapshot,
                table.c.storage_id == sa.bindparam("of_id"),
                table.c.etag == sa.bindparam("seen"),
            )
            .values({name: sa.bindparam(f"new_{name}") for name in ("etag", "body", "updated_at_ms")})
        )
        ids: sa.BindParameter[str] = sa.bindparam("ids", expanding=True)
        self._delete = sa.delete(table).where(*of_snapshot, table.c.storage_id.in_(ids))
        self._delete_from = sa.delete(table).where(*of_snapshot, after, before)

    def put(self, conn: Connection, entry_id: UUID, rows: Sequence[RecordRow]) -> None:
        """Inserts records, or replaces those that are there.

        Raises:
            ForeignKeyError: the entry does not exist.
        """
        conn.change_many(self._put, [{"entry_id": entry_id, **msgspec.structs.asdict(row)} for row in rows])

    def get(self, conn: Connection, entry_id: UUID, snapshot_id: int, storage_id: str) -> RecordRow | None:
        """A record of a snapshot."""
        row = conn.first(self._get, {"of_entry": entry_id, "of_snapshot": snapshot_id, "of_id": storage_id})
        return None if row is None else RecordRow(*row)

    def page(
        self, conn: Connection, entry_id: UUID, snapshot_id: int, prefix: str, after: str, limit: int
    ) -> list[RecordRow]:
        """Records of a snapshot whose storage ids begin with `prefix`, in order of these ids.

        Args:
            prefix: of the storage ids; empty for all.
            after: the last storage id of the page before; empty for the first page.
            limit: most records.
        """
        parameters = _of_page(entry_id, snapshot_id, prefix, after, limit)
        return [RecordRow(*row) for row in conn.all(self._page, parameters)]

    def sizes(
        self, conn: Connection, entry_id: UUID, snapshot_id: int, prefix: str, after: str, limit: int
    ) -> list[int]:
        """Bytes of the bodies that `page` returns, without reading them."""
        parameters = _of_page(entry_id, snapshot_id, prefix, after, limit)
        return [row[0] for row in conn.all(self._sizes, parameters)]

    def of_entry(self, conn: Connection, entry_id: UUID, after: int, limit: int) -> list[RecordRow]:
        """Records of all snapshots above an id, in order of snapshots."""
        parameters = {"of_entry": entry_id, "after": after, "limit": limit}
        return [RecordRow(*row) for row in conn.all(self._snapshots, parameters)]

    def sizes_of_entry(self, conn: Connection, entry_id: UUID, after: int, limit: int) -> list[int]:
        """Bytes of the bodies that `of_entry` returns, without reading them."""
        parameters = {"of_entry": entry_id, "after": after, "limit": limit}
        return [row[0] for row in conn.all(self._snapshot_sizes, parameters)]

    def swap(self, conn: Connection, entry_id: UUID, row: RecordRow, seen: RecordRow | None) -> bool:
        """Puts a record in place of the one that was seen, or of none.

        Returns:
            False if it is another one by now.

        Raises:
            ForeignKeyError: the entry does not exist.
        """
        values = msgspec.structs.asdict(row)
        if seen is None:
            return conn.change(self._insert, {"entry_id": entry_id, **values}) == 1
        parameters = {
            "of_entry": entry_id,
            "of_snapshot": row.snapshot_id,
            "of_id": row.storage_id,
            "seen": seen.etag,
            **{f"new_{name}": values[name] for name in ("etag", "body", "updated_at_ms")},
        }
        return conn.change(self._swap, parameters) == 1

    def delete(self, conn: Connection, entry_id: UUID, snapshot_id: int, storage_ids: Sequence[str]) -> None:
        """Deletes some records of a snapshot, by storage id."""
        parameters = {"of_entry": entry_id, "of_snapshot": snapshot_id, "ids": list(storage_ids)}
        conn.change(self._delete, parameters)

    def delete_kind(self, conn: Connection, entry_id: UUID, snapshot_id: int, prefix: str) -> None:
        """Deletes the records of a snapshot whose storage ids begin with `prefix`."""
        parameters = {"after": _before(prefix), "before": prefix + _LAST}
        conn.change(self._delete_from, {"of_entry": entry_id, "of_snapshot": snapshot_id, **parameters})


def _of_page(entry_id: UUID, snapshot_id: int, prefix: str, after: str, limit: int) -> dict[str, object]:
    return {
        "of_entry": entry_id,
        "of_snapshot": snapshot_id,
        "after": max(_before(prefix), after),
        "before": prefix + _LAST,
        "limit": limit,
    }


def _before(prefix: str) -> str:
    """The text after all ids before those with a prefix, and before all of these."""
    return prefix and prefix[:-1] + chr(ord(prefix[-1]) - 1) + _LAST


class _Artifacts(SnapshotRecords):
    """The records of index artifacts, whose owner outlives a dropped entry."""

    def __init__(self) -> None:
        super().__init__(schema.index_artifacts)
        self._own = upsert(schema.artifact_owners, schema.artifact_owners.c.id)

    def put(self, conn: Connection, entry_id: UUID, rows: Sequence[RecordRow]) -> None:
        # fails if the entry is gone, also where a purge has its artifacts
        conn.change(self._own, {"id": entry_id, "entry_id": entry_id, "job_id": None})
        super().put(conn, entry_id, rows)


TARGETS: Final = SnapshotRecords(schema.target_statistics)
INDEX_ARTIFACTS: Final = _Artifacts()
CONSTRAINTS: Final = SnapshotRecords(schema.table_constraints)
