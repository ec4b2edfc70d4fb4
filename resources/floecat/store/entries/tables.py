"""Entries: tables, and views beside them, so that one constraint keeps names unique over both.

The current metadata document is part of what a look-up by name answers, in one statement. `entry_changes`
changes entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.identifiers.encoding import physical_name
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.store.database.connections import Connection
from floecat.store.database.prepared_statements import PerDialect
from floecat.store.database.statements import LIMIT, NO_LIMIT, can_exist, decode_texts, encode_rows
from floecat.store.entries.documents import has_metadata
from floecat.store.schema import accounts as _accounts
from floecat.store.schema import catalogs as _catalogs
from floecat.store.schema import entries as _entries
from floecat.store.schema import metadata_documents as _documents
from floecat.store.schema import namespaces as _namespaces
from floecat.store.schema import refs as _refs

__all__ = [
    "EntryRow",
    "EntryState",
    "ListedTable",
    "document",
    "find",
    "get",
    "list_all",
    "list_names",
    "list_places",
    "load",
    "load_many",
    "scan",
    "state",
]


class EntryState(NamedTuple):
    """Names one state of one entry; two states that have other documents differ in it.

    The location alone does not: a table may be dropped and registered again from a file of the same name, or
    an entry be registered over from a file that was changed since it was current. Nor does the version: a
    database that is restored to an earlier time gives its numbers out again.
    """

    id: UUID
    version: int
    metadata_location: str


class EntryRow(msgspec.Struct, frozen=True):
    """A table or a view."""

    id: UUID
    catalog_id: UUID
    namespace_id: UUID
    name: str
    kind: str
    """`table` or `view`."""
    object_uuid: str
    """`table-uuid` or `view-uuid` of the metadata."""
    location: str
    metadata_location: str
    version: int
    """Counts changes of the row; what a compare-and-set compares."""
    format_version: int
    created_at_ms: int
    updated_at_ms: int
    format: str = "iceberg"
    """`iceberg`; or one that takes no commits: `delta` for metadata that is derived from a Delta log,
    `followed` for that of a table or view of another catalog."""
    owner_id: UUID | None = None
    """Id of a principal or role."""
    protected: bool = False
    """Whether it may not be removed."""
    definer: bool = False
    """Of a view: whether what it reads is read with the rights of its owner."""
    size_bytes: int | None = None
    """Size of the metadata document as JSON; `None` where documents were not looked at."""
    access_version: int = 0
    """Of its account; 0 where documents were not looked at."""
    document: bytes | None = None
    """The metadata document as `store.entries.documents` compresses it; `None` where it was not asked for."""

    @property
    def state(self) -> EntryState:
        """The state that this row is of."""
        return EntryState(self.id, self.version, self.metadata_location)

    @property
    def has_metadata(self) -> bool:
        """Whether there is metadata to answer; a table of another format has none before it is first read."""
        return has_metadata(self.metadata_location)


class ListedTable(msgspec.Struct, frozen=True, rename="kebab"):
    """A table, or a view, in a listing of its catalog."""

    namespace: Namespace
    name: str
    id: UUID
    format: str
    """`iceberg`, `delta` or `followed`."""
    format_version: int
    location: str
    metadata_location: str | None
    """`None` for a table of another format that was not read yet."""
    snapshot_id: int | None
    """Snapshot of the branch `main`; views have none."""
    created_at_ms: int
    updated_at_ms: int


def load(
    conn: Connection, catalog_id: UUID, identifier: TableIdentifier, known: EntryState | None
) -> EntryRow | None:
    """The entry of this name, of either kind, with its document, in one statement.

    Args:
        identifier: the name.
        known: state of which the caller holds the document. While that is the current one, `document` is
            `None`.
    """
    if not can_exist(identifier.name):
        return None
    parameters = _name_parameters(catalog_id, identifier)
    known_id, known_version, known_location = known or _NOTHING_KNOWN
    parameters |= {
        "known_id": known_id,
        "known_version": known_version,
        "known_location": known_location,
    }
    row = conn.first(_LOAD, parameters)
    return None if row is None else EntryRow(*row)


def load_many(
    conn: Connection, catalog_id: UUID, wanted: Sequence[tuple[TableIdentifier, EntryState | None]]
) -> dict[TableIdentifier, EntryRow]:
    """The entries as `load` answers them, in one statement. Names that do not exist are left out."""
    if len(wanted) == 1:
        identifier, known = wanted[0]
        row = load(conn, catalog_id, identifier, known)
        return {} if row is None else {identifier: row}
    asked = [each for each in wanted if can_exist(each[0].name)]
    names = [
        (
            catalog_id.hex,
            physical_name(identifier.namespace),
            identifier.name,
            *((known.id.hex, str(known.version), known.metadata_location) if known else _NOTHING_KNOWN),
        )
        for identifier, known in asked
    ]
    parameters = {"wanted": encode_rows(names)}
    return {asked[row[-1]][0]: EntryRow(*row[:-1]) for row in conn.all(_LOAD_MANY, parameters)}


def find(conn: Connection, catalog_id: UUID, identifier: TableIdentifier) -> EntryRow | None:
    """The entry of this name, of either kind, without its document."""
    if not can_exist(identifier.name):
        return None
    row = conn.first(_FIND, _name_parameters(catalog_id, identifier))
    return None if row is None else EntryRow(*row)


def get(conn: Connection, entry_id: UUID) -> EntryRow | None:
    """The entry of this id, whatever its name is now, without its document."""
    row = conn.first(_GET, {"id": entry_id})
    return None if row is None else EntryRow(*row)


def state(conn: Connection, entry_id: UUID) -> tuple[EntryState, UUID | None, int] | None:
    """The state of an entry, to check whether it is unchanged, its owner, and its account's access version.

    Returns:
        None if there is no such entry.
    """
    row = conn.first(_STATE, {"id": entry_id})
    return None if row is None else (EntryState(entry_id, row[0], row[1]), row[2], row[3])


def document(conn: Connection, entry_id: UUID) -> bytes | None:
    """The current metadata document of an entry, compressed; `None` if there is no such entry."""
    row = conn.first(_DOCUMENT, {"id": entry_id})
    return None if row is None else row[0]


def list_names(
    conn: Connection,
    catalog_id: UUID,
    namespace: Namespace,
    kind: str,
    after: str | None,
    limit: int | None,
    table_type: str | None = None,
) -> list[str]:
    """Names of the entries of one kind in a namespace, ordered by code points.

    Args:
        namespace: of the catalog; a missing one has no names.
        kind: `table` or `view`.
        after: last name of the page before.
        limit: most names; `None` for all.
        table_type: lists only tables of this type; views have none.
    """
    parameters: dict[str, Any] = {
        "catalog_id": catalog_id,
        "physical_name": physical_name(namespace),
        "after": after or "",
        "limit": NO_LIMIT if limit is None else limit,
    }
    if table_type is not None:
        return [row[0] for row in conn.all(_LIST_TYPE, {**parameters, "table_type": table_type})]
    return [row[0] for row in conn.all(_LIST, {**parameters, "kind": kind})]


def list_all(
    conn: Connection, catalog_id: UUID, after: UUID | None, limit: int, kind: str = "table"
) -> list[ListedTable]:
    """The entries of one kind in a catalog, ordered by id.

    Args:
        after: id of the last one of the page before.
        limit: most entries.
        kind: `table` or `view`.
    """
    parameters = {"catalog_id": catalog_id, "after": after or _FIRST_ID, "limit": limit, "kind": kind}
    return [
        ListedTable(
            decode_texts(levels),
            name,
            id_,
            format_,
            version,
            location,
            located if has_metadata(located) else None,
            *rest,
        )
        for levels, name, id_, format_, version, location, located, *rest in conn.all(_LIST_ALL, parameters)
    ]


def list_places(
    conn: Connection, catalog_id: UUID, after: UUID | None, limit: int
) -> list[tuple[UUID, str, str]]:
    """Id, location and metadata location of the tables and views of a catalog, ordered by id.

    Args:
        after: id of the last entry of the page before.
        limit: most entries.
    """
    parameters = {"catalog_id": catalog_id, "after": after or _FIRST_ID, "limit": limit}
    return [(row[0], row[1], row[2]) for row in conn.all(_LIST_PLACES, parameters)]


def scan(conn: Connection, kind: str, after: UUID | None, limit: int) -> list[EntryRow]:
    """Entries of one kind over all catalogs, ordered by id, without their documents.

    Args:
        kind: `table` or `view`.
        after: id of the last entry of the page before.
        limit: most entries.
    """
    parameters = {"kind": kind, "after": after or _FIRST_ID, "limit": limit}
    return [EntryRow(*row) for row in conn.all(_SCAN, parameters)]


def _name_parameters(catalog_id: UUID, identifier: TableIdentifier) -> dict[str, Any]:
    return {
        "catalog_id": catalog_id,
        "physical_name": physical_name(identifier.namespace),
        "name": identifier.name,
    }


_ENTRY_COLUMNS: Final = (
    _entries.c.id,
    _entries.c.catalog_id,
    _entries.c.namespace_id,
    _entries.c.name,
    _entries.c.kind,
    _entries.c.object_uuid,
    _entries.c.location,
    _entries.c.metadata_location,
    _entries.c.version,
    _entries.c.format_version,
    _entries.c.created_at_ms,
    _entries.c.updated_at_ms,
    _entries.c.format,
    _entries.c.owner_id,
    _entries.c.protected,
    _entries.c.definer,
)
_ACCESS_VERSION: Final = (
    sa.select(_accounts.c.access_version)
    .join(_catalogs, _catalogs.c.account_id == _accounts.c.id)
    .where(_catalogs.c.id == _entries.c.catalog_id)
    .scalar_subquery()
)
_NAMED: Final = (
    _namespaces.c.catalog_id == sa.bindparam("catalog_id"),
    _namespaces.c.physical_name == sa.bindparam("physical_name"),
    _entries.c.name == sa.bindparam("name"),
)
_located: Final = _namespaces.join(_entries, _entries.c.namespace_id == _namespaces.c.id)
_documented: Final = _located.join(_documents, _documents.c.entry_id == _entries.c.id)
_FIND: Final = sa.select(*_ENTRY_COLUMNS).select_from(_located).where(*_NAMED)


def _unless_known(
    known_id: sa.ColumnElement[UUID],
    known_version: sa.ColumnElement[int],
    known_location: sa.ColumnElement[str],
) -> sa.ColumnElement[bytes | None]:
    # a caller that holds the current document is spared its bytes
    is_known = sa.and_(
        _entries.c.id == known_id,
        _entries.c.version == known_version,
        _entries.c.metadata_location == known_location,
    )
    return sa.case((is_known, sa.null()), else_=_documents.c.body)


_LOAD: Final = (
    sa.select(
        *_ENTRY_COLUMNS,
        _documents.c.size_bytes,
        _ACCESS_VERSION,
        _unless_known(
            sa.bindparam("known_id", type_=sa.Uuid()),
            sa.bindparam("known_version", type_=sa.BigInteger()),
            sa.bindparam("known_location", type_=sa.Text()),
        ),
    )
    .select_from(_documented)
    .where(*_NAMED)
)
_WANTED_FIELDS: Final = (
    "catalog_id",
    "physical_name",
    "name",
    "known_id",
    "known_version",
    "known_location",
)


def _load_wanted(
    wanted: sa.FromClause, as_id: Callable[[sa.ColumnElement[Any]], sa.ColumnElement[UUID]]
) -> sa.Executable:
    """Entries for names that go in as one parameter, so that one statement serves every length."""
    return (
        sa.select(
            *_ENTRY_COLUMNS,
            _documents.c.size_bytes,
            _ACCESS_VERSION,
            _unless_known(
                as_id(wanted.c.known_id),
                sa.cast(wanted.c.known_version, sa.BigInteger()),
                wanted.c.known_location,
            ),
            wanted.c.position,
        )
        .select_from(wanted)
        .join(
            _namespaces,
            sa.and_(
                _namespaces.c.catalog_id == as_id(wanted.c.catalog_id),
                _namespaces.c.physical_name == wanted.c.physical_name,
            ),
        )
        .join(
            _entries,
            sa.and_(_entries.c.namespace_id == _namespaces.c.id, _entries.c.name == wanted.c.name),
        )
        .join(_documents, _documents.c.entry_id == _entries.c.id)
    )


def _load_many_sqlite() -> sa.Executable:
    rows = sa.func.json_each(sa.bindparam("wanted", type_=sa.Text())).table_valued("key", "value")
    wanted = sa.select(
        rows.c.key.label("position"),
        *(
            sa.func.json_extract(rows.c.value, f"$[{index}]", type_=sa.Text()).label(field)
            for index, field in enumerate(_WANTED_FIELDS)
        ),
    ).subquery("wanted")
    # Without a constant for the catalog the planner has to start from the names, and not from all namespaces.
    return _load_wanted(wanted, lambda column: column)


def _load_many_postgresql() -> sa.Executable:
    array = sa.cast(sa.bindparam("wanted", type_=sa.Text()), sa.JSON())
    rows = (
        sa.func.json_array_elements(array)
        .table_valued(sa.column("value", sa.JSON()), with_ordinality="ordinality")
        .render_derived()
    )
    wanted = sa.select(
        (rows.c.ordinality - 1).label("position"),
        *(
            sa.type_coerce(rows.c.value.op("->>")(sa.literal(index, sa.Integer())), sa.Text()).label(field)
            for index, field in enumerate(_WANTED_FIELDS)
        ),
    ).subquery("wanted")
    return _load_wanted(wanted, lambda column: sa.cast(column, sa.Uuid()))


_LOAD_MANY: Final = PerDialect(_load_many_sqlite(), _load_many_postgresql())
_STATE: Final = sa.select(
    _entries.c.version, _entries.c.metadata_location, _entries.c.owner_id, _ACCESS_VERSION
).where(_entries.c.id == sa.bindparam("id"))
_GET: Final = sa.select(*_ENTRY_COLUMNS).where(_entries.c.id == sa.bindparam("id"))
_DOCUMENT: Final = sa.select(_documents.c.body).where(_documents.c.entry_id == sa.bindparam("id"))
_NAMES: Final = (
    sa.select(_entries.c.name)
    .where(
        # not by a join, for which PostgreSQL would sort all names of the namespace
        _entries.c.namespace_id
        == sa.select(_namespaces.c.id)
        .where(
            _namespaces.c.catalog_id == sa.bindparam("catalog_id"),
            _namespaces.c.physical_name == sa.bindparam("physical_name"),
        )
        .scalar_subquery(),
        _entries.c.name > sa.bindparam("after"),
    )
    .order_by(_entries.c.name)
    .limit(LIMIT)
)
_LIST: Final = _NAMES.where(_entries.c.kind == sa.bindparam("kind"))
_LIST_TYPE: Final = _NAMES.where(_entries.c.table_type == sa.bindparam("table_type"))
_SCAN: Final = (
    sa.select(*_ENTRY_COLUMNS)
    .where(_entries.c.kind == sa.bindparam("kind"), _entries.c.id > sa.bindparam("after"))
    .order_by(_entries.c.id)
    .limit(LIMIT)
)
_main: Final = sa.and_(_refs.c.entry_id == _entries.c.id, _refs.c.name == "main")
_LIST_ALL: Final = (
    sa.select(
        _namespaces.c.levels,
        _entries.c.name,
        _entries.c.id,
        _entries.c.format,
        _entries.c.format_version,
        _entries.c.location,
        _entries.c.metadata_location,
        _refs.c.snapshot_id,
        _entries.c.created_at_ms,
        _entries.c.updated_at_ms,
    )
    .select_from(_located.outerjoin(_refs, _main))
    .where(
        _entries.c.catalog_id == sa.bindparam("catalog_id"),
        _entries.c.kind == sa.bindparam("kind"),
        _entries.c.id > sa.bindparam("after"),
    )
    .order_by(_entries.c.id)
    .limit(LIMIT)
)
_LIST_PLACES: Final = (
    sa.select(_entries.c.id, _entries.c.location, _entries.c.metadata_location)
    .where(_entries.c.catalog_id == sa.bindparam("catalog_id"), _entries.c.id > sa.bindparam("after"))
    .order_by(_entries.c.id)
    .limit(LIMIT)
)
_FIRST_ID: Final = UUID(int=0)
_NOTHING_KNOWN: Final = (None, None, None)
