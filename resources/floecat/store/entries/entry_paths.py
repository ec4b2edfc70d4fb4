"""Folders of entries in object storage, as metadata names them: what keys for an entry open.

A folder stays with its entry until that goes, since files may be in it that the entry still needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import sqlalchemy as sa

from floecat.identifiers.namespace import TableIdentifier
from floecat.store.database.connections import Connection
from floecat.store.database.prepared_statements import PerDialect
from floecat.store.database.statements import NO_LIMIT, decode_texts, encode_rows, insert_if_absent
from floecat.store.schema import catalogs as _catalogs
from floecat.store.schema import entries as _entries
from floecat.store.schema import id_column, metadata, name_column
from floecat.store.schema import namespaces as _namespaces

__all__ = ["OtherFolder", "add", "other_in", "table_of"]

_paths: Final = sa.Table(
    "entry_paths",
    metadata,
    name_column("folder", primary_key=True),
    id_column("entry_id", sa.ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True, index=True),
)


class OtherFolder(NamedTuple):
    """A folder of another entry."""

    catalog_id: UUID
    folder: str


def add(conn: Connection, entry_id: UUID, folders: Iterable[str]) -> None:
    """Gives an entry folders, beside those that it has.

    Args:
        conn: a transaction.
        folders: as `floecat.entries.areas.folder_text` writes them.
    """
    conn.change_later(_ADD, *({"folder": folder, "entry_id": entry_id} for folder in folders))


def other_in(
    conn: Connection, entry_id: UUID, ranges: Sequence[tuple[str, str]], except_catalogs: Collection[UUID]
) -> OtherFolder | None:
    """A folder of another entry of any catalog.

    Args:
        entry_id: the entry itself.
        ranges: first and last text of each range of folders, by code points.
        except_catalogs: whose entries do not count.

    Raises:
        BadRequestError: a text is not valid Unicode.
    """
    parameters = {
        "entry_id": entry_id,
        "ranges": encode_rows(ranges),
        "except_catalogs": [*except_catalogs, _NO_ID],
    }
    row = conn.first(_OTHER_IN, parameters)
    return None if row is None else OtherFolder(*row)


def table_of(
    conn: Connection, account_id: UUID, folders: Collection[str]
) -> tuple[str, TableIdentifier] | None:
    """The table of an account that has the longest of some folders, after the name of its catalog.

    Raises:
        BadRequestError: a text is not valid Unicode.
    """
    row = conn.first(_TABLE_OF, {"account_id": account_id, "folders": list(folders)})
    return None if row is None else (row[0], TableIdentifier(decode_texts(row[1]), row[2]))


def _other(found: sa.FromClause, ranges: sa.FromClause, is_inside: sa.ColumnElement[bool]) -> sa.Executable:
    return (
        sa.select(_entries.c.catalog_id, found.c.folder)
        .select_from(ranges.join(found, is_inside).join(_entries, _entries.c.id == found.c.entry_id))
        .where(
            found.c.entry_id != sa.bindparam("entry_id"),
            _entries.c.catalog_id.not_in(sa.bindparam("except_catalogs", expanding=True)),
        )
        .limit(1)
    )


def _other_sqlite() -> sa.Executable:
    rows = sa.func.json_each(sa.bindparam("ranges", type_=sa.Text())).table_valued("value")
    low, high = (sa.func.json_extract(rows.c.value, f"$[{side}]", type_=sa.Text()) for side in (0, 1))
    return _other(_paths, rows, sa.and_(_paths.c.folder >= low, _paths.c.folder <= high))


def _other_postgresql() -> sa.Executable:
    elements = sa.func.json_array_elements(sa.cast(sa.bindparam("ranges", type_=sa.Text()), sa.JSON()))
    rows = elements.table_valued(sa.column("value", sa.JSON())).render_derived()
    low, high = (
        sa.type_coerce(rows.c.value.op("->>")(sa.literal(side, sa.Integer())), sa.Text()) for side in (0, 1)
    )
    # in order, so that the planner takes the index: it expects a ninth of the table in every range
    found = (
        sa.select(_paths.c.folder, _paths.c.entry_id)
        .where(_paths.c.folder >= low, _paths.c.folder <= high)
        .order_by(_paths.c.folder)
        .limit(NO_LIMIT)
        .lateral("found")
    )
    return _other(found, rows, sa.true())


_NO_ID: Final = UUID(int=0)
_ADD: Final = insert_if_absent(_paths, _paths.c.folder, _paths.c.entry_id)
_TABLE_OF: Final = (
    sa.select(_catalogs.c.name, _namespaces.c.levels, _entries.c.name)
    .select_from(
        _paths.join(_entries, _entries.c.id == _paths.c.entry_id)
        .join(_namespaces, _namespaces.c.id == _entries.c.namespace_id)
        .join(_catalogs, _catalogs.c.id == _entries.c.catalog_id)
    )
    .where(
        _paths.c.folder.in_(sa.bindparam("folders", expanding=True)),
        _catalogs.c.account_id == sa.bindparam("account_id"),
        _entries.c.kind == "table",
    )
    .order_by(sa.func.length(_paths.c.folder).desc())
    .limit(1)
)
_OTHER_IN: Final = PerDialect(_other_sqlite(), _other_postgresql())
