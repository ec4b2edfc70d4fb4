"""The commit log: every change of a catalog, numbered 1, 2, 3 in the order in which they were committed.

A reader that has seen number n has seen every commit up to n: the numbers are given out under a lock on the
catalog, which ends with the transaction.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
import sqlalchemy as sa
import uuid_utils.compat as uuids
from sqlalchemy.dialects import postgresql

from floecat.identifiers.namespace import Namespace
from floecat.store.database.connections import Connection
from floecat.store.database.errors import ForeignKeyError
from floecat.store.database.prepared_statements import PerDialect, Row
from floecat.store.database.statements import LIMIT, decode_texts, encode_records, encode_texts
from floecat.store.schema import INDEXED_LOCATION, LONGEST_INDEXED_LOCATION
from floecat.store.schema import catalogs as _catalogs
from floecat.store.schema import commit_log as _commit_log
from floecat.store.schema import namespaces as _namespaces

__all__ = [
    "CommitLogEntry",
    "CommitLogRow",
    "CommitNumbers",
    "append",
    "changed_entries",
    "earlier_metadata_files",
    "has_transaction",
    "read_after",
    "snapshots_at",
    "writers_of",
]

_NUMBER: Final = (
    sa.update(_catalogs)
    .where(_catalogs.c.id == sa.bindparam("catalog_id"))
    .values(commit_version=_catalogs.c.commit_version + sa.bindparam("count", type_=sa.BigInteger()))
    .returning(_catalogs.c.commit_version, _catalogs.c.purging)
)
_INSERT: Final = sa.insert(_commit_log)
_TAG: Final = sa.bindparam("tag", type_=sa.BigInteger())
_CHANGE_CONTENTS: Final = (
    sa.update(_namespaces).where(_namespaces.c.id == sa.bindparam("changed_id")).values(contents_tag=_TAG)
)


def _number_and_insert(*, changes_contents: bool) -> sa.Select[int, bool]:
    """A statement of PostgreSQL that numbers and inserts entries, which go in as one parameter."""
    number = _NUMBER.cte("number")
    shared = ("catalog_id", "committed_at_ms", "transaction_id")
    own = [column for column in _commit_log.c if column.name not in (*shared, "commit_version")]
    rows = (
        sa.func.json_to_recordset(sa.cast(sa.bindparam("entries", type_=sa.Text()), sa.JSON()))
        .table_valued(sa.column("place", sa.BigInteger()), *(sa.column(c.name, c.type) for c in own))
        .render_derived(with_types=True)
    )
    values = {
        "commit_version": number.c.commit_version - rows.c.place,
        **{name: sa.bindparam(name, type_=_commit_log.c[name].type) for name in shared},
        **{column.name: rows.c[column.name] for column in own},
    }
    entries = sa.insert(_commit_log).from_select(list(values), sa.select(*values.values()))
    ctes = [entries.cte("inserted")]
    if changes_contents:
        changed = sa.any_(sa.bindparam("changed_ids", type_=postgresql.ARRAY(sa.Uuid())))
        # joined with the number, so that the catalog is locked first by everyone
        contents = sa.update(_namespaces).values(contents_tag=_TAG)
        contents = contents.where(_namespaces.c.id == changed, number.c.commit_version.is_not(None))
        ctes.append(contents.cte("contents"))
    return sa.select(number).add_cte(*ctes)


_APPEND: Final = PerDialect(_NUMBER, _number_and_insert(changes_contents=False))
_APPEND_NAMES: Final = PerDialect(_NUMBER, _number_and_insert(changes_contents=True))
_READ_AFTER: Final = (
    sa.select(
        _commit_log.c.entry_id,
        _commit_log.c.kind,
        _commit_log.c.operation,
        _commit_log.c.levels,
        _commit_log.c.name,
        _commit_log.c.snapshot_id,
        _commit_log.c.metadata_location,
        _commit_log.c.previous_metadata_location,
        _commit_log.c.principal,
        _commit_log.c.commit_version,
        _commit_log.c.committed_at_ms,
        _commit_log.c.purge_requested,
    )
    .where(
        _commit_log.c.catalog_id == sa.bindparam("catalog_id"),
        _commit_log.c.commit_version > sa.bindparam("version"),
    )
    .order_by(_commit_log.c.commit_version)
    .limit(sa.bindparam("limit", type_=sa.BigInteger()))
)

_WRITERS_OF: Final = (
    sa.select(_commit_log.c.entry_id, _commit_log.c.metadata_location)
    .where(
        _commit_log.c.metadata_location.in_(sa.bindparam("locations", expanding=True)),
        sa.text(INDEXED_LOCATION.format("commit_log.metadata_location")),
    )
    .order_by(_commit_log.c.commit_version)
)
_SNAPSHOTS_AT: Final = sa.select(_commit_log.c.metadata_location, _commit_log.c.snapshot_id).where(
    _commit_log.c.metadata_location.in_(sa.bindparam("locations", expanding=True)),
    sa.text(INDEXED_LOCATION.format("commit_log.metadata_location")),
)


def _earlier_files() -> sa.Select[tuple[str]]:
    entry, location = sa.bindparam("entry", type_=sa.Uuid()), sa.bindparam("location", type_=sa.Text())
    is_indexed = sa.text(INDEXED_LOCATION.format("commit_log.metadata_location"))

    def before(found: sa.ColumnElement[str]) -> sa.Select[tuple[str]]:
        # a registration puts a table in place of another one, whose files are not those of this table
        return sa.select(_commit_log.c.previous_metadata_location.label("location")).where(
            _commit_log.c.metadata_location == found,
            is_indexed,
            _commit_log.c.entry_id == entry,
            _commit_log.c.operation != "register",
            _commit_log.c.previous_metadata_location.is_not(None),
        )

    earlier = before(location).cte("earlier", recursive=True)
    earlier = earlier.union(before(earlier.c.location))
    return sa.select(earlier.c.location).limit(LIMIT)


_EARLIER_FILES: Final = _earlier_files()
_PAGE: Final = 1_000
_RECENT: Final = 10_000
_HAS_TRANSACTION: Final = (
    sa.select(sa.literal(1))
    .where(
        _commit_log.c.catalog_id == sa.bindparam("catalog_id"),
        _commit_log.c.commit_version
        > sa.select(_catalogs.c.commit_version - _RECENT)
        .where(_catalogs.c.id == sa.bindparam("catalog_id"))
        .scalar_subquery(),
        _commit_log.c.transaction_id == sa.bindparam("transaction_id"),
    )
    .limit(1)
)


class CommitNumbers(NamedTuple):
    """Numbers of the commit log."""

    numbers: Sequence[int]
    purging: bool
    """Whether a purge may have a batch under way: see `store.jobs.purge_batches`."""


class CommitLogEntry(msgspec.Struct, frozen=True):
    """The change of one commit to one table or view."""

    entry_id: UUID
    kind: str
    """`table` or `view`."""
    operation: str
    """`create`, `commit`, `rename`, `drop` and so on; the services name them."""
    namespace: Namespace
    name: str
    snapshot_id: int | None
    """Current snapshot after the commit."""
    metadata_location: str | None
    previous_metadata_location: str | None
    principal: str
    purge_requested: bool = False
    """Whether the files of a dropped table are to be deleted."""


class CommitLogRow(CommitLogEntry, frozen=True, kw_only=True):
    """An entry of the log as it was committed."""

    commit_version: int
    committed_at_ms: int


def append(
    conn: Connection,
    catalog_id: UUID,
    entries: Sequence[CommitLogEntry],
    now_ms: int,
    *,
    transaction_id: UUID | None = None,
    contents_of: Collection[UUID] = (),
) -> CommitNumbers:
    """Numbers entries and appends them.

    The row of the catalog stays locked until the transaction ends, so numbers are in the order of commits and
    a rolled-back one leaves no gap. Call it late: other commits of the catalog wait for the end.

    Args:
        conn: a transaction.
        catalog_id: whose log.
        entries: at least one.
        now_ms: time of the commit.
        transaction_id: names this attempt of the transaction, for `has_transaction`; None if no one
            will look it up.
        contents_of: ids of namespaces to which tables or views came, or from which they went. They get
            another tag, a random one: a store that is restored to an earlier time gives none out again.

    Raises:
        ForeignKeyError: there is no such catalog.
    """
    count = len(entries)
    shared: dict[str, Any] = {
        "catalog_id": catalog_id,
        "committed_at_ms": now_ms,
        "transaction_id": transaction_id or uuids.uuid7(),
    }
    if conn.joins_changes:
        records = [{"place": count - 1 - place, **_values(entry)} for place, entry in enumerate(entries)]
        shared["entries"] = encode_records(records)
    statement, tag = _APPEND, secrets.randbits(63)
    if contents_of:
        statement = _APPEND_NAMES
        if conn.joins_changes:
            shared |= {"changed_ids": [*contents_of], "tag": tag}
    row = conn.first(statement, {**shared, "count": count})
    if row is None:
        raise ForeignKeyError("commit_log")
    last, purging = row
    numbers = range(last - count + 1, last + 1)
    if not conn.joins_changes:
        conn.change_many(_CHANGE_CONTENTS, [{"changed_id": each, "tag": tag} for each in contents_of])
        numbered = zip(numbers, entries, strict=True)
        conn.change_many(
            _INSERT, [{"commit_version": number, **shared, **_values(entry)} for number, entry in numbered]
        )
    return CommitNumbers(numbers, bool(purging))


def read_after(conn: Connection, catalog_id: UUID, version: int, limit: int) -> list[CommitLogRow]:
    """The commits that follow number `version`, in order."""
    parameters = {"catalog_id": catalog_id, "version": version, "limit": limit}
    return [_record(row) for row in conn.all(_READ_AFTER, parameters)]


def changed_entries(conn: Connection, seen: Mapping[UUID, int], now: Mapping[UUID, int]) -> set[UUID]:
    """Entries with commits between two looks at the numbers of the last commits of all catalogs.

    Args:
        seen: the numbers, by catalog, at the first look; a catalog that is not in it was made since.
        now: the numbers at the second.
    """
    found: set[UUID] = set()
    for catalog_id, version in now.items():
        after = seen.get(catalog_id, 0)
        while after < version:
            rows = read_after(conn, catalog_id, after, _PAGE)
            found.update(row.entry_id for row in rows)
            after = rows[-1].commit_version if rows else version
    return found


def snapshots_at(conn: Connection, locations: Sequence[str]) -> dict[str, int | None]:
    """The snapshot that was current in each of some metadata files.

    Args:
        locations: the files; those with longer locations than the index holds are left out.
    """
    wanted = [text for text in locations if len(text) <= LONGEST_INDEXED_LOCATION]
    return {row[0]: row[1] for row in conn.all(_SNAPSHOTS_AT, {"locations": wanted})} if wanted else {}


def writers_of(conn: Connection, locations: Sequence[str]) -> list[tuple[UUID, str]]:
    """Entries, live or dropped, that some metadata files were ever current for.

    Args:
        locations: the files; those with longer locations than the index holds are left out.

    Returns:
        Entry and file, in the order of the commits of each catalog.
    """
    wanted = [text for text in locations if len(text) <= LONGEST_INDEXED_LOCATION]
    return [(row[0], row[1]) for row in conn.all(_WRITERS_OF, {"locations": wanted})]


def earlier_metadata_files(conn: Connection, entry_id: UUID, location: str, limit: int) -> list[str]:
    """The metadata files that an entry had before one of its metadata files, newest first.

    The metadata log of the table itself is cut at `write.metadata.previous-versions-max`. The files end at a
    registration, and at a location that is longer than the index holds.

    Args:
        entry_id: the entry, live or dropped.
        location: its metadata file.
        limit: most files.
    """
    parameters = {"entry": entry_id, "location": location, "limit": limit}
    return [row[0] for row in conn.all(_EARLIER_FILES, parameters)]


def has_transaction(conn: Connection, catalog_id: UUID, transaction_id: UUID) -> bool:
    """Whether one of the last 10,000 commits belongs to this transaction.

    Asked for a commit of some seconds ago, so that no index has to be kept for it.
    """
    parameters = {"catalog_id": catalog_id, "transaction_id": transaction_id}
    return conn.first(_HAS_TRANSACTION, parameters) is not None


def _values(entry: CommitLogEntry) -> dict[str, Any]:
    values = msgspec.structs.asdict(entry)
    values["levels"] = encode_texts(values.pop("namespace"))
    return values


def _record(row: Row) -> CommitLogRow:
    entry_id, kind, operation, levels, name, snapshot_id, location, previous, principal, *rest = row
    number, at_ms, purge_requested = rest
    return CommitLogRow(
        entry_id,
        kind,
        operation,
        decode_texts(levels),
        name,
        snapshot_id,
        location,
        previous,
        principal,
        bool(purge_requested),
        commit_version=number,
        committed_at_ms=at_ms,
    )
