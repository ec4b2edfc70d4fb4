"""Delta tables on the Iceberg routes: what a load gives, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.contract.answers import assert_error, etag_of
from tests.contract.client import Catalog, Namespace
from tests.contract.delta import (
    DV_TABLE,
    PLAIN_TABLE,
    UNKNOWN_FEATURE,
    add_version,
    copy_in,
    register,
)
from tests.contract.files import path_of
from tests.contract.lakes import FolderLake, Lake, wait_until_gone
from tests.contract.updates import set_properties
from tests.services.catalog import CatalogServer


@pytest.fixture
def location(lake: Lake, catalog: Catalog, namespace: Namespace) -> str:
    """Where the Delta table `d` of the namespace is."""
    location = copy_in(lake, DV_TABLE)
    register(catalog, namespace, "d", location).raise_for_status()
    return location


@pytest.fixture
def path(catalog: Catalog, namespace: Namespace, location: str) -> str:
    """The path of that table."""
    return f"{catalog.tables_path(namespace)}/d"


def metadata(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()["metadata"]


class TestLoad:
    def test_versions_are_snapshots(self, catalog: Catalog, path: str, location: str):
        loaded = metadata(catalog.get(path))
        assert [snapshot["snapshot-id"] for snapshot in loaded["snapshots"]] == [0, 1]
        assert loaded["snapshots"][1]["parent-snapshot-id"] == 0
        assert "parent-snapshot-id" not in loaded["snapshots"][0]
        assert (loaded["current-snapshot-id"], loaded["last-sequence-number"]) == (1, 2)
        assert loaded["refs"] == {"main": {"snapshot-id": 1, "type": "branch"}}
        assert loaded["location"] == location
        assert loaded["format-version"] == 2
        log = [entry["snapshot-id"] for entry in loaded["snapshot-log"]]
        assert log == [0, 1]

    def test_files_that_the_metadata_names_are_there(
        self, catalog: Catalog, lake: Lake, path: str, location: str
    ):
        answer = catalog.get(path)
        files = lake.files(location)
        assert answer.json()["metadata-location"] in files
        assert {snapshot["manifest-list"] for snapshot in metadata(answer)["snapshots"]} <= files

    def test_refs_only(self, catalog: Catalog, path: str):
        loaded = metadata(catalog.get(path, params={"snapshots": "refs"}))
        assert [snapshot["snapshot-id"] for snapshot in loaded["snapshots"]] == [1]

    def test_entity_tags(self, catalog: Catalog, path: str):
        tag = etag_of(catalog.get(path))
        answer = catalog.get(path, headers={"if-none-match": tag})
        assert (answer.status_code, answer.content) == (304, b"")
        assert etag_of(catalog.get(path, params={"snapshots": "refs"})) != tag

    def test_answers_do_not_change_while_nothing_is_committed(self, catalog: Catalog, path: str):
        assert catalog.get(path).content == catalog.get(path).content

    def test_listed_and_existing(self, catalog: Catalog, namespace: Namespace, path: str):
        assert catalog.names(catalog.tables_path(namespace)) == ["d"]
        assert catalog.head(path).status_code == 204

    def test_reports_are_taken(self, catalog: Catalog, namespace: Namespace, path: str):
        report = {
            "report-type": "scan-report",
            "table-name": "d",
            "snapshot-id": 1,
            "filter": True,
            "schema-id": 0,
            "projected-field-ids": [1],
            "projected-field-names": ["value"],
            "metrics": {},
        }
        assert catalog.post(f"{path}/metrics", report).status_code == 204


class TestUnreadable:
    def test_unknown_feature_is_406_by_name(
        self, catalog: Catalog, namespace: Namespace, lake: Lake, path: str
    ):
        register(catalog, namespace, "future", copy_in(lake, UNKNOWN_FEATURE)).raise_for_status()
        answer = catalog.get(f"{catalog.tables_path(namespace)}/future")
        message = assert_error(answer, 406, "UnsupportedOperationException")
        assert "blahabl" in message
        assert catalog.names(catalog.tables_path(namespace)) == ["d", "future"]
        assert catalog.head(f"{catalog.tables_path(namespace)}/future").status_code == 204
        assert catalog.get(path).status_code == 200

    def test_gap_in_the_log_is_400_by_version(self, catalog: Catalog, namespace: Namespace, lake: Lake):
        location = copy_in(lake, "golden/versions-not-contiguous/delta")
        register(catalog, namespace, "gap", location).raise_for_status()
        answer = catalog.get(f"{catalog.tables_path(namespace)}/gap")
        assert "1" in assert_error(answer, 400, "IllegalArgumentException")

    def test_one_that_was_never_read_can_go(self, catalog: Catalog, namespace: Namespace, lake: Lake):
        register(catalog, namespace, "future", copy_in(lake, UNKNOWN_FEATURE)).raise_for_status()
        path = f"{catalog.tables_path(namespace)}/future"
        assert_error(catalog.post(f"{path}/unregister"), 406, "UnsupportedOperationException")
        assert catalog.delete(path).status_code == 204
        assert catalog.head(path).status_code == 404


class TestReadOnly:
    def refused(self, answer: httpx.Response, namespace: Namespace) -> None:
        message = assert_error(answer, 406, "UnsupportedOperationException")
        name = ".".join((*namespace, "d"))
        assert message == f"Table {name} is a Delta table and is read-only here: write it with Delta"

    def test_commit(self, catalog: Catalog, namespace: Namespace, path: str):
        before = catalog.get(path).content
        body = {"requirements": [], "updates": [set_properties(a="b")]}
        self.refused(catalog.post(path, body), namespace)
        self.refused(catalog.post(path, {"requirements": [], "updates": []}), namespace)
        headers = {"idempotency-key": "0190a1b2-0000-7000-8000-0000000de17a"}
        for _ in range(2):
            self.refused(catalog.post(path, body, headers=headers), namespace)
        assert catalog.get(path).content == before

    @pytest.mark.parametrize("first", [True, False])
    def test_transaction(self, catalog: Catalog, namespace: Namespace, path: str, first: bool):
        table = catalog.create_table(namespace)
        before = table.get()
        changes = [
            {"identifier": table.identifier, "requirements": [], "updates": [set_properties(a="b")]},
            {
                "identifier": {"namespace": list(namespace), "name": "d"},
                "requirements": [],
                "updates": [set_properties(a="b")],
            },
        ]
        body = {"table-changes": changes[::-1] if first else changes}
        self.refused(catalog.post("/transactions/commit", body), namespace)
        assert table.get() == before

    def test_register_over_it(self, catalog: Catalog, namespace: Namespace, path: str):
        location = catalog.create_table(namespace).get()["metadata-location"]
        body = {"name": "d", "metadata-location": location, "overwrite": True}
        self.refused(catalog.post(f"{catalog.namespace_path(namespace)}/register", body), namespace)

    def test_its_name_is_taken(self, catalog: Catalog, namespace: Namespace, path: str):
        schema = {"type": "struct", "fields": []}
        created = catalog.post(catalog.tables_path(namespace), {"name": "d", "schema": schema})
        assert_error(created, 409, "AlreadyExistsException")
        staged = {"name": "d", "schema": schema, "stage-create": True}
        assert_error(catalog.post(catalog.tables_path(namespace), staged), 409, "AlreadyExistsException")
        body = {"requirements": [{"type": "assert-create"}], "updates": []}
        assert_error(catalog.post(path, body), 409, "CommitFailedException")


class TestEntry:
    def test_rename(self, catalog: Catalog, namespace: Namespace, path: str):
        before = catalog.get(path).json()
        body = {
            "source": {"namespace": list(namespace), "name": "d"},
            "destination": {"namespace": list(namespace), "name": "e"},
        }
        assert catalog.post("/tables/rename", body).status_code == 204
        assert catalog.get(f"{catalog.tables_path(namespace)}/e").json() == before
        assert_error(catalog.get(path), 404, "NoSuchTableException")

    def test_drop_leaves_every_file(self, catalog: Catalog, lake: Lake, path: str, location: str):
        before = lake.files(location)
        assert catalog.delete(path).status_code == 204
        assert lake.files(location) == before
        assert_error(catalog.get(path), 404, "NoSuchTableException")

    def test_purge_takes_only_what_was_made_here(self, catalog: Catalog, namespace: Namespace, lake: Lake):
        location = copy_in(lake, DV_TABLE)
        lake.put(f"{location}/metadata/00000-of-somebody.metadata.json", b"{}")
        theirs = lake.files(location)
        register(catalog, namespace, "d", location).raise_for_status()
        made = lake.files(location) - theirs
        assert made
        path = f"{catalog.tables_path(namespace)}/d"
        assert catalog.delete(path, params={"purgeRequested": "true"}).status_code == 204
        assert wait_until_gone(lake, location, made) == set()
        assert lake.files(location) == theirs

    def test_registered_again_after_a_drop(
        self, catalog: Catalog, namespace: Namespace, path: str, location: str
    ):
        before = metadata(catalog.get(path))
        assert catalog.delete(path).status_code == 204
        register(catalog, namespace, "d", location).raise_for_status()
        after = metadata(catalog.get(path))
        assert after["snapshots"] == before["snapshots"]
        assert after["table-uuid"] != before["table-uuid"]

    def test_unregister_answers_the_last_metadata(self, catalog: Catalog, path: str):
        before = catalog.get(path).json()
        answer = catalog.post(f"{path}/unregister")
        assert answer.status_code == 200, answer.text
        assert answer.json()["metadata"] == before["metadata"]
        assert catalog.head(path).status_code == 404

    def test_one_table_under_two_names(
        self, catalog: Catalog, namespace: Namespace, path: str, location: str
    ):
        register(catalog, namespace, "e", location).raise_for_status()
        first, second = (metadata(catalog.get(f"{catalog.tables_path(namespace)}/{name}")) for name in "de")
        assert first["table-uuid"] != second["table-uuid"]
        assert [each["snapshot-id"] for each in second["snapshots"]] == [0, 1]


class Own:
    """A service with settings of its own, and a Delta table in it."""

    def __init__(self, server: CatalogServer, name: str = PLAIN_TABLE) -> None:
        self.lake = FolderLake(server)
        self.catalog = Catalog(server.base_url, server.warehouse)
        self.catalog.create_namespace(("ns",))
        self.location = copy_in(self.lake, name)
        self.path = "/namespaces/ns/tables/d"

    def register(self) -> httpx.Response:
        return register(self.catalog, ("ns",), "d", self.location)

    def current(self) -> int:
        version: int = metadata(self.catalog.get(self.path))["current-snapshot-id"]
        return version


@pytest.fixture
def start_own(start_catalog: Callable[..., CatalogServer]) -> Iterator[Callable[..., Own]]:
    """Starts a service, called as `start_own(REFRESH_AFTER="PT0S")` with settings of Delta tables."""
    started: list[Own] = []

    def start(**settings: str) -> Own:
        names = {f"FLOECAT_GATEWAY_DELTA_COMPAT_{name}": value for name, value in settings.items()}
        started.append(Own(start_catalog(**names)))
        return started[-1]

    yield start
    for own in started:
        own.catalog.close()


class TestNewVersions:
    def test_each_load_sees_what_was_committed_before(self, start_own: Callable[..., Own]):
        own = start_own(REFRESH_AFTER="PT0S")
        newest = own.register().json()["snapshot-id"]
        tag = etag_of(own.catalog.get(own.path))
        for version in range(newest + 1, newest + 4):
            add_version(own.lake, own.location, version)
            assert own.current() == version
        answer = own.catalog.get(own.path, headers={"if-none-match": tag})
        assert answer.status_code == 200
        assert len(metadata(answer)["snapshots"]) == newest + 4

    def test_a_commit_says_any_json_of_itself(self, start_own: Callable[..., Own]):
        own = start_own(REFRESH_AFTER="PT0S")
        newest = own.register().json()["snapshot-id"]
        texts = ("[]", '"text"', "1e999", r'{"a":"\ud800"}', '{"a":"' + "x" * (24 << 20) + '"}')
        for version, text in enumerate(texts, newest + 1):
            log = f"{own.location}/_delta_log/{version:020d}.json"
            own.lake.put(log, f'{{"commitInfo":{text}}}'.encode())
        assert own.current() == newest + len(texts)

    def test_between_two_looks_loads_touch_no_storage(self, start_own: Callable[..., Own]):
        own = start_own(REFRESH_AFTER="PT1H")
        newest = own.register().json()["snapshot-id"]
        add_version(own.lake, own.location, newest + 1)
        path_of(own.location).rename(path_of(own.location).with_name("away"))
        assert own.current() == newest

    def test_a_restart_reads_on(self, start_own: Callable[..., Own]):
        own = start_own()
        newest = own.register().json()["snapshot-id"]
        before = own.catalog.get(own.path).content
        own.lake.server.restart()
        assert own.catalog.get(own.path).content == before
        add_version(own.lake, own.location, newest + 1)
        own.lake.server.restart()
        assert own.current() == newest + 1

    def test_another_process_sees_the_same(
        self, start_own: Callable[..., Own], start_catalog: Callable[..., CatalogServer]
    ):
        own = start_own(REFRESH_AFTER="PT0S")
        newest = own.register().json()["snapshot-id"]
        server = own.lake.server
        other = start_catalog(data_dir=server.data_dir, **server.environment)
        elsewhere = Catalog(other.base_url, other.warehouse)
        add_version(own.lake, own.location, newest + 1)
        assert metadata(elsewhere.get(own.path))["current-snapshot-id"] == newest + 1
        assert own.catalog.get(own.path).json() == elsewhere.get(own.path).json()
        elsewhere.close()


class TestSettings:
    def test_turned_off(self, start_own: Callable[..., Own]):
        own = start_own()
        own.register().raise_for_status()
        own.catalog.create_table(("ns",), "i")
        own.lake.server.environment["FLOECAT_GATEWAY_DELTA_COMPAT_ENABLED"] = "false"
        own.lake.server.restart()
        for answer in (own.catalog.get(own.path), register(own.catalog, ("ns",), "e", own.location)):
            message = assert_error(answer, 406, "UnsupportedOperationException")
            assert "floecat.gateway.delta-compat.enabled" in message
        assert own.catalog.names("/namespaces/ns/tables") == ["d", "i"]
        assert own.catalog.head(own.path).status_code == 204
        assert own.catalog.get("/namespaces/ns/tables/i").status_code == 200
        assert own.catalog.delete(own.path).status_code == 204

    def test_a_place_for_artifacts(self, start_own: Callable[..., Own], tmp_path: Any):
        place = (tmp_path / "compat").as_uri()
        own = start_own(LOCATION=place)
        theirs = own.lake.files(own.location)
        made = own.register().json()
        answer = own.catalog.get(own.path)
        assert answer.json()["metadata-location"].startswith(f"{place}/{made['table-uuid']}/")
        assert own.lake.files(own.location) == theirs
        artifacts = own.lake.files(place)
        assert own.catalog.delete(own.path, params={"purgeRequested": "true"}).status_code == 204
        assert wait_until_gone(own.lake, place, artifacts) == set()
        assert own.lake.files(own.location) == theirs

    def test_the_document_is_the_metadata_file(self, start_own: Callable[..., Own]):
        own = start_own()
        own.register().raise_for_status()
        answer = own.catalog.get(own.path).json()
        assert json.loads(path_of(answer["metadata-location"]).read_bytes()) == answer["metadata"]
