"""Nothing outside the allowed locations is ever read or written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, unique
from tests.contract.documents import ID_AND_DATA, order, spec, sql_version
from tests.contract.files import files_below, write_metadata
from tests.contract.updates import assert_create, creation, set_location, update

OUTSIDE = [
    "file:///etc",
    "file:///etc/cron.d/x",
    "file:/etc/x",
    "/etc/x",
    "file:///",
    "FILE:///etc/x",
    "file://localhost/etc/x",
    "s3://another-bucket/x",
    "s3a://another-bucket/x",
    "gs://another-bucket/x",
    "abfss://container@account.dfs.core.windows.net/x",
    "{warehouse}-neighbour/x",
    "{parent}",
    "{parent}/floecat.db",
    "{s3}",
]
"""Well-formed, and not ours."""

MALFORMED = [
    "relative/path",
    "./x",
    "x",
    "http://example.com/x",
    "https://example.com/x",
    "hdfs://host/x",
    "ftp://host/x",
    "jar:file:///etc/x",
    "s3:///x",
    "s3://",
    "://x",
    "file://example.com/etc/x",
    "{warehouse}/../escaped",
    "{warehouse}/a/../../escaped",
    "{warehouse}/%2e%2e/escaped",
    "{warehouse}/%2E%2E%2Fescaped",
    "{warehouse}/a%2f..%2f..%2fescaped",
    "{warehouse}/%252e%252e/escaped",
    "{warehouse}/..\\escaped",
    "{warehouse}/./x",
    "{warehouse}/a\x00b",
    "{warehouse}/a\nb",
    "{warehouse}/x?y=1",
    "{warehouse}/x#fragment",
    "s3://key:secret@bucket/x",
]
"""Relative, of another scheme, or made to lead elsewhere."""

PATH_PROPERTIES = [
    "write.metadata.path",
    "write.data.path",
    "write.object-storage.path",
    "write.folder-storage.path",
]


@pytest.fixture(params=[*OUTSIDE, *MALFORMED], ids=lambda location: ascii(location)[:40])
def forbidden(request: pytest.FixtureRequest, warehouse_folder: Path) -> str:
    warehouse = warehouse_folder.as_uri()
    return str(request.param).format(
        warehouse=warehouse, parent=warehouse_folder.parent.as_uri(), s3=f"s3:/{warehouse_folder}/x"
    )


def refused(answer: httpx.Response) -> None:
    assert answer.status_code in (400, 403), answer.text
    kind = "ForbiddenException" if answer.status_code == 403 else "BadRequestException"
    message = assert_error(answer, answer.status_code, kind)
    assert "ocation" in message or "metadata" in message
    assert "secret" not in message


def test_create_is_refused(local_catalog: Catalog, local_namespace: Namespace, forbidden: str):
    for stage in (False, True):
        body = {"name": "t", "schema": ID_AND_DATA, "location": forbidden, "stage-create": stage}
        refused(local_catalog.post(local_catalog.tables_path(local_namespace), body))
    assert local_catalog.names(local_catalog.tables_path(local_namespace)) == []


def test_outside_is_403_and_malformed_is_400(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder: Path
):
    for location, status in (("file:///etc/x", 403), ("s3://another-bucket/x", 403), ("relative", 400)):
        body = {"name": "t", "schema": ID_AND_DATA, "location": location}
        answer = local_catalog.post(local_catalog.tables_path(local_namespace), body)
        kind = "ForbiddenException" if status == 403 else "BadRequestException"
        message = assert_error(answer, status, kind)
        assert location in message


@pytest.mark.parametrize("name", PATH_PROPERTIES)
def test_create_with_a_path_property_is_refused(
    local_catalog: Catalog, local_namespace: Namespace, forbidden: str, name: str
):
    body = {"name": "t", "schema": ID_AND_DATA, "properties": {name: forbidden}}
    refused(local_catalog.post(local_catalog.tables_path(local_namespace), body))
    assert local_catalog.names(local_catalog.tables_path(local_namespace)) == []


def test_commit_is_refused(local_catalog: Catalog, local_namespace: Namespace, forbidden: str):
    table = local_catalog.create_table(local_namespace)
    before, files = table.get(), files_below(table.metadata()["location"])
    for change in (
        set_location(forbidden),
        *[update("set-properties", updates={name: forbidden}) for name in PATH_PROPERTIES],
    ):
        refused(table.commit([change]))
    assert table.get() == before
    assert files_below(table.metadata()["location"]) == files


def test_create_by_commit_is_refused(local_catalog: Catalog, local_namespace: Namespace, forbidden: str):
    updates = [*creation(ID_AND_DATA, spec(), order(order_id=0)), set_location(forbidden)]
    body: dict[str, Any] = {"requirements": [assert_create()], "updates": updates}
    path = f"{local_catalog.tables_path(local_namespace)}/t"
    refused(local_catalog.post(path, body))
    change = body | {"identifier": {"namespace": list(local_namespace), "name": "t"}}
    refused(local_catalog.post("/transactions/commit", {"table-changes": [change]}))
    assert local_catalog.head(path).status_code == 404


def test_view_is_refused(local_catalog: Catalog, local_namespace: Namespace, forbidden: str):
    body = {"name": "v", "schema": ID_AND_DATA, "view-version": sql_version(), "properties": {}}
    path = local_catalog.views_path(local_namespace)
    refused(local_catalog.post(path, body | {"location": forbidden}))
    refused(local_catalog.post(path, body | {"properties": {"write.metadata.path": forbidden}}))
    assert local_catalog.names(path) == []
    view = local_catalog.create_view(local_namespace)
    before = view.get()
    refused(view.commit([set_location(forbidden)]))
    assert view.get() == before


@pytest.mark.parametrize("kind", ["register", "register-view"])
def test_register_is_refused(local_catalog: Catalog, local_namespace: Namespace, forbidden: str, kind: str):
    body = {"name": "t", "metadata-location": forbidden}
    refused(local_catalog.post(f"{local_catalog.namespace_path(local_namespace)}/{kind}", body))


def test_register_of_a_file_whose_table_lies_outside_is_refused(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder: Path
):
    table = local_catalog.create_table(local_namespace)
    for change in (
        {"location": "file:///etc"},
        {"properties": {"write.metadata.path": "file:///etc"}},
        {"properties": {"write.data.path": "s3://another/x"}},
    ):
        location = write_metadata(warehouse_folder / unique("outside"), table.metadata() | change)
        body = {"name": "t", "metadata-location": location}
        refused(local_catalog.post(f"{local_catalog.namespace_path(local_namespace)}/register", body))


def test_metadata_file_that_names_files_outside_never_makes_the_catalog_touch_them(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder: Path, tmp_path: Path
):
    victim = tmp_path / "victim.metadata.json"
    victim.write_text("precious")
    table = local_catalog.create_table(local_namespace)
    metadata = table.metadata() | {
        "metadata-log": [{"metadata-file": victim.as_uri(), "timestamp-ms": 1}],
        "properties": {
            "write.metadata.previous-versions-max": "1",
            "write.metadata.delete-after-commit.enabled": "true",
        },
    }
    location = write_metadata(warehouse_folder / unique("evil"), metadata)
    body = {"name": "evil", "metadata-location": location}
    answer = local_catalog.post(f"{local_catalog.namespace_path(local_namespace)}/register", body)
    assert answer.status_code == 200, answer.text
    path = f"{local_catalog.tables_path(local_namespace)}/evil"
    for number in range(3):
        changes = [update("set-properties", updates={"n": str(number)})]
        answer = local_catalog.post(path, {"requirements": [], "updates": changes})
        assert answer.status_code == 200, answer.text
    assert local_catalog.delete(path, params={"purgeRequested": "true"}).status_code == 204
    assert victim.read_text() == "precious"


def test_symbolic_link_that_leads_outside_is_refused(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder: Path, tmp_path: Path
):
    outside = tmp_path / "outside"
    outside.mkdir()
    link = warehouse_folder / unique("link")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    body = {"name": "t", "schema": ID_AND_DATA, "location": f"{link.as_uri()}/t"}
    refused(local_catalog.post(local_catalog.tables_path(local_namespace), body))
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "outside", ["file:///etc", "/", "file:///", "s3://another-bucket", "relative", "{warehouse}/a?b"]
)
def test_namespace_location_outside_is_refused(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder: Path, outside: str
):
    outside = outside.format(warehouse=warehouse_folder.as_uri())
    body = {"namespace": [*local_namespace, "placed"], "properties": {"location": outside}}
    assert_error(local_catalog.post("/namespaces", body), 400, "BadRequestException")
    path = f"{local_catalog.namespace_path(local_namespace)}/properties"
    assert_error(local_catalog.post(path, {"updates": {"location": outside}}), 400, "BadRequestException")


def test_names_that_look_like_paths_stay_inside(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder
):
    name = local_catalog.create_namespace((*local_namespace, "../..", "../../x"))
    table = local_catalog.create_table(name, "../../../etc/passwd")
    location = table.metadata()["location"]
    assert location.startswith(f"{warehouse_folder.as_uri()}/")
    assert ".." not in location
    assert files_below(location) == [f"metadata/{table.get()['metadata-location'].rpartition('/')[2]}"]


def test_credentials_in_a_location_are_not_repeated(local_catalog: Catalog, local_namespace: Namespace):
    for location in ("s3://key:hush@bucket/x", "s3://bucket/x?X-Amz-Signature=hush", "s3://bucket/x#hush"):
        body = {"name": "t", "schema": ID_AND_DATA, "location": location}
        answer = local_catalog.post(local_catalog.tables_path(local_namespace), body)
        assert answer.status_code in (400, 403)
        assert "hush" not in answer.text


def test_large_file_is_refused_by_its_size(start_catalog, connect):
    server = start_catalog(FLOECAT_GATEWAY_MAX_METADATA_FILE_BYTES="100000")
    catalog = connect(server)
    namespace = catalog.create_namespace(("ns",))
    document = catalog.create_table(namespace).metadata() | {"padding": "x" * 200_000}
    location = write_metadata(server.data_dir / "warehouse" / "large", json.dumps(document).encode())
    answer = catalog.post(
        f"{catalog.namespace_path(namespace)}/register", {"name": "t", "metadata-location": location}
    )
    assert answer.status_code in (400, 413), answer.text
    assert "xxx" not in answer.text
    assert assert_error(answer, answer.status_code, answer.json()["error"]["type"])
