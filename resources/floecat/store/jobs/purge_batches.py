"""Batches of files that purges are deleting, and how commits and purges take turns.

A commit may add a file that a purge is about to delete: a client added files of the old table to another
one, or registered a table in another catalog. Two orders are right. Either the commit is made first, and the
purge reads it and keeps the file; or the file is gone before the commit is made. So:

- A purge announces each batch (`begin`), and in a second transaction takes the lock of every catalog
  (`pass_commits`). Then it reads the commit logs, keeps what was committed since, deletes the rest, and ends
  the batch.
- A commit takes the lock of its catalog when it begins, at the latest when it is numbered. The statement
  that numbers it also says whether a purge announced a batch (`catalogs.purging`). If so, the commit looks
  at the batches under way (`under_way`), and if one may hold a file that it adds, it is rolled back and made
  again when that batch has ended.

A commit that had the lock before the purge got it is in the log that the purge reads. One that gets the lock
later sees `purging`, as the row is read under the lock, and its look at the batches is a statement of its
own, so on PostgreSQL too it sees what was committed by then. Nothing about this is cached in a process.
`purging` is set back by a commit that sees no batch under way, under the same lock; the next batch sets it.
A catalog that is made meanwhile begins with `purging`. Its first commit looks: either at a batch that was
announced, or before that, and then the catalog is there when the purge locks all.

A batch counts for as long as its worker holds the job. A worker whose process died is past its lease some
time later, and commits stop waiting for it then. The same holds for a purge process that ends in a batch:
calls of it may still be on their way to storage, so the batch is not ended, and the job keeps its lease. The
lease is checked before each call to storage; a call that outlives the lease by a stopped clock or process is
the one case in which this cannot help.

Commits that wait hold off further batches (`hold`), so that they are not overtaken each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from floecat.store.database.connections import Connection
from floecat.store.database.prepared_statements import PerDialect
from floecat.store.database.statements import decode_texts, encode_texts
from floecat.store.jobs.job_claims import Lease
from floecat.store.jobs.leases import LeaseLostError
from floecat.store.schema import catalogs as _catalogs
from floecat.store.schema import id_column, integer_column, metadata, text_column
from floecat.store.schema import jobs as _jobs

__all__ = ["Batch", "begin", "end", "hold", "note_none", "pass_commits", "under_way"]

_IS_UNDER_WAY: Final = sa.text("under_way")
_batches: Final = sa.Table(
    "purge_batches",
    metadata,
    id_column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    integer_column("lease_epoch"),
    text_column("folders"),
    sa.Column("under_way", sa.Boolean(), nullable=False),
    integer_column("hold_until_ms"),
    sa.Index(None, "job_id", sqlite_where=_IS_UNDER_WAY, postgresql_where=_IS_UNDER_WAY),
)


class Batch(NamedTuple):
    """A batch that a purge is deleting."""

    job_id: UUID
    catalog_id: UUID
    title: str
    """Former name of the table."""
    folders: tuple[str, ...]
    """Folders in which the table has files."""


def begin(conn: Connection, lease: Lease, folders: Sequence[str], now_ms: int) -> bool:
    """Announces a batch, unless commits hold it off.

    Args:
        conn: a transaction of its own.
        folders: in which the purged table has files.

    Returns:
        False if the purge has to wait.

    Raises:
        LeaseLostError: the job is another worker's.
    """
    if conn.first(_HOLDS, lease.parameters) is None:
        raise LeaseLostError
    parameters = {
        "job_id": lease.job_id,
        "lease_epoch": lease.epoch,
        "folders": encode_texts(folders),
        "under_way": True,
        "hold_until_ms": now_ms,
    }
    return conn.change(_ANNOUNCE, parameters) == 1


def pass_commits(conn: Connection) -> None:
    """Waits for the commits that did not see the batch. After COMMIT they are in the log; all others see it.

    Args:
        conn: a transaction of its own, after that of `begin`.
    """
    if not all(row[1] for row in conn.all(_LOCK_CATALOGS)):
        conn.change(_SET_PURGING)


def end(conn: Connection, lease: Lease) -> None:
    """Ends the batch of a purge."""
    conn.change(_END, {"job": lease.job_id, "epoch": lease.epoch})


def under_way(conn: Connection, now_ms: int) -> list[Batch]:
    """The batches that are being deleted."""
    rows = conn.all(_UNDER_WAY, {"now_ms": now_ms})
    return [Batch(row[0], row[1], row[2], decode_texts(row[3])) for row in rows]


def hold(conn: Connection, job_ids: Sequence[UUID], until_ms: int) -> None:
    """Keeps purges from beginning a batch until some time."""
    conn.change_many(_HOLD, [{"job": job_id, "until_ms": until_ms} for job_id in job_ids])


def note_none(conn: Connection, catalog_id: UUID) -> None:
    """Notes that no batch is under way, in a transaction that has numbered a commit and seen none."""
    conn.change(_NOTE_NONE, {"catalog": catalog_id})


def _announcing(statement: sqlite.Insert | postgresql.Insert) -> sa.Executable:
    offered = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=[_batches.c.job_id],
        set_={name: offered[name] for name in ("lease_epoch", "folders", "under_way", "hold_until_ms")},
        where=_batches.c.hold_until_ms <= offered.hold_until_ms,
    )


_HOLDS: Final = sa.select(sa.literal(1)).where(
    _jobs.c.id == sa.bindparam("job_id"),
    _jobs.c.lease_epoch == sa.bindparam("epoch"),
    _jobs.c.lease_owner == sa.bindparam("holder"),
)
_ANNOUNCE: Final = PerDialect(_announcing(sqlite.insert(_batches)), _announcing(postgresql.insert(_batches)))
_LOCK_CATALOGS: Final = (
    sa.select(_catalogs.c.id, _catalogs.c.purging).order_by(_catalogs.c.id).with_for_update(key_share=True)
)
_SET_PURGING: Final = sa.update(_catalogs).where(sa.not_(_catalogs.c.purging)).values(purging=sa.true())
_NOTE_NONE: Final = (
    sa.update(_catalogs).where(_catalogs.c.id == sa.bindparam("catalog")).values(purging=sa.false())
)
_END: Final = (
    sa.update(_batches)
    .where(_batches.c.job_id == sa.bindparam("job"), _batches.c.lease_epoch == sa.bindparam("epoch"))
    .values(under_way=sa.false())
)
_UNDER_WAY: Final = (
    sa.select(_jobs.c.id, _jobs.c.catalog_id, _jobs.c.title, _batches.c.folders)
    .select_from(_batches.join(_jobs, _jobs.c.id == _batches.c.job_id))
    .where(
        sa.text("purge_batches.under_way"),
        _jobs.c.lease_epoch == _batches.c.lease_epoch,
        _jobs.c.lease_expires_at_ms > sa.bindparam("now_ms"),
    )
)
_HOLD: Final = (
    sa.update(_batches)
    .where(_batches.c.job_id == sa.bindparam("job"), _batches.c.hold_until_ms < sa.bindparam("until_ms"))
    .values(hold_until_ms=sa.bindparam("until_ms"))
)
