"""Registered metadata of other writers: what is answered, and what is taken from it later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.answers import assert_error, etag_of
from tests.contract.client import Catalog, Namespace, Table, unique
from tests.contract.documents import ID_AND_DATA, column, schema, spec
from tests.contract.files import path_of, write_metadata
from tests.contract.updates import (
    add_schema,
    add_spec,
    append,
    assert_ref_snapshot_id,
    set_current_schema,
    set_default_spec,
)

Document = dict[str, Any]


@pytest.fixture
def document(local_catalog: Catalog, local_namespace: Namespace) -> Document:
    """A document with two snapshots, as this catalog writes it."""
    table = local_catalog.create_table(local_namespace, properties={"format-version": "2"})
    table.committed(append(1, 1))
    made: Document = table.committed(append(2, 2, 1))
    return made


def _register(
    catalog: Catalog, namespace: Namespace, folder: Path, document: Any, **more: Any
) -> tuple[Table, httpx.Response]:
    location = write_metadata(folder / unique("foreign"), document)
    name = unique("t")
    body = {"name": name, "metadata-location": location, **more}
    answer = catalog.post(f"{catalog.namespace_path(namespace)}/register", body)
    return Table(catalog, namespace, name, answer), answer


def _odd(document: Document) -> Document:
    """Most of what other writers do otherwise, in one document."""
    for each in document["snapshots"]:
        del each["summary"]
    return document | {
        "last-column-id": 0,
        "last-sequence-number": 1,
        "refs": {},
        "properties": {"a": 1, "b": None},
        "snapshot-log": None,
        "sort-orders": [],
    }


def test_answers_of_every_route_are_the_same_document(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder: Path, document: Document
):
    table, answer = _register(local_catalog, local_namespace, warehouse_folder, _odd(document))
    assert answer.status_code == 200, answer.text
    made = answer.json()["metadata"]
    operations = [each["summary"]["operation"] for each in made["snapshots"]]
    assert operations == ["append", "overwrite"]
    assert made["refs"] == {"main": {"snapshot-id": 2, "type": "branch"}}
    assert [made[name] for name in ("last-column-id", "last-sequence-number")] == [2, 2]
    assert made["properties"] == {"a": "1"}
    assert made["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert "snapshot-log" not in made
    loaded = local_catalog.get(table.path)
    assert loaded.json() == answer.json()
    assert etag_of(loaded) == etag_of(answer)
    refs = local_catalog.get(f"{table.path}?snapshots=refs").json()["metadata"]
    assert [each["snapshot-id"] for each in refs["snapshots"]] == [2]
    # clients that open the file read the same, and the registered one is the last of the log
    written = path_of(answer.json()["metadata-location"])
    assert json.loads(written.read_bytes()) == made
    registered = path_of(made["metadata-log"][-1]["metadata-file"])
    assert registered.name.endswith("-made.metadata.json")
    assert registered.read_bytes().count(b'"operation"') == 0
    assert local_catalog.post(f"{table.path}/unregister").json()["metadata"] == made


def test_table_goes_on(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder: Path, document: Document
):
    table, _ = _register(local_catalog, local_namespace, warehouse_folder, _odd(document))
    table.committed(append(3, 3, 2), [assert_ref_snapshot_id("main", 2)])
    wider = schema(*ID_AND_DATA["fields"], column(3, "more", "int"))
    made = table.committed([add_schema(wider), set_current_schema()])
    assert made["last-column-id"] == 3
    bucket = {"name": "b", "transform": "bucket[4]", "source-id": 1}
    made = table.committed([add_spec(spec(bucket)), set_default_spec()])
    assert made["last-partition-id"] == 1000
    assert [each["snapshot-id"] for each in made["snapshots"]] == [1, 2, 3]


def test_new_field_ids_are_above_those_of_old_specs(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder: Path, document: Document
):
    field = {"name": "p", "transform": "Truncate[ 3 ]", "source-id": 2, "field-id": 1004}
    document["partition-specs"].append({"spec-id": 1, "fields": [field]})
    document["last-partition-id"] = 999
    table, answer = _register(local_catalog, local_namespace, warehouse_folder, document)
    assert answer.json()["metadata"]["last-partition-id"] == 1004
    bucket = {"name": "b", "transform": "bucket[4]", "source-id": 1}
    made = table.committed([add_spec(spec(bucket)), set_default_spec()])
    assert made["partition-specs"][1]["fields"][0]["transform"] == "truncate[3]"
    assert made["partition-specs"][-1]["fields"][0]["field-id"] == 1005


def test_version_1_has_a_uuid_that_stays(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder: Path
):
    table = local_catalog.create_table(local_namespace, properties={"format-version": "1"})
    document = table.metadata()
    del document["table-uuid"]
    made, answer = _register(local_catalog, local_namespace, warehouse_folder, document)
    named = answer.json()["metadata"]["table-uuid"]
    assert made.committed(append(1, None))["table-uuid"] == named
    _, again = _register(local_catalog, local_namespace, warehouse_folder, document)
    assert again.json()["metadata"]["table-uuid"] == named


def test_same_file_is_registered_over_itself(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder: Path, document: Document
):
    table, answer = _register(local_catalog, local_namespace, warehouse_folder, _odd(document))
    path = f"{local_catalog.namespace_path(local_namespace)}/register"
    registered = answer.json()["metadata"]["metadata-log"][-1]["metadata-file"]
    for location in (registered, answer.json()["metadata-location"]):
        again = local_catalog.post(
            path, {"name": table.name, "metadata-location": location, "overwrite": True}
        )
        assert again.status_code == 200, again.text
        assert again.json() == answer.json()
    path_of(answer.json()["metadata-location"]).write_text(json.dumps(document))
    assert_error(
        local_catalog.post(
            path,
            {
                "name": table.name,
                "metadata-location": answer.json()["metadata-location"],
                "overwrite": True,
            },
        ),
        409,
        "ConflictException",
    )


def test_storage_that_takes_no_file_keeps_the_registered_one(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder: Path, document: Document
):
    """Its document is answered in form all the same."""
    location = warehouse_folder / unique("blocked")
    location.mkdir()
    (location / "metadata").write_text("a file in the place of the folder")
    odd = _odd(document) | {"location": location.as_uri()}
    _, answer = _register(local_catalog, local_namespace, warehouse_folder, odd)
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata-location"].endswith("-made.metadata.json")
    assert answer.json()["metadata"]["refs"] == {"main": {"snapshot-id": 2, "type": "branch"}}


def test_replay_of_a_large_document_is_the_normalised_one(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder: Path, document: Document
):
    odd = _odd(document) | {"x-large": "x" * 100_000}
    location = write_metadata(warehouse_folder / unique("foreign"), odd)
    path = f"{local_catalog.namespace_path(local_namespace)}/register"
    body = {"name": unique("t"), "metadata-location": location}
    headers = {"Idempotency-Key": "01900000-0000-7000-8000-" + unique("")[-12:]}
    first, second = (
        local_catalog.http.post(f"{local_catalog.root}{path}", json=body, headers=headers) for _ in range(2)
    )
    assert first.status_code == second.status_code == 200, second.text
    assert second.json() == first.json()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "manifests": ({"manifest-list": ..., "manifests": ["file:///m.avro"]}, "snapshot 2 names its manifests"),
    "row ids": ({"first-row-id": 1}, "snapshot 2 has row ids that cannot be"),
    "summary": ({"summary": {"operation": "append", "a": {}}}, "summary"),
}


@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_no_form_helps_is_refused_by_name(
    local_catalog: Catalog,
    local_namespace: Namespace,
    warehouse_folder: Path,
    document: Document,
    change: dict[str, Any],
    words: str,
):
    last = document["snapshots"][-1] | change
    document["snapshots"][-1] = {name: value for name, value in last.items() if value is not ...}
    _, answer = _register(local_catalog, local_namespace, warehouse_folder, document)
    assert words in assert_error(answer, 400, "IllegalArgumentException")
