"""Names of entries: what a path spells, whether a name is free, and the errors for missing and taken ones.

Each look-up names the privilege that it is for, and asks for it before it looks.
The texts of the errors are those of the reference implementation, which clients compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from uuid import UUID

from floecat.auth.authorizer import Privilege, Securable
from floecat.entries.calls import Call, EntryKind
from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
)
from floecat.identifiers.encoding import NamespaceSeparator, decode_segment
from floecat.identifiers.namespace import Namespace, TableIdentifier, check_name
from floecat.identifiers.schema_names import split_schema
from floecat.store.catalogs import namespaces
from floecat.store.catalogs.namespaces import NamespaceRow
from floecat.store.database.engine import Connection, Store
from floecat.store.entries import tables
from floecat.store.entries.tables import EntryRow

__all__ = [
    "Resolver",
    "check_owns_view",
    "existing_entry",
    "existing_namespace",
    "missing_entry",
    "missing_namespace",
    "missing_table",
    "missing_view",
    "name_taken",
    "namespace_for",
    "namespace_row",
    "protected",
]


_LONGEST_CHAIN = 16


class Resolver:
    """Chooses among the readings of a name the one that exists.

    A raw `+` in a path is a plus to clients that follow RFC 3986 and a space to those that form-encode. The
    literal reading is tried first, then the other; a path without one costs nothing here. A reading that the
    principal may not know of counts as missing.
    """

    def __init__(self, store: Store, separator: NamespaceSeparator) -> None:
        self._store = store
        self._separator = separator

    def namespace(self, call: Call, segment: str) -> Namespace:
        """The namespace of a segment of a path: the first reading that exists, else the first one.

        Raises:
            BadRequestError: a level is empty or is not valid percent-encoded UTF-8.
        """
        return self._existing(call, self._separator.split_path(segment))

    def schema(self, call: Call, segment: str) -> Namespace:
        """The namespace of a segment of a path that has its levels in one name, as `namespace`.

        Raises:
            BadRequestError: a level is empty, or it is not valid percent-encoded UTF-8.
        """
        names = decode_segment(segment)
        separator = call.catalog.schema_separator
        return self._existing(call, [split_schema(name, separator) for name in names if name is not None])

    def entry(self, call: Call, namespace: str, name: str) -> TableIdentifier:
        """The table or view of two segments of a path: the first reading that exists, else the first one.

        Raises:
            BadRequestError: a segment is not valid percent-encoded UTF-8, or a level is empty.
        """
        spelled = decode_segment(name)
        names = (spelled.literal,) if spelled.form is None else (spelled.literal, spelled.form)
        candidates = self._separator.split_path(namespace)
        readings = [TableIdentifier(levels, each) for levels in candidates for each in names]
        if len(readings) > 1:
            allowed = call.allowed(
                [
                    check
                    for reading in readings
                    for check in (
                        (Privilege.LIST_TABLE, call.on_entry("table", reading)),
                        (Privilege.LIST_VIEW, call.on_entry("view", reading)),
                    )
                ]
            )
            with self._store.read() as conn:
                for reading, *kinds in zip(readings, allowed[::2], allowed[1::2], strict=True):
                    row = tables.find(conn, call.catalog.id, reading) if any(kinds) else None
                    if row is not None and kinds[row.kind == "view"]:
                        return reading
        return readings[0]

    def parent(self, call: Call, value: str) -> Namespace | None:
        """The namespace of the query parameter `parent`; `None` if it is empty.

        PyIceberg encodes each level once more than the specification says. Its reading counts where no
        namespace has the literal name.

        Raises:
            BadRequestError: the value is not valid percent-encoded UTF-8.
        """
        levels = self._separator.split_parameter(value)
        return self._existing(call, _encoded_once_or_twice(levels)) if levels else None

    def chain(self, value: str) -> Sequence[TableIdentifier]:
        """The views of the query parameter `referenced-by`, the outermost first.

        Args:
            value: as it came over the wire: commas stand between views, and their names have encoded ones.

        Raises:
            BadRequestError: there are too many, one has no namespace, or is not valid percent-encoded UTF-8.
        """
        views = value.split(",")
        if len(views) > _LONGEST_CHAIN:
            raise BadRequestError(f"Invalid referenced-by: more than {_LONGEST_CHAIN} views")
        return [self._view(each) for each in views]

    def _view(self, value: str) -> TableIdentifier:
        # encoded as a segment of a path, and a plus as in a query
        encoded = self._separator.split_levels(value.replace("+", " "))
        levels = [decode_segment(each).literal for each in encoded]
        if len(levels) < 2 or not all(levels):
            raise BadRequestError("Invalid referenced-by: a view is its namespace, a separator and its name")
        return TableIdentifier(tuple(levels[:-1]), levels[-1])

    def _existing(self, call: Call, candidates: Sequence[Namespace]) -> Namespace:
        if len(candidates) > 1:
            allowed = call.allowed(
                [(Privilege.LIST_SCHEMA, call.on_namespace(candidate)) for candidate in candidates]
            )
            with self._store.read() as conn:
                for candidate in compress(candidates, allowed):
                    if namespaces.get(conn, call.catalog.id, candidate) is not None:
                        return candidate
        return candidates[0]


def namespace_for(
    store: Store, call: Call, kind: EntryKind, identifier: TableIdentifier, privilege: Privilege
) -> NamespaceRow:
    """The namespace of an entry that will be created.

    Raises:
        BadRequestError: the name cannot be addressed or stored.
        ForbiddenError: the principal does not have the privilege on the entry.
        NoSuchNamespaceError: the namespace does not exist.
        AlreadyExistsError: the name is taken, by a table or a view.
    """
    check_name(identifier.name, f"{kind} name")
    call.check((privilege, call.on_entry(kind, identifier)))
    with store.read() as conn:
        found = namespaces.get_with_kind(conn, call.catalog.id, identifier.namespace, identifier.name)
    if found is None:
        raise missing_namespace(identifier.namespace)
    namespace, taken = found
    if taken is not None:
        raise name_taken(kind, taken, identifier)
    return namespace


def namespace_row(
    store: Store, call: Call, kind: EntryKind, identifier: TableIdentifier, privilege: Privilege
) -> NamespaceRow:
    """The namespace of an entry, whether or not the name is free.

    Raises:
        ForbiddenError: the principal does not have the privilege on the entry.
        NoSuchNamespaceError: the namespace does not exist.
    """
    call.check((privilege, call.on_entry(kind, identifier)))
    return _namespace(store, call, identifier.namespace)


def existing_namespace(store: Store, call: Call, namespace: Namespace, privilege: Privilege) -> NamespaceRow:
    """The row of a namespace.

    Raises:
        ForbiddenError: the principal does not have the privilege on the namespace.
        NoSuchNamespaceError: it does not exist.
    """
    call.check((privilege, call.on_namespace(namespace)))
    return _namespace(store, call, namespace)


def existing_entry(
    store: Store, call: Call, kind: EntryKind, identifier: TableIdentifier, privilege: Privilege
) -> EntryRow:
    """The row of a table or view, without its document.

    Raises:
        ForbiddenError: the principal does not have the privilege on the entry.
        NoSuchTableError, NoSuchViewError: there is no such entry.
    """
    call.check((privilege, call.on_entry(kind, identifier)))
    with store.read() as conn:
        row = tables.find(conn, call.catalog.id, identifier)
    if row is None or row.kind != kind:
        raise missing_entry(kind, identifier)
    return row


def check_owns_view(conn: Connection, call: Call, view: TableIdentifier, owner_id: UUID | None) -> None:
    """Refuses who does not own a view what only its owner does.

    Raises:
        ForbiddenError: the principal does not own it.
    """
    if not call.owns(conn, owner_id):
        who = "Nobody owns" if owner_id is None else f"{call.principal.name} does not own"
        raise ForbiddenError(
            f"{who} view {view}: only the owner of a view lets it read with the rights of its owner, and"
            " changes one that does"
        )


def missing_namespace(namespace: Namespace) -> NoSuchNamespaceError:
    """The error for a namespace that does not exist."""
    return NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(namespace)}")


def missing_table(identifier: TableIdentifier) -> NoSuchTableError:
    """The error for a table that does not exist."""
    return NoSuchTableError(f"Table does not exist: {identifier}")


def missing_view(identifier: TableIdentifier) -> NoSuchViewError:
    """The error for a view that does not exist."""
    return NoSuchViewError(f"View does not exist: {identifier}")


def missing_entry(kind: EntryKind, identifier: TableIdentifier) -> NoSuchTableError | NoSuchViewError:
    """The error for an entry that does not exist."""
    return missing_table(identifier) if kind == "table" else missing_view(identifier)


def protected(securable: Securable) -> ConflictError:
    """The error for a removal of what is protected."""
    return ConflictError(
        f"Protected, so not removed: {securable}. Who has the privilege {Privilege.MANAGE_PROTECTION} on it"
        " takes the protection off, as by floecat access unprotect"
    )


def name_taken(wanted: EntryKind, kind: str, identifier: TableIdentifier) -> AlreadyExistsError:
    """The error for a name that is taken."""
    if wanted == kind:
        return AlreadyExistsError(f"{kind.capitalize()} already exists: {identifier}")
    return AlreadyExistsError(f"{kind.capitalize()} with same name already exists: {identifier}")


def _namespace(store: Store, call: Call, namespace: Namespace) -> NamespaceRow:
    with store.read() as conn:
        row = namespaces.get(conn, call.catalog.id, namespace)
    if row is None:
        raise missing_namespace(namespace)
    return row


def _encoded_once_or_twice(levels: Namespace) -> list[Namespace]:
    if not any("%" in level for level in levels):
        return [levels]
    try:
        return [levels, tuple(decode_segment(level).literal for level in levels)]
    except BadRequestError:
        return [levels]
