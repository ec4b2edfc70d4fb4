"""Rows that a purger of another package keeps with a purge: bytes by key, which go with the job."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from floecat.store.database.connections import Connection
from floecat.store.database.prepared_statements import PerDialect
from floecat.store.schema import metadata

__all__ = ["delete", "get", "page", "put", "size_bytes"]

# sorts by bytes on both databases: pages depend on it
_Key: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_rows: Final = sa.Table(
    "purger_rows",
    metadata,
    sa.Column("job_id", sa.Uuid(), sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("key", _Key, primary_key=True),
    sa.Column("value", sa.LargeBinary(), nullable=False),
)


def get(conn: Connection, job_id: UUID, key: str) -> bytes | None:
    """The value of a key; `None` if there is none."""
    row = conn.first(_GET, {"job": job_id, "wanted": key})
    return None if row is None else row[0]


def page(conn: Connection, job_id: UUID, after: str, limit: int) -> list[tuple[str, bytes]]:
    """Keys with their values, in the order of the keys' bytes, from the one after `after`."""
    return [(row[0], row[1]) for row in conn.all(_PAGE, {"job": job_id, "after": after, "most": limit})]


def size_bytes(conn: Connection, job_id: UUID, other_than: str, row_bytes: int) -> int:
    """The size of all rows of a job but one, in bytes: their values, and so many bytes for each row."""
    row = conn.first(_SIZE, {"job": job_id, "other_than": other_than, "row_bytes": row_bytes})
    return 0 if row is None else int(row[0])


def put(conn: Connection, job_id: UUID, key: str, value: bytes) -> None:
    """Stores a value, in place of the one before."""
    conn.change(_PUT, {"job_id": job_id, "key": key, "value": value})


def delete(conn: Connection, job_id: UUID, key: str) -> None:
    """Deletes a key; one that is missing is fine."""
    conn.change(_DELETE, {"job": job_id, "wanted": key})


def _putting(statement: sqlite.Insert | postgresql.Insert) -> sa.Executable:
    return statement.on_conflict_do_update(
        index_elements=[_rows.c.job_id, _rows.c.key], set_={"value": statement.excluded.value}
    )


_OF_JOB: Final = _rows.c.job_id == sa.bindparam("job")
_WANTED: Final = _rows.c.key == sa.bindparam("wanted")
_GET: Final = sa.select(_rows.c.value).where(_OF_JOB, _WANTED)
_PAGE: Final = (
    sa.select(_rows.c.key, _rows.c.value)
    .where(_OF_JOB, _rows.c.key > sa.bindparam("after"))
    .order_by(_rows.c.key)
    .limit(sa.bindparam("most"))
)
_SIZE: Final = sa.select(
    sa.func.coalesce(sa.func.sum(sa.func.length(_rows.c.value) + sa.bindparam("row_bytes")), 0)
).where(_OF_JOB, _rows.c.key != sa.bindparam("other_than"))
_PUT: Final = PerDialect(_putting(sqlite.insert(_rows)), _putting(postgresql.insert(_rows)))
_DELETE: Final = sa.delete(_rows).where(_OF_JOB, _WANTED)
