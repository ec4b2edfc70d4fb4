"""`registerTable`, `registerView` and `unregisterTable`."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pytest

from tests.contract.answers import assert_error, etag_of
from tests.contract.client import Catalog, Namespace, Table, unique
from tests.contract.documents import ID_AND_DATA, column, schema
from tests.contract.files import path_of, write_metadata
from tests.contract.updates import (
    add_schema,
    append,
    assert_ref_snapshot_id,
    set_current_schema,
    set_properties,
)


def _register(
    catalog: Catalog, namespace: Namespace, name: str, location: str, **more: Any
) -> httpx.Response:
    body = {"name": name, "metadata-location": location, **more}
    return catalog.post(f"{catalog.namespace_path(namespace)}/register", body)


def _register_view(catalog: Catalog, namespace: Namespace, name: str, location: str) -> httpx.Response:
    body = {"name": name, "metadata-location": location}
    return catalog.post(f"{catalog.namespace_path(namespace)}/register-view", body)


@pytest.fixture
def history(catalog: Catalog, namespace: Namespace) -> Table:
    """A table with four snapshots and two schemas."""
    table = catalog.create_table(namespace)
    for number in range(1, 5):
        table.committed(append(number, number, number - 1 or None))
    wider = schema(*ID_AND_DATA["fields"], column(3, "more", "int"))
    table.committed([add_schema(wider), set_current_schema()])
    return table


class TestRegister:
    def test_dropped_table_comes_back_as_it_was(self, catalog: Catalog, namespace: Namespace, history: Table):
        before = catalog.get(history.path)
        history.drop()
        answer = _register(catalog, namespace, history.name, before.json()["metadata-location"])
        assert answer.status_code == 200, answer.text
        assert answer.json() == before.json()
        assert etag_of(answer) != etag_of(before)
        assert history.get() == before.json()
        made = history.committed(append(5, 5, 4), [assert_ref_snapshot_id("main", 4)])
        assert made["metadata-log"][-1]["metadata-file"] == before.json()["metadata-location"]

    def test_existing_table_is_409(self, catalog: Catalog, namespace: Namespace, history: Table):
        before = history.get()
        for more in ({}, {"overwrite": False}):
            answer = _register(catalog, namespace, history.name, before["metadata-location"], **more)
            assert_error(answer, 409, "AlreadyExistsException", f"Table already exists: {history.text}")
        assert history.get() == before

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_over_a_view_is_409(
        self, catalog: Catalog, namespace: Namespace, history: Table, overwrite: bool
    ):
        view = catalog.create_view(namespace)
        location = history.get()["metadata-location"]
        answer = _register(catalog, namespace, view.name, location, overwrite=overwrite)
        message = f"View with same name already exists: {view.text}"
        assert_error(answer, 409, "AlreadyExistsException", message)

    def test_in_a_missing_namespace_is_404(self, catalog: Catalog, namespace: Namespace, history: Table):
        location = history.get()["metadata-location"]
        answer = _register(catalog, (*namespace, "none"), "t", location)
        assert_error(
            answer, 404, "NoSuchNamespaceException", f"Namespace does not exist: {namespace[0]}.none"
        )

    def test_overwrite_points_an_existing_table_at_the_file(self, catalog: Catalog, namespace: Namespace):
        table = catalog.create_table(namespace)
        table.committed(append(1, 1))
        earlier = table.get()
        table.committed(append(2, 2, 1))
        answer = _register(catalog, namespace, table.name, earlier["metadata-location"], overwrite=True)
        assert answer.status_code == 200, answer.text
        assert answer.json() == earlier
        assert table.get() == earlier
        made = table.committed(append(3, 2, 1), [assert_ref_snapshot_id("main", 1)])
        assert [each["snapshot-id"] for each in made["snapshots"]] == [1, 3]

    def test_overwrite_with_another_table(self, catalog: Catalog, namespace: Namespace):
        one, two = catalog.create_table(namespace, "one"), catalog.create_table(namespace, "two")
        answer = _register(catalog, namespace, "one", two.get()["metadata-location"], overwrite=True)
        assert answer.status_code == 200, answer.text
        assert one.get() == two.get()

    def test_overwrite_of_nothing_registers(self, catalog: Catalog, namespace: Namespace, history: Table):
        before = history.get()
        history.drop()
        answer = _register(catalog, namespace, history.name, before["metadata-location"], overwrite=True)
        assert answer.json() == before

    def test_overwrite_fences_commits_based_on_the_old_pointer(self, catalog: Catalog, namespace: Namespace):
        table = catalog.create_table(namespace)
        table.committed(append(1, 1))
        first = table.get()["metadata-location"]
        table.committed(append(2, 2, 1))
        assert _register(catalog, namespace, table.name, first, overwrite=True).status_code == 200
        late = table.commit(append(3, 3, 2), [assert_ref_snapshot_id("main", 2)])
        assert_error(
            late,
            409,
            "CommitFailedException",
            "Requirement failed: branch main has changed: expected id 2 != 1",
        )

    @pytest.mark.parametrize(
        "body",
        [
            {"name": "t"},
            {"metadata-location": "file:///x"},
            {"name": 1, "metadata-location": "file:///x"},
            {"name": "t", "metadata-location": None},
            {"name": "t", "metadata-location": ""},
            {"name": "t", "metadata-location": "file:///x", "overwrite": "yes"},
        ],
    )
    def test_malformed_body_is_400(self, catalog: Catalog, namespace: Namespace, body: dict[str, Any]):
        answer = catalog.post(f"{catalog.namespace_path(namespace)}/register", body)
        assert_error(answer, 400, "BadRequestException")

    @pytest.mark.parametrize("version", [1, 2, 3])
    def test_minus_one_and_null_are_no_snapshot(
        self, local_catalog: Catalog, local_namespace: Namespace, version: int
    ):
        # Case O07: Java writes -1 into v1 and v2 metadata.
        properties = {"format-version": str(version)}
        table = local_catalog.create_table(local_namespace, properties=properties)
        body = table.get()
        for number, none in enumerate((-1, None)):
            document = body["metadata"] | {"current-snapshot-id": none}
            location = f"{body['metadata']['location']}/metadata/0000{number}-{unique('java')}.metadata.json"
            path_of(location).write_text(json.dumps(document))
            name = unique("registered")
            assert _register(local_catalog, local_namespace, name, location).status_code == 200
            made = Table(local_catalog, local_namespace, name, httpx.Response(200))
            rows = {"first_row_id": 0, "added_rows": 1} if version == 3 else {}
            first = append(1, None if version == 1 else 1, **rows)
            assert made.committed(first, [assert_ref_snapshot_id("main", None)])["current-snapshot-id"] == 1

    def test_gzip_metadata(self, local_catalog: Catalog, local_namespace: Namespace):
        table = local_catalog.create_table(local_namespace)
        body = table.get()
        location = f"{body['metadata']['location']}/metadata/00007-x.gz.metadata.json"
        data = json.dumps(body["metadata"]).encode()
        members = (gzip.compress(part) for part in (data[:100], data[100:]))
        path_of(location).write_bytes(b"".join(members) + bytes(7))
        answer = _register(local_catalog, local_namespace, "zipped", location)
        assert answer.status_code == 200, answer.text
        assert answer.json()["metadata"] == body["metadata"]

    def test_next_file_goes_on_counting(self, local_catalog: Catalog, local_namespace: Namespace):
        table = local_catalog.create_table(local_namespace)
        body = table.get()
        # Names of file system tables carry no number that counts here.
        for following, name in ((42, "00041-x.metadata.json"), (0, "v6.metadata.json")):
            location = f"{body['metadata']['location']}/metadata/{name}"
            path_of(location).write_text(json.dumps(body["metadata"]))
            entry = unique("counted")
            assert _register(local_catalog, local_namespace, entry, location).status_code == 200
            made = Table(local_catalog, local_namespace, entry, httpx.Response(200))
            file = made.commit([set_properties(a="1")]).json()["metadata-location"].rpartition("/")[2]
            assert file.startswith(f"{following:05}-")

    def test_unknown_fields_of_metadata_are_kept(self, local_catalog: Catalog, local_namespace: Namespace):
        table = local_catalog.create_table(local_namespace)
        document = table.metadata() | {"x-future": {"deep": [1, 2.50, None, "☃"]}}
        location = f"{document['location']}/metadata/00001-future.metadata.json"
        path_of(location).write_text(json.dumps(document))
        assert _register(local_catalog, local_namespace, "future", location).status_code == 200
        made = Table(local_catalog, local_namespace, "future", httpx.Response(200))
        assert made.committed([set_properties(a="1")])["x-future"] == document["x-future"]

    def test_registration_leaves_the_file_alone(self, local_catalog: Catalog, local_namespace: Namespace):
        table = local_catalog.create_table(local_namespace)
        location = table.get()["metadata-location"]
        before = path_of(location).read_bytes()
        table.drop()
        _register(local_catalog, local_namespace, "t", location)
        assert path_of(location).read_bytes() == before


SECRET = "pa55word-in-the-file"

BROKEN: dict[str, bytes] = {
    "empty": b"",
    "no JSON": f"{SECRET}: x".encode(),
    "cut off": f'{{"format-version": 2, "{SECRET}": '.encode(),
    "no object": f'["{SECRET}"]'.encode(),
    "no metadata": f'{{"{SECRET}": 1}}'.encode(),
    "wrong types": f'{{"format-version": "{SECRET}", "table-uuid": 7, "location": []}}'.encode(),
    "unknown version": f'{{"format-version": 9, "table-uuid": "{SECRET}"}}'.encode(),
    "no UTF-8": b'{"format-version": 2, "location": "\xff\xfe' + SECRET.encode() + b'"}',
    "broken gzip": b"\x1f\x8b\x08\x00" + SECRET.encode(),
    "cut off gzip": gzip.compress(b"{" + SECRET.encode() * 500)[:-20],
    "deep": b"[" * 200_000 + SECRET.encode(),
    "passwd": f"root:x:0:0:{SECRET}:/root:/bin/bash\n".encode(),
}


@pytest.mark.parametrize("kind", ["table", "view"])
@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_broken_file_is_400_and_not_quoted(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder, kind: str, data: bytes
):
    location = write_metadata(warehouse_folder / unique("broken"), data)
    register = _register if kind == "table" else _register_view
    answer = register(local_catalog, local_namespace, "t", location)
    assert answer.status_code == 400, answer.text
    message = assert_error(answer, 400, "IllegalArgumentException")
    assert SECRET not in answer.text
    assert len(message) < 1000
    assert local_catalog.names(f"{local_catalog.namespace_path(local_namespace)}/{kind}s") == []


@pytest.mark.parametrize("kind", ["table", "view"])
def test_missing_file_is_400_as_404_says_that_the_namespace_is_missing(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder, kind: str
):
    location = f"{warehouse_folder.as_uri()}/none/metadata/00000-x.metadata.json"
    register = _register if kind == "table" else _register_view
    answer = register(local_catalog, local_namespace, "t", location)
    problem = f"Invalid metadata-location: there is no file {location}"
    assert_error(answer, 400, "BadRequestException", problem)
    nowhere = register(local_catalog, (local_namespace[0], "none"), "t", location)
    assert_error(nowhere, 404, "NoSuchNamespaceException")


@pytest.mark.parametrize("kind", ["table", "view"])
def test_folder_is_no_file(local_catalog: Catalog, local_namespace: Namespace, warehouse_folder, kind: str):
    register = _register if kind == "table" else _register_view
    table = local_catalog.create_table(local_namespace, "t0")
    for location in (f"{table.metadata()['location']}/metadata", f"{table.metadata()['location']}/metadata/"):
        answer = register(local_catalog, local_namespace, "t", location)
        assert_error(answer, 400, "BadRequestException")


def test_table_metadata_is_no_view_and_the_other_way_round(
    local_catalog: Catalog, local_namespace: Namespace
):
    table, view = local_catalog.create_table(local_namespace), local_catalog.create_view(local_namespace)
    answer = _register_view(local_catalog, local_namespace, "v", table.get()["metadata-location"])
    assert_error(answer, 400, "IllegalArgumentException")
    answer = _register(local_catalog, local_namespace, "t", view.get()["metadata-location"])
    assert_error(answer, 400, "IllegalArgumentException")


class TestRegisterView:
    def test_dropped_view_comes_back_as_it_was(self, catalog: Catalog, namespace: Namespace):
        view = catalog.create_view(namespace, properties={"gc.enabled": "false"})
        before = view.get()
        view.drop()
        answer = _register_view(catalog, namespace, view.name, before["metadata-location"])
        assert answer.status_code == 200, answer.text
        assert answer.json() == before
        assert view.get() == before

    def test_existing_view_is_409(self, catalog: Catalog, namespace: Namespace):
        view = catalog.create_view(namespace)
        answer = _register_view(catalog, namespace, view.name, view.get()["metadata-location"])
        assert_error(answer, 409, "AlreadyExistsException", f"View already exists: {view.text}")

    def test_over_a_table_is_409(self, catalog: Catalog, namespace: Namespace):
        view, table = catalog.create_view(namespace), catalog.create_table(namespace)
        answer = _register_view(catalog, namespace, table.name, view.get()["metadata-location"])
        message = f"Table with same name already exists: {table.text}"
        assert_error(answer, 409, "AlreadyExistsException", message)

    def test_in_a_missing_namespace_is_404(self, catalog: Catalog, namespace: Namespace):
        view = catalog.create_view(namespace)
        answer = _register_view(catalog, (*namespace, "none"), "v", view.get()["metadata-location"])
        assert_error(
            answer, 404, "NoSuchNamespaceException", f"Namespace does not exist: {namespace[0]}.none"
        )


class TestUnregister:
    def test_answers_the_last_metadata_and_forgets_the_table(
        self, local_catalog: Catalog, local_namespace: Namespace
    ):
        table = local_catalog.create_table(local_namespace)
        table.committed(append(1, 1))
        before = table.get()
        answer = local_catalog.post(f"{table.path}/unregister")
        assert answer.status_code == 200, answer.text
        assert answer.json() == {key: before[key] for key in ("metadata-location", "metadata")}
        assert not table.exists()
        assert path_of(before["metadata-location"]).exists()

    def test_is_a_fence(self, catalog: Catalog, namespace: Namespace):
        table = catalog.create_table(namespace)
        assert catalog.post(f"{table.path}/unregister").status_code == 200
        late = table.commit(append(1, 1))
        assert_error(late, 404, "NoSuchTableException", f"Table does not exist: {table.text}")

    def test_registered_again_it_is_the_same(self, catalog: Catalog, namespace: Namespace):
        table = catalog.create_table(namespace)
        before = table.get()
        body = catalog.post(f"{table.path}/unregister").json()
        assert _register(catalog, namespace, table.name, body["metadata-location"]).json() == before

    def test_missing_table_is_404(self, catalog: Catalog, namespace: Namespace):
        answer = catalog.post(f"{catalog.tables_path(namespace)}/none/unregister")
        assert_error(answer, 404, "NoSuchTableException", f"Table does not exist: {namespace[0]}.none")

    def test_view_is_no_table(self, catalog: Catalog, namespace: Namespace):
        view = catalog.create_view(namespace)
        answer = catalog.post(f"{catalog.tables_path(namespace)}/{view.name}/unregister")
        assert_error(answer, 404, "NoSuchTableException", f"Table does not exist: {view.text}")
        assert view.exists()
