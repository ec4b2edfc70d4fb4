"""Names of entries: whether one is free, and the errors for those that are missing or taken.

The texts of the errors are those of the reference implementation, which clients compare.
"""

from __future__ import annotations

from floecat.entries.calls import Call, EntryKind
from floecat.errors import AlreadyExistsError, NoSuchNamespaceError, NoSuchTableError, NoSuchViewError
from floecat.identifiers.namespace import Namespace, TableIdentifier, check_name
from floecat.store import namespaces
from floecat.store.database.engine import Store
from floecat.store.namespaces import NamespaceRow

__all__ = [
    "missing_entry",
    "missing_namespace",
    "missing_table",
    "missing_view",
    "name_taken",
    "namespace_for",
    "namespace_row",
]


def namespace_for(store: Store, call: Call, kind: EntryKind, identifier: TableIdentifier) -> NamespaceRow:
    """The namespace of an entry that will be created.

    Raises:
        BadRequestError: the name cannot be addressed or stored.
        NoSuchNamespaceError: the namespace does not exist.
        AlreadyExistsError: the name is taken, by a table or a view.
    """
    check_name(identifier.name, f"{kind} name")
    with store.read() as conn:
        found = namespaces.get_with_kind(conn, call.catalog.id, identifier.namespace, identifier.name)
    if found is None:
        raise missing_namespace(identifier.namespace)
    namespace, taken = found
    if taken is not None:
        raise name_taken(kind, taken, identifier)
    return namespace


def namespace_row(store: Store, call: Call, namespace: Namespace) -> NamespaceRow:
    """The row of a namespace that something is created in.

    Raises:
        NoSuchNamespaceError: it does not exist.
    """
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
