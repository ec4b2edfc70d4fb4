"""Bounds of settings that no other test sends the bound plus one of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar.testing import TestClient
from msgspec.structs import replace

from floecat.iceberg.values.bounds import process_bounds
from floecat.runtime import kernel
from floecat.settings import Settings
from floecat.settings.limits import LimitSettings
from floecat_rest.app import create_app
from tests.unit.rest.conftest import BASE_URL, CLIENT_HEADERS

PAGE_SIZE = 2


@pytest.fixture(scope="module")
def metadata_file(settings: Settings, client: TestClient[Any]) -> Path:
    """A metadata file of a table that is not registered any more."""
    client.post("/v1/namespaces", json={"namespace": ["bounds"]})
    schema = {"type": "struct", "fields": []}
    made = client.post("/v1/namespaces/bounds/tables", json={"name": "t", "schema": schema}).json()
    client.post("/v1/namespaces/bounds/tables/t/unregister")
    return Path(str(made["metadata-location"]).removeprefix("file://"))


@pytest.fixture(scope="module")
def bounded(settings: Settings, metadata_file: Path) -> Iterator[TestClient[Any]]:
    """A service that reads metadata files up to the size of this one, and lists pages of two."""
    size = metadata_file.stat().st_size
    gateway = replace(settings.gateway, max_metadata_file_bytes=size, max_page_size=PAGE_SIZE)
    small = replace(settings, gateway=gateway)
    with kernel(small) as opened, TestClient(create_app(small, opened), base_url=BASE_URL) as client:
        client.headers.update(CLIENT_HEADERS)
        yield client


def test_a_metadata_file_of_one_byte_more_names_its_bound(
    bounded: TestClient[Any], metadata_file: Path
) -> None:
    longer = metadata_file.with_name("00001-longer.metadata.json")
    longer.write_bytes(metadata_file.read_bytes() + b" ")
    body = {"name": "longer", "metadata-location": longer.as_uri()}
    answer = bounded.post("/v1/namespaces/bounds/register", json=body)
    assert answer.status_code == 413
    assert "(floecat.gateway.max-metadata-file-bytes)" in answer.json()["error"]["message"]
    fits = {"name": "fits", "metadata-location": metadata_file.as_uri()}
    assert bounded.post("/v1/namespaces/bounds/register", json=fits).status_code == 200


def test_a_page_has_no_more_items_than_the_largest_page(bounded: TestClient[Any]) -> None:
    for name in ("a", "b", "c"):
        bounded.post("/v1/namespaces", json={"namespace": ["bounds", name]})
    query = {"parent": "bounds", "pageToken": "", "pageSize": str(PAGE_SIZE + 1)}
    page = bounded.get("/v1/namespaces", params=query).json()
    assert len(page["namespaces"]) == PAGE_SIZE
    rest = bounded.get("/v1/namespaces", params=query | {"pageToken": page["next-page-token"]}).json()
    assert len(rest["namespaces"]) == 1


def test_one_byte_more_of_properties_than_a_namespace_or_catalog_may_have_names_its_bound(
    client: TestClient[Any],
) -> None:
    most = LimitSettings().namespace_property_bytes
    fits = {"namespace": ["large"], "properties": {"k": "x" * (most - 1)}}
    larger = {"namespace": ["larger"], "properties": {"k": "x" * (most - 2) + "\u00e4"}}
    assert client.post("/v1/namespaces", json=fits).status_code == 200
    catalog = {"name": "large", "storage-location": "file:///large", "properties": larger["properties"]}
    for path, body in (
        ("/v1/namespaces", larger),
        ("/v1/namespaces/large/properties", {"updates": {"l": ""}}),
        ("/management/v1/catalogs", catalog),
    ):
        answer = client.post(path, json=body)
        assert answer.status_code == 400
        assert "(floecat.limits.namespace-property-bytes)" in answer.json()["error"]["message"]


@pytest.fixture(scope="module")
def with_small_definitions(settings: Settings, client: TestClient[Any]) -> Iterator[TestClient[Any]]:
    """A service that reads documents of at most 10,000 bytes beside their snapshots."""
    before = process_bounds.limits
    small = replace(settings, limits=LimitSettings(definition_bytes=10_000))
    try:
        with kernel(small) as opened, TestClient(create_app(small, opened), base_url=BASE_URL) as bounded:
            bounded.headers.update(CLIENT_HEADERS)
            yield bounded
    finally:
        process_bounds.limits = before


def test_no_commit_makes_a_document_that_could_not_be_read(
    with_small_definitions: TestClient[Any],
) -> None:
    client, tables = with_small_definitions, "/v1/namespaces/grown/tables"
    client.post("/v1/namespaces", json={"namespace": ["grown"]})
    client.post(tables, json={"name": "t", "schema": {"type": "struct", "fields": []}})
    statuses = []
    for number in range(11):
        update = {"action": "set-properties", "updates": {f"p{number}": "v" * 1000}}
        answer = client.post(f"{tables}/t", json={"requirements": [], "updates": [update]})
        statuses.append(answer.status_code)
    assert statuses == sorted(statuses)
    assert set(statuses) == {200, 400}
    assert "(floecat.limits.definition-bytes)" in answer.json()["error"]["message"]
    removed = {"action": "remove-properties", "removals": ["p0", "p1"]}
    assert client.post(f"{tables}/t", json={"requirements": [], "updates": [removed]}).status_code == 200
