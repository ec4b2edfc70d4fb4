"""Operations that change the store alone, each with what it needs before and how to see that it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from floecat.connectors.connector_info import NewConnector
from floecat.entries.calls import Call
from floecat.errors import NotFoundError
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel
from tests.behaviour.catalog.changes import table
from tests.delta_tables import writable_copy
from tests.faults.operations import OPERATIONS, Context, Operation

__all__ = ["STORE_OPERATIONS"]

_table = OPERATIONS["commit"].prepare
_view = OPERATIONS["replace view"].prepare


def _exists(look: Callable[[], object]) -> bool:
    try:
        look()
    except NotFoundError:
        return False
    return True


def _has_table(kernel: Kernel, call: Call, name: str) -> bool:
    return _exists(lambda: kernel.catalog.tables.exists(call, table(name)))


def _has_view(kernel: Kernel, call: Call, name: str) -> bool:
    return _exists(lambda: kernel.catalog.views.exists(call, table(name)))


def _nothing(kernel: Kernel, call: Call, suffix: str) -> Context:
    return {}


def _namespace(kernel: Kernel, call: Call, suffix: str) -> Context:
    kernel.catalog.namespaces.create(call, (f"n{suffix}",), {"old": "1"})
    return {}


def _connector(kernel: Kernel, call: Call, suffix: str) -> Context:
    _create_connector(kernel, call, suffix)
    return {}


def _create_connector(kernel: Kernel, call: Call, suffix: str) -> object:
    return kernel.connectors.connectors.create(
        call, NewConnector(f"c{suffix}", "delta", f"{call.catalog.storage_location}/lake")
    )


def _delta_log(kernel: Kernel, call: Call, suffix: str) -> Context:
    folder = kernel.settings.data_path / "warehouse" / f"delta{suffix}"
    writable_copy("kernel-rs/table-with-dv-small", folder)
    return {"folder": folder.as_uri()}


def _removal(act: Callable[[Kernel, Call, TableIdentifier], object]) -> Operation:
    """An operation that takes the table `t` away."""
    return Operation(
        _table,
        lambda kernel, call, suffix, _: act(kernel, call, table(f"t{suffix}")),
        lambda kernel, call, suffix, _: not _has_table(kernel, call, f"t{suffix}"),
    )


STORE_OPERATIONS: Mapping[str, Operation] = {
    "drop": _removal(lambda kernel, call, name: kernel.purge.drops.drop(call, name, purge=False)),
    "drop with purge": _removal(lambda kernel, call, name: kernel.purge.drops.drop(call, name, purge=True)),
    "unregister": _removal(lambda kernel, call, name: kernel.catalog.tables.unregister(call, name)),
    "rename": Operation(
        _table,
        lambda kernel, call, suffix, _: kernel.catalog.tables.rename(
            call, table(f"t{suffix}"), table(f"r{suffix}")
        ),
        lambda kernel, call, suffix, _: _has_table(kernel, call, f"r{suffix}"),
    ),
    "rename view": Operation(
        _view,
        lambda kernel, call, suffix, _: kernel.catalog.views.rename(
            call, table(f"v{suffix}"), table(f"r{suffix}")
        ),
        lambda kernel, call, suffix, _: _has_view(kernel, call, f"r{suffix}"),
    ),
    "drop view": Operation(
        _view,
        lambda kernel, call, suffix, _: kernel.catalog.views.drop(call, table(f"v{suffix}")),
        lambda kernel, call, suffix, _: not _has_view(kernel, call, f"v{suffix}"),
    ),
    "create namespace": Operation(
        _nothing,
        lambda kernel, call, suffix, _: kernel.catalog.namespaces.create(
            call, (f"n{suffix}", "inner"), {"a": "1"}
        ),
        lambda kernel, call, suffix, _: _exists(
            lambda: kernel.catalog.namespaces.exists(call, (f"n{suffix}", "inner"))
        ),
    ),
    "drop namespace": Operation(
        _namespace,
        lambda kernel, call, suffix, _: kernel.catalog.namespaces.drop(call, (f"n{suffix}",)),
        lambda kernel, call, suffix, _: (
            not _exists(lambda: kernel.catalog.namespaces.exists(call, (f"n{suffix}",)))
        ),
    ),
    "namespace properties": Operation(
        _namespace,
        lambda kernel, call, suffix, _: kernel.catalog.namespaces.update_properties(
            call, (f"n{suffix}",), ["old"], {"new": "1"}
        ),
        lambda kernel, call, suffix, _: (
            kernel.catalog.namespaces.load(call, (f"n{suffix}",)).properties.keys() == {"new", "location"}
        ),
    ),
    "create connector": Operation(
        _nothing,
        lambda kernel, call, suffix, _: _create_connector(kernel, call, suffix),
        lambda kernel, call, suffix, _: _exists(
            lambda: kernel.connectors.connectors.load(call, f"c{suffix}")
        ),
    ),
    "drop connector": Operation(
        _connector,
        lambda kernel, call, suffix, _: kernel.connectors.connectors.drop(call, f"c{suffix}"),
        lambda kernel, call, suffix, _: (
            not _exists(lambda: kernel.connectors.connectors.load(call, f"c{suffix}"))
        ),
    ),
    "register a Delta table": Operation(
        _delta_log,
        lambda kernel, call, suffix, context: kernel.delta.registration.register(
            call, ("ns",), f"d{suffix}", context["folder"], read=False
        ),
        lambda kernel, call, suffix, _: _has_table(kernel, call, f"d{suffix}"),
    ),
}
