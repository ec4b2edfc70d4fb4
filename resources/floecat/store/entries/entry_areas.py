"""Areas of entries: an index over the folders in which entries have files.

Purges fill it, and ask it which entries may share a file with a dropped table. An area belongs to one state
of its entry, so a commit makes it out of date without a write here. Any number of processes may fill it at
once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from floecat.store.database.connections import Connection
from floecat.store.database.prepared_statements import PerDialect
from floecat.store.database.statements import LIMIT, NO_LIMIT, encode_rows, encode_texts
from floecat.store.entries.tables import EntryState
from floecat.store.schema import entries as _entries
from floecat.store.schema import id_column, integer_column, metadata, name_column, text_column

__all__ = ["NearEntry", "StoredArea", "near", "replace"]

_areas: Final = sa.Table(
    "entry_areas",
    metadata,
    id_column("entry_id", sa.ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True),
    integer_column("version"),
    text_column("metadata_location"),
    text_column("scope"),
    text_column("problem", nullable=True),
)

_folders: Final = sa.Table(
    "entry_folders",
    metadata,
    name_column("folder", primary_key=True),
    id_column("entry_id", sa.ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True, index=True),
)


class StoredArea(NamedTuple):
    """The area of one state of an entry."""

    state: EntryState
    scope: str
    """Conditions under which it is valid, as the caller names them."""
    folders: Sequence[str]
    problem: str | None = None
    """Reason why the area is unknown, if it is."""


class NearEntry(NamedTuple):
    """An entry that may have a file in a given area."""

    id: UUID
    catalog_id: UUID
    kind: str
    object_uuid: str
    location: str
    metadata_location: str
    version: int
    format: str
    is_indexed: bool
    """Whether its area is known, and overlaps; otherwise it is unknown."""
    problem: str | None
    """Problem as of `StoredArea.problem`; `None` if the area is out of date."""


def near(
    conn: Connection,
    object_uuid: str,
    ranges: Sequence[tuple[str, str]],
    scopes: Collection[str],
    *,
    after: UUID | None,
    limit: int,
) -> list[NearEntry]:
    """Entries of all catalogs that may have a file in an area, ordered by id.

    These are the entries with a folder in the ranges, those of this UUID, and those without a valid area. One
    statement looks at all three, so an entry whose area changes meanwhile is not missed.

    Args:
        object_uuid: of the dropped table.
        ranges: first and last text of each range of folders, by code points.
        scopes: under which areas are valid now.
        after: id of the last entry of the page before.
        limit: most entries.

    Raises:
        BadRequestError: a text is not valid Unicode.
    """
    parameters = {
        "object_uuid": object_uuid.lower(),
        "ranges": encode_rows(ranges),
        "scopes": encode_texts(tuple(scopes)),
        "after": after or _FIRST_ID,
        "limit": limit,
    }
    return [NearEntry(*row) for row in conn.all(_NEAR, parameters)]


def replace(conn: Connection, areas: Sequence[StoredArea]) -> None:
    """Stores areas in place of earlier ones; entries that are gone, or are being dropped, are left out.

    Args:
        conn: a transaction.
        areas: of different entries.
    """
    # The lock keeps a drop from removing an entry between here and its folders. It waits for none: drops that
    # share a COMMIT come in any order, and a deadlock with them would hold up all commits of their catalog.
    found = {row[0] for row in conn.all(_LOCK, {"ids": sorted(area.state.id for area in areas)})}
    kept = sorted((area for area in areas if area.state.id in found), key=lambda area: area.state.id)
    conn.change_many(
        _REPLACE,
        [
            {
                "entry_id": area.state.id,
                "version": area.state.version,
                "metadata_location": area.state.metadata_location,
                "scope": area.scope,
                "problem": area.problem,
            }
            for area in kept
        ],
    )
    conn.change_many(_DELETE_FOLDERS, [{"id": area.state.id} for area in kept])
    conn.change_many(
        _INSERT_FOLDER,
        [{"folder": folder, "entry_id": area.state.id} for area in kept for folder in area.folders],
    )


def _replacing(statement: sqlite.Insert | postgresql.Insert) -> sa.Executable:
    offered = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=[_areas.c.entry_id],
        set_={name: offered[name] for name in ("version", "metadata_location", "scope", "problem")},
    )


def _nearest(inside: sa.Select[tuple[UUID]], scopes: sa.Select[tuple[str]]) -> sa.Select[tuple[Any, ...]]:
    """The query, given one for the entries with a folder in the ranges, and one for the scopes."""
    is_valid = sa.and_(
        _areas.c.entry_id == _entries.c.id,
        _areas.c.version == _entries.c.version,
        _areas.c.metadata_location == _entries.c.metadata_location,
        _areas.c.scope.in_(scopes),
    )
    return (
        sa.select(
            _entries.c.id,
            _entries.c.catalog_id,
            _entries.c.kind,
            _entries.c.object_uuid,
            _entries.c.location,
            _entries.c.metadata_location,
            _entries.c.version,
            _entries.c.format,
            _areas.c.entry_id.is_not(None),
            _areas.c.problem,
        )
        .select_from(_entries.outerjoin(_areas, is_valid))
        .where(
            _entries.c.id > sa.bindparam("after"),
            sa.or_(
                _areas.c.entry_id.is_(None),
                _areas.c.problem.is_not(None),
                sa.func.lower(_entries.c.object_uuid) == sa.bindparam("object_uuid"),
                _entries.c.id.in_(inside),
            ),
        )
        .order_by(_entries.c.id)
        .limit(LIMIT)
    )


def _near_sqlite() -> sa.Executable:
    rows = sa.func.json_each(sa.bindparam("ranges", type_=sa.Text())).table_valued("value")
    scopes = sa.func.json_each(sa.bindparam("scopes", type_=sa.Text())).table_valued("value", name="scope")
    low, high = (sa.func.json_extract(rows.c.value, f"$[{side}]", type_=sa.Text()) for side in (0, 1))
    inside = rows.join(_folders, sa.and_(_folders.c.folder >= low, _folders.c.folder <= high))
    return _nearest(sa.select(_folders.c.entry_id).select_from(inside), sa.select(scopes.c.value))


def _near_postgresql() -> sa.Executable:
    def array(name: str) -> sa.ColumnElement[Any]:
        return sa.cast(sa.bindparam(name, type_=sa.Text()), sa.JSON())

    elements = sa.func.json_array_elements(array("ranges"))
    rows = elements.table_valued(sa.column("value", sa.JSON())).render_derived()
    scopes = sa.func.json_array_elements_text(array("scopes")).table_valued("value", name="scope")
    low, high = (
        sa.type_coerce(rows.c.value.op("->>")(sa.literal(side, sa.Integer())), sa.Text()) for side in (0, 1)
    )
    # in order, so that the planner takes the index: it expects a ninth of the table in every range
    found = (
        sa.select(_folders.c.entry_id)
        .where(_folders.c.folder >= low, _folders.c.folder <= high)
        .order_by(_folders.c.folder)
        .limit(NO_LIMIT)
        .lateral("found")
    )
    inside = sa.select(found.c.entry_id).select_from(rows.join(found, sa.true()))
    return _nearest(inside, sa.select(scopes.c.value))


_FIRST_ID: Final = UUID(int=0)
_NEAR: Final = PerDialect(_near_sqlite(), _near_postgresql())
_LOCK: Final = (
    sa.select(_entries.c.id)
    .where(_entries.c.id.in_(sa.bindparam("ids", expanding=True)))
    .order_by(_entries.c.id)
    .with_for_update(read=True, key_share=True, skip_locked=True)
)
_REPLACE: Final = PerDialect(_replacing(sqlite.insert(_areas)), _replacing(postgresql.insert(_areas)))
_DELETE_FOLDERS: Final = sa.delete(_folders).where(_folders.c.entry_id == sa.bindparam("id"))
_INSERT_FOLDER: Final = PerDialect(
    sqlite.insert(_folders).on_conflict_do_nothing(), postgresql.insert(_folders).on_conflict_do_nothing()
)
