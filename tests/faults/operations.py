"""Every operation that touches storage, each with what it needs before and how to see that it is complete."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Raw

from floecat.commits.commit import CreateTable
from floecat.commits.view_commits import CreateView
from floecat.entries.calls import Call, PageRequest
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel
from tests.behaviour.catalog.changes import SCHEMA, append, change, create, set_property, table
from tests.faults.consistency import local_path
from tests.updates import decode_view_updates
from tests.view_documents import view_version

__all__ = ["OPERATIONS", "Operation", "State", "state_of"]

Context = dict[str, Any]


class Operation(NamedTuple):
    """One operation on names that hold a suffix, so that it can be tried again on fresh ones."""

    prepare: Callable[[Kernel, Call, str], Context]
    """Makes what the operation needs; its result goes to the other two."""
    act: Callable[[Kernel, Call, str, Context], object]
    is_done: Callable[[Kernel, Call, str, Context], bool]


class State(NamedTuple):
    """All that a client can see, and the metadata files."""

    tables: Mapping[str, bytes]
    views: Mapping[str, bytes]
    files: frozenset[Path]


def state_of(kernel: Kernel, call: Call) -> State:
    """The state of the namespace `ns`, read without the memory of the kernel."""
    fresh = Kernel(kernel.settings, kernel.store, kernel.files, kernel.clock)
    everything = PageRequest()
    tables = fresh.catalog.tables.list(call, ("ns",), everything).items
    views = fresh.catalog.views.list(call, ("ns",), everything).items
    warehouse = local_path(call.catalog.storage_location)
    return State(
        {each.name: fresh.catalog.tables.load(call, each).metadata for each in tables},
        {each.name: fresh.catalog.views.load(call, each).metadata for each in views},
        frozenset(path for path in warehouse.rglob("*") if path.is_file()),
    )


def _nothing(kernel: Kernel, call: Call, suffix: str) -> Context:
    return {}


def _properties(kernel: Kernel, call: Call, name: str) -> dict[str, str]:
    loaded = kernel.catalog.tables.load(call, table(name))
    properties: dict[str, str] = json.loads(loaded.metadata)["properties"]
    return properties


def _is_table(kernel: Kernel, call: Call, name: str) -> bool:
    return name in {each.name for each in kernel.catalog.tables.list(call, ("ns",), PageRequest()).items}


def _location(kernel: Kernel, call: Call, name: str) -> str:
    return str(json.loads(kernel.catalog.tables.load(call, table(name)).metadata)["location"])


def _table(kernel: Kernel, call: Call, suffix: str) -> Context:
    create(kernel, call, f"t{suffix}")
    return {"location": _location(kernel, call, f"t{suffix}")}


def _forgetful_table(kernel: Kernel, call: Call, suffix: str) -> Context:
    """A table whose next commit lets a metadata file fall out of its log, and deletes it."""
    name = f"t{suffix}"
    properties = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    create(kernel, call, name, properties=properties)
    kernel.commits.tables.commit(call, set_property(name, "first", "1"))
    return {}


def _three_tables(kernel: Kernel, call: Call, suffix: str) -> Context:
    for letter in "abc":
        create(kernel, call, f"{letter}{suffix}")
    return {}


def _dropped_table(kernel: Kernel, call: Call, suffix: str) -> Context:
    made = create(kernel, call, f"gone{suffix}")
    kernel.purge.drops.drop(call, table(f"gone{suffix}"), purge=False)
    return {"file": made.metadata_location}


def _two_versions(kernel: Kernel, call: Call, suffix: str) -> Context:
    made = create(kernel, call, f"t{suffix}")
    kernel.commits.tables.commit(call, append(f"t{suffix}", 1, None, _location(kernel, call, f"t{suffix}")))
    return {"file": made.metadata_location}


def _view_request(name: str) -> CreateView:
    schema = {"type": "struct", "schema-id": 0, "fields": []}
    return CreateView(
        name=name,
        schema=Raw(json.dumps(schema).encode()),
        view_version=Raw(json.dumps(view_version()).encode()),
        properties={},
    )


def _create_view(kernel: Kernel, call: Call, name: str) -> str:
    return kernel.commits.views.create(call, ("ns",), _view_request(name)).metadata_location


def _view(kernel: Kernel, call: Call, suffix: str) -> Context:
    _create_view(kernel, call, f"v{suffix}")
    return {}


def _dropped_view(kernel: Kernel, call: Call, suffix: str) -> Context:
    location = _create_view(kernel, call, f"gone{suffix}")
    kernel.catalog.views.drop(call, TableIdentifier(("ns",), f"gone{suffix}"))
    return {"file": location}


def _is_view(kernel: Kernel, call: Call, name: str) -> bool:
    return name in {each.name for each in kernel.catalog.views.list(call, ("ns",), PageRequest()).items}


def _replace_view(kernel: Kernel, call: Call, name: str) -> object:
    updates = Raw(b'[{"action": "set-properties", "updates": {"mark": "1"}}]')
    return kernel.commits.views.replace(
        call, TableIdentifier(("ns",), name), [], decode_view_updates(updates)
    )


def _view_properties(kernel: Kernel, call: Call, name: str) -> dict[str, str]:
    loaded = kernel.catalog.views.load(call, TableIdentifier(("ns",), name))
    properties: dict[str, str] = json.loads(loaded.metadata).get("properties", {})
    return properties


def _creation(name: str) -> Any:
    return change(
        name,
        [
            {"action": "add-schema", "schema": json.loads(bytes(SCHEMA)) | {"schema-id": 0}},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ],
        [{"type": "assert-create"}],
    )


def _commit_transaction(kernel: Kernel, call: Call, suffix: str) -> object:
    changes = [set_property(f"{letter}{suffix}", "mark", "1") for letter in "abc"]
    return kernel.commits.tables.commit_transaction(call, [*changes, _creation(f"new{suffix}")])


def _transaction_is_done(kernel: Kernel, call: Call, suffix: str) -> bool:
    marks = ["mark" in _properties(kernel, call, f"{letter}{suffix}") for letter in "abc"]
    marks.append(_is_table(kernel, call, f"new{suffix}"))
    assert len(set(marks)) == 1, "half a transaction"
    return marks[0]


def _stage(kernel: Kernel, call: Call, suffix: str) -> object:
    request = CreateTable(name=f"s{suffix}", schema=SCHEMA)
    return kernel.commits.tables.stage_table(call, ("ns",), request, f"stage-{suffix}")


OPERATIONS: Mapping[str, Operation] = {
    "create": Operation(
        _nothing,
        lambda kernel, call, suffix, _: create(kernel, call, f"t{suffix}"),
        lambda kernel, call, suffix, _: _is_table(kernel, call, f"t{suffix}"),
    ),
    "stage": Operation(
        _nothing,
        lambda kernel, call, suffix, _: _stage(kernel, call, suffix),
        lambda kernel, call, suffix, _: not _is_table(kernel, call, f"s{suffix}"),
    ),
    "commit": Operation(
        _table,
        lambda kernel, call, suffix, context: kernel.commits.tables.commit(
            call, append(f"t{suffix}", 1, None, context["location"])
        ),
        lambda kernel, call, suffix, _: (
            b'"snapshot-id":1' in kernel.catalog.tables.load(call, table(f"t{suffix}")).metadata
        ),
    ),
    "commit that deletes old metadata": Operation(
        _forgetful_table,
        lambda kernel, call, suffix, _: kernel.commits.tables.commit(
            call, set_property(f"t{suffix}", "mark", "1")
        ),
        lambda kernel, call, suffix, _: "mark" in _properties(kernel, call, f"t{suffix}"),
    ),
    "transaction": Operation(
        _three_tables,
        lambda kernel, call, suffix, _: _commit_transaction(kernel, call, suffix),
        lambda kernel, call, suffix, _: _transaction_is_done(kernel, call, suffix),
    ),
    "register": Operation(
        _dropped_table,
        lambda kernel, call, suffix, context: kernel.commits.registration.register_table(
            call, ("ns",), f"t{suffix}", context["file"]
        ),
        lambda kernel, call, suffix, _: _is_table(kernel, call, f"t{suffix}"),
    ),
    "register over a table": Operation(
        _two_versions,
        lambda kernel, call, suffix, context: kernel.commits.registration.register_table(
            call, ("ns",), f"t{suffix}", context["file"], overwrite=True
        ),
        lambda kernel, call, suffix, context: (
            kernel.catalog.tables.load(call, table(f"t{suffix}")).metadata_location == context["file"]
        ),
    ),
    "create view": Operation(
        _nothing,
        lambda kernel, call, suffix, _: _create_view(kernel, call, f"v{suffix}"),
        lambda kernel, call, suffix, _: _is_view(kernel, call, f"v{suffix}"),
    ),
    "replace view": Operation(
        _view,
        lambda kernel, call, suffix, _: _replace_view(kernel, call, f"v{suffix}"),
        lambda kernel, call, suffix, _: "mark" in _view_properties(kernel, call, f"v{suffix}"),
    ),
    "register view": Operation(
        _dropped_view,
        lambda kernel, call, suffix, context: kernel.commits.views.register(
            call, ("ns",), f"v{suffix}", context["file"]
        ),
        lambda kernel, call, suffix, _: _is_view(kernel, call, f"v{suffix}"),
    ),
}
