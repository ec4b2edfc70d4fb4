"""Names that people type: with their catalog or without, and what they meant if there is no such thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from floecat.errors import NoSuchNamespaceError, NoSuchWarehouseError
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.identifiers.written_names import written
from floecat.suggestions import did_you_mean, nearest

if TYPE_CHECKING:
    from uuid import UUID

    from floecat.auth.authorizer import Securable
    from floecat.entries.calls import Call
    from floecat.runtime import Kernel

__all__ = ["OPERATOR", "hint", "of_catalog", "separator_of", "shown", "shown_securable", "split_levels"]

OPERATOR: Final = "operator"
"""Name in the commit log for users of commands."""

Name = TypeVar("Name", Namespace, TableIdentifier)


def of_catalog(kernel: Kernel, call: Call, name: Name, *, any_catalog: bool) -> tuple[Call, Name]:
    """A call on the catalog that a name begins with, and the name in it.

    What begins with a namespace of the catalog of the call is meant there.

    Args:
        kernel: an open one.
        call: on the catalog that the command is for.
        name: of a table, a view or a namespace.
        any_catalog: whether the name may begin with another catalog of the account.
    """
    call, name = _of_catalog(kernel, call, name, any_catalog=any_catalog)
    return call, split_levels(name, call.catalog.schema_separator)


def split_levels(name: Name, separator: str | None) -> Name:
    """A name that was typed, in a catalog of a separator of schemas: `A:B` is two levels."""
    if separator is None:
        return name
    if isinstance(name, TableIdentifier):
        return name._replace(namespace=split_levels(name.namespace, separator))
    return tuple(part for level in name for part in level.split(separator))


def separator_of(kernel: Kernel, account_id: UUID, catalog: str) -> str | None:
    """The separator of schemas of a catalog; `None` if it is flat, or there is none."""
    try:
        return kernel.catalog.catalogs.by_prefix(account_id, catalog).schema_separator
    except NoSuchWarehouseError:
        return None


def shown_securable(kernel: Kernel, account_id: UUID, on: Securable) -> str:
    """A thing of access for people: `namespace A:B of catalog lake`."""
    return on.shown(separator_of(kernel, account_id, on.catalog) if on.namespace else None)


def shown(call: Call, name: Namespace | TableIdentifier) -> str:
    """A table or namespace of the catalog for people, who may type it as it is: `A:B:C`, `A:B.orders`."""
    return written(name, call.catalog.schema_separator)


def _of_catalog(kernel: Kernel, call: Call, name: Name, *, any_catalog: bool) -> tuple[Call, Name]:
    levels = name.namespace if isinstance(name, TableIdentifier) else name
    catalog = levels[0]
    is_other = catalog != call.catalog.name
    if len(levels) < 2 or (is_other and not any_catalog) or _exists(kernel, call, levels[:1]):
        return call, name
    if is_other:
        try:
            call = kernel.catalog.calls.open_as_operator(OPERATOR, call.catalog.account_id, catalog)
        except NoSuchWarehouseError:
            return call, name
    if isinstance(name, TableIdentifier):
        return call, name._replace(namespace=levels[1:])
    return call, levels[1:]


def hint(kernel: Kernel, call: Call, name: Namespace | TableIdentifier) -> str:
    """The end of a message that something was not found: what a name stands for, or which was meant."""
    from floecat.entries.calls import PageRequest

    namespace = name.namespace if isinstance(name, TableIdentifier) else name
    if not _exists(kernel, call, namespace):
        near = nearest(
            shown(call, namespace), (shown(call, each) for each in kernel.catalog.namespaces.walk(call))
        )
        if isinstance(name, TableIdentifier) and near:
            near = [f"{near[0]}.{written((name.name,))}"]
        return did_you_mean(near)
    if not isinstance(name, TableIdentifier):
        return ""
    tables = kernel.catalog.tables.list(call, namespace, PageRequest()).items
    views = kernel.catalog.views.list(call, namespace, PageRequest()).items
    for kind, found in (("table", tables), ("view", views)):
        if name in found:
            return f"; it is a {kind}: floecat {kind} show {shown(call, name)}"
    by_name = {each.name: shown(call, each) for each in (*tables, *views)}
    return did_you_mean([by_name[near] for near in nearest(name.name, by_name)])


def _exists(kernel: Kernel, call: Call, namespace: Namespace) -> bool:
    try:
        kernel.catalog.namespaces.exists(call, namespace)
    except NoSuchNamespaceError:
        return False
    return True
