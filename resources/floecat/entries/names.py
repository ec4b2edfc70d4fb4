"""Names of entries: whether one is free, and the errors for those that are missing or taken.

Each look-up names the privilege that it is for, and asks for it before it looks.
The texts of the errors are those of the reference implementation, which clients compare.
"""

from __future__ import annotations

from floecat.auth.authorizer import Privilege
from floecat.entries.calls import Call, EntryKind
from floecat.errors import AlreadyExistsError, NoSuchNamespaceError, NoSuchTableError, NoSuchViewError
from floecat.identifiers.namespace import Namespace, TableIdentifier, check_name
from floecat.store import namespaces, tables
from floecat.store.database.engine import Store
from floecat.store.namespaces import NamespaceRow
from floecat.store.tables import EntryRow

__all__ = [
    "existing_entry",
    "existing_namespace",
    "missing_entry",
    "missing_namespace",
    "missing_table",
    "missing_view",
    "name_taken",
    "namespace_for",
    "namespace_row",
]


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


def _namespace(store: Store, call: Call, namespace: Namespace) -> NamespaceRow:
    with store.read() as conn:
        row = namespaces.get(conn, call.catalog.id, namespace)
    if row is None:
        raise missing_namespace(namespace)
    return row


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


def name_taken(wanted: EntryKind, kind: str, identifier: TableIdentifier) -> AlreadyExistsError:
    """The error for a name that is taken."""
    if wanted == kind:
        return AlreadyExistsError(f"{kind.capitalize()} already exists: {identifier}")
    return AlreadyExistsError(f"{kind.capitalize()} with same name already exists: {identifier}")
