"""Metadata files that the commits of one entry wrote, and that nothing points at any more.

The commit log says who wrote a file: a commit and a creation write one, a registration names one that was
there. Every entry that a file was ever current for has a row with it, whatever the catalog.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.prepared_statements import PerDialect
from floecat.store.database.statements import encode_texts
from floecat.store.schema import INDEXED_LOCATION, IS_REGISTRATION, LONGEST_INDEXED_LOCATION
from floecat.store.schema import commit_log as _commit_log
from floecat.store.schema import entries as _entries

__all__ = ["unneeded"]

_WRITING: Final = ("create", "commit")

_own: Final = _commit_log.alias("own")
_any: Final = _commit_log.alias("named")
_later: Final = _commit_log.alias("later")
_current: Final = _entries.alias("current")
_twin: Final = _entries.alias("twin")


def _unneeded(wanted: sa.FromClause) -> sa.Select[str]:
    """Files that go in as one parameter, so that one statement serves every number of them."""
    is_current = (
        sa.select(sa.literal(1))
        .select_from(_any.join(_current, _current.c.id == _any.c.entry_id))
        .where(
            _any.c.metadata_location == _own.c.metadata_location,
            sa.text(INDEXED_LOCATION.format("named.metadata_location")),
            _current.c.metadata_location == _any.c.metadata_location,
        )
        .exists()
    )
    has_twin = (
        sa.select(sa.literal(1))
        .select_from(_twin)
        .where(
            _twin.c.object_uuid == sa.bindparam("object_uuid", type_=sa.Text()),
            _twin.c.id != sa.bindparam("entry_id", type_=sa.Uuid()),
        )
        .exists()
    )
    # the entry may have been another table before, with twins of that
    was_registered_over = (
        sa.select(sa.literal(1))
        .where(
            _later.c.entry_id == sa.bindparam("entry_id", type_=sa.Uuid()),
            sa.text(IS_REGISTRATION.format("later.")),
            _later.c.commit_version > _own.c.commit_version,
        )
        .exists()
    )
    return (
        sa.select(_own.c.metadata_location)
        .select_from(wanted.join(_own, _own.c.metadata_location == wanted.c.location))
        .where(
            sa.text(INDEXED_LOCATION.format("own.metadata_location")),
            _own.c.entry_id == sa.bindparam("entry_id", type_=sa.Uuid()),
            _own.c.operation.in_([sa.literal_column(f"'{operation}'") for operation in _WRITING]),
            ~is_current,
            ~has_twin,
            ~was_registered_over,
        )
    )


def _wanted_sqlite() -> sa.FromClause:
    rows = sa.func.json_each(sa.bindparam("wanted", type_=sa.Text())).table_valued("value")
    return sa.select(sa.type_coerce(rows.c.value, sa.Text()).label("location")).subquery("wanted")


def _wanted_postgresql() -> sa.FromClause:
    array = sa.cast(sa.bindparam("wanted", type_=sa.Text()), sa.JSON())
    rows = (
        sa.func.json_array_elements_text(array).table_valued(sa.column("value", sa.Text())).render_derived()
    )
    return sa.select(rows.c.value.label("location")).subquery("wanted")


_UNNEEDED: Final = PerDialect(_unneeded(_wanted_sqlite()), _unneeded(_wanted_postgresql()))


def unneeded(conn: Connection, entry_id: UUID, object_uuid: str, locations: Sequence[str]) -> list[str]:
    """The metadata files among `locations` that only this entry has ever needed, and no longer needs.

    A file is named if a commit of the entry wrote it after the last registration over the entry, if it is no
    current file of any table or view of any catalog, and if no other entry is the same table, registered a
    second time. Files with locations that are too long for the index are left out.

    Args:
        object_uuid: UUID of its table.
        locations: the files.

    Returns:
        Some of `locations`, in their order.
    """
    # PostgreSQL takes no NUL, and no file that we wrote has one in its name
    wanted = [text for text in locations if len(text) <= LONGEST_INDEXED_LOCATION and "\0" not in text]
    parameters = {"entry_id": entry_id, "object_uuid": object_uuid, "wanted": encode_texts(wanted)}
    found = {row[0] for row in conn.all(_UNNEEDED, parameters)}
    return [location for location in locations if location in found]
