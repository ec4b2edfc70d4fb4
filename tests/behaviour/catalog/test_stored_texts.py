"""Texts that one database takes and the other does not: both stores answer the same."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from urllib.parse import urlparse

import msgspec
import pytest

from floecat.commits.commit import CreateTable
from floecat.entries.calls import Call, LoadedTable, PageRequest
from floecat.errors import (
    BadRequestError,
    IllegalArgumentError,
    NoSuchTableError,
    NoSuchWarehouseError,
    NotFoundError,
)
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel
from floecat.store import page_tokens
from tests.behaviour.catalog.changes import SCHEMA, append, change, create, set_property, table
from tests.view_documents import view_document, view_version

NUL = "a\0b"
LONGEST = secrets.token_hex(512)


def set_ref(name: str, kind: str = "branch") -> dict[str, object]:
    return {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": 1}


def snapshot(**more: object) -> dict[str, object]:
    made = {
        "snapshot-id": 2,
        "sequence-number": 2,
        "timestamp-ms": 1,
        "manifest-list": "file:///m.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    return {"action": "add-snapshot", "snapshot": made | more}


@pytest.fixture
def filled(kernel: Kernel, call: Call) -> LoadedTable:
    created = create(kernel, call, "t")
    location = json.loads(created.metadata)["location"]
    return kernel.commits.tables.commit(call, append("t", 1, None, location))


REFUSED = {
    "name with NUL": (set_ref(NUL), "Invalid reference name: holds the character NUL"),
    "long name": (set_ref(LONGEST + "x", "tag"), "Invalid reference name: longer than 1024 bytes"),
    "long name of few characters": (set_ref("é" * 513), "Invalid reference name: longer than 1024 bytes"),
    "manifest list": (snapshot(**{"manifest-list": f"file:///{NUL}"}), "manifest-list of snapshot 2: holds"),
    "operation": (snapshot(summary={"operation": NUL}), "operation of snapshot 2: holds the character NUL"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_commit_is_refused(kernel: Kernel, call: Call, filled: LoadedTable, what: str) -> None:
    update, message = REFUSED[what]
    with pytest.raises(IllegalArgumentError, match=message):
        kernel.commits.tables.commit(call, change("t", [update]))
    assert kernel.catalog.tables.load(call, table("t")).metadata == filled.metadata


def registered(kernel: Kernel, call: Call, filled: LoadedTable, **changes: object) -> None:
    body = json.loads(filled.metadata) | {name.replace("_", "-"): value for name, value in changes.items()}
    file = Path(urlparse(filled.metadata_location or "").path).parent / "other.metadata.json"
    file.write_text(json.dumps(body))
    kernel.commits.registration.register_table(call, ("ns",), "other", file.as_uri())


def test_a_registration_is_refused(kernel: Kernel, call: Call, filled: LoadedTable) -> None:
    body = json.loads(filled.metadata)
    ref = {"snapshot-id": 1, "type": "branch"}
    bad: list[dict[str, object]] = [
        {"refs": body["refs"] | {NUL: ref}},
        {"refs": body["refs"] | {LONGEST + "x": ref}},
        {"snapshots": [body["snapshots"][0] | {"manifest-list": NUL}]},
        {"table-uuid": NUL},
        {"table-uuid": LONGEST + "x"},
    ]
    expected = r"holds the character NUL|longer than 1024 bytes|not a UUID"
    for changes in bad:
        with pytest.raises(IllegalArgumentError, match=expected):
            registered(kernel, call, filled, **changes)
    registered(kernel, call, filled, refs=body["refs"] | {LONGEST: ref})


def test_what_is_kept_is_kept(kernel: Kernel, call: Call, filled: LoadedTable) -> None:
    made = kernel.commits.tables.commit(
        call,
        change(
            "t",
            [
                set_ref(LONGEST),
                set_ref("\x01\x7f ÿ 日本", "tag"),
                snapshot(**{"manifest-list": "file:///" + "x" * 100_000}),
                {"action": "set-properties", "updates": {NUL: NUL, "k" * 60_000: "v"}},
            ],
        ),
    )
    read = json.loads(made.metadata)
    assert {LONGEST, "\x01\x7f ÿ 日本"} < read["refs"].keys()
    assert read["properties"][NUL] == NUL
    kernel.catalog.namespaces.update_properties(call, ("ns",), [], {NUL: NUL})
    assert kernel.catalog.namespaces.load(call, ("ns",)).properties[NUL] == NUL


def test_names_with_nul_name_nothing(kernel: Kernel, call: Call) -> None:
    create(kernel, call, "t")
    name = TableIdentifier(("ns",), NUL)
    missing = [
        lambda: kernel.catalog.tables.load(call, name),
        lambda: kernel.catalog.tables.exists(call, name),
        lambda: kernel.purge.drops.drop(call, name, purge=True),
        lambda: kernel.catalog.tables.rename(call, name, table("u")),
        lambda: kernel.commits.tables.commit(call, set_property(NUL, "a", "b")),
        lambda: kernel.commits.tables.commit_transaction(
            call, [set_property(NUL, "a", "b"), set_property("t", "a", "b")]
        ),
    ]
    for work in missing:
        with pytest.raises(NoSuchTableError):
            work()
    with pytest.raises(NotFoundError):
        kernel.catalog.views.load(call, name)
    with pytest.raises(NotFoundError):
        kernel.catalog.namespaces.load(call, (NUL,))
    with pytest.raises(NoSuchWarehouseError):
        kernel.catalog.calls.open_warehouse(call.principal, NUL)
    refused = [
        lambda: create(kernel, call, NUL),
        lambda: kernel.catalog.tables.rename(call, table("t"), name),
        lambda: kernel.catalog.namespaces.create(call, (NUL,), {}),
        lambda: kernel.catalog.namespaces.create(call, ("ns", *["x" * 255] * 8), {}),
        lambda: create(kernel, call, "u", location=f"file:///{NUL}"),
    ]
    for work in refused:
        with pytest.raises(BadRequestError):
            work()


def test_a_page_after_nul_is_refused(kernel: Kernel, call: Call) -> None:
    for name in "tu":
        create(kernel, call, name)
    scope = f"tables|{call.catalog.id}|ns"
    page = kernel.catalog.tables.list(call, ("ns",), PageRequest(page_tokens.encode("t", scope), 1))
    assert page.items == [table("u")]
    with pytest.raises(BadRequestError, match="Invalid page token"):
        kernel.catalog.tables.list(call, ("ns",), PageRequest(page_tokens.encode(NUL, scope), 1))


def test_the_location_of_a_delta_table_has_a_bound(kernel: Kernel, call: Call) -> None:
    location = f"{call.catalog.storage_location}/{'x/' * 1000}"
    with pytest.raises(IllegalArgumentError, match="location of a Delta table: longer than 2000 bytes"):
        kernel.delta.registration.register(call, ("ns",), "d", location)


def test_the_uuid_of_a_registered_view_has_a_bound(kernel: Kernel, call: Call, filled: LoadedTable) -> None:
    document = view_document(msgspec.json.decode(SCHEMA) | {"schema-id": 0}, view_version()) | {
        "view-uuid": "-" * 2000 + "0190a1b2000070008000000000000001",
        "location": json.loads(filled.metadata)["location"],
    }
    file = Path(urlparse(filled.metadata_location or "").path).parent / "view.metadata.json"
    file.write_text(json.dumps(document))
    with pytest.raises(IllegalArgumentError, match="view-uuid: longer than 1024 bytes"):
        kernel.commits.views.register(call, ("ns",), "v", file.as_uri())


@pytest.mark.parametrize("length", [36, 1000, 50_000])
def test_a_stage_id_has_any_length(kernel: Kernel, call: Call, length: int) -> None:
    stage_id = secrets.token_hex(length // 2)
    request = CreateTable(name="staged" + "n" * 249, schema=SCHEMA)
    made = kernel.commits.tables.stage_table(call, ("ns",), request, stage_id)
    again = kernel.commits.tables.stage_table(call, ("ns",), request, stage_id)
    other = kernel.commits.tables.stage_table(call, ("ns",), request, stage_id + "x")
    uuids = [msgspec.json.decode(each.metadata)["table-uuid"] for each in (made, again, other)]
    assert uuids[0] == uuids[1] != uuids[2]
