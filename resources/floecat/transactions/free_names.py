"""Names that new entries can have."""

from __future__ import annotations

from floecat.catalog.calls import Call, EntryKind
from floecat.catalog.namespaces import missing_namespace
from floecat.identifiers.namespace import TableIdentifier, check_name
from floecat.store import namespaces
from floecat.store.engine import Store
from floecat.store.namespaces import NamespaceRow
from floecat.transactions.table_changes import name_taken

__all__ = ["namespace_for"]


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
