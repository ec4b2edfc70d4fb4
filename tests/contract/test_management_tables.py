"""Tables that are registered by their location, and connectors that find them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, segment, unique
from tests.contract.delta import DV_TABLE, PLAIN_TABLE, UNKNOWN_FEATURE, copy_in, management, register
from tests.contract.lakes import Lake


@pytest.fixture
def location(lake: Lake) -> str:
    """A Delta table that nobody registered yet."""
    return copy_in(lake, DV_TABLE)


class TestRegister:
    def test_answer(self, catalog: Catalog, namespace: Namespace, location: str):
        answer = register(catalog, namespace, "d", location)
        assert answer.status_code == 201, answer.text
        made = answer.json()
        loaded = catalog.get(f"{catalog.tables_path(namespace)}/d").json()["metadata"]
        assert UUID(made["id"]) != UUID(made["table-uuid"])
        assert made == {
            "identifier": {"namespace": list(namespace), "name": "d"},
            "id": made["id"],
            "format": "delta",
            "location": location,
            "table-uuid": loaded["table-uuid"],
            "snapshot-id": 1,
            "problem": None,
        }
        assert loaded["location"] == location

    def test_slash_at_the_end_of_the_location(self, catalog: Catalog, namespace: Namespace, location: str):
        made = register(catalog, namespace, "d", location + "/").json()
        assert made["location"] == location

    @pytest.mark.parametrize("version", [2, 3])
    def test_format_version(self, catalog: Catalog, namespace: Namespace, location: str, version: int):
        register(catalog, namespace, "d", location, **{"format-version": version}).raise_for_status()
        loaded = catalog.get(f"{catalog.tables_path(namespace)}/d").json()["metadata"]
        assert loaded["format-version"] == version

    def test_a_table_that_cannot_be_read_is_registered(
        self, catalog: Catalog, namespace: Namespace, lake: Lake
    ):
        answer = register(catalog, namespace, "d", copy_in(lake, UNKNOWN_FEATURE))
        assert answer.status_code == 201
        problem = answer.json()["problem"]
        assert answer.json()["snapshot-id"] is None
        assert problem["type"] == "UnsupportedOperationException"
        assert "blahabl" in problem["message"]
        assert catalog.names(catalog.tables_path(namespace)) == ["d"]

    def test_what_is_refused(self, catalog: Catalog, namespace: Namespace, lake: Lake, location: str):
        catalog.create_table(namespace, "taken")
        catalog.create_view(namespace, "view")
        bad = "BadRequestException"
        for name, place, fields, status, kind in [
            ("d", location, {"format": "hudi"}, 400, bad),
            ("d", location, {"format": None}, 400, bad),
            ("d", location, {"format-version": 1}, 400, bad),
            ("", location, {}, 400, bad),
            ("d", "relative", {}, 400, bad),
            ("d", f"{lake.root}/../outside", {}, 400, bad),
            ("d", "s3://elsewhere/t", {}, 403, "ForbiddenException"),
            ("d", f"{location}-not-there", {}, 400, "BadRequestException"),
            ("taken", location, {}, 409, "AlreadyExistsException"),
            ("view", location, {}, 409, "AlreadyExistsException"),
        ]:
            assert_error(register(catalog, namespace, name, place, **fields), status, kind)
        missing = register(catalog, (*namespace, "none"), "d", location)
        assert_error(missing, 404, "NoSuchNamespaceException")
        assert catalog.names(catalog.tables_path(namespace)) == ["taken"]

    def test_the_missing_log_is_named(self, catalog: Catalog, namespace: Namespace, lake: Lake):
        location = f"{lake.root}/{unique('none')}"
        message = assert_error(register(catalog, namespace, "d", location), 400, "BadRequestException")
        assert location in message
        assert "_delta_log" in message

    def test_the_known_formats_are_named(self, catalog: Catalog, namespace: Namespace, location: str):
        answer = register(catalog, namespace, "d", location, format="parquet")
        assert "known: delta" in assert_error(answer, 400, "BadRequestException")

    def test_malformed_body_is_400(self, catalog: Catalog, namespace: Namespace):
        path = management(catalog, catalog.tables_path(namespace))
        for content in (b"", b"{", b"[]", b'{"name": 1}', b"\xff"):
            answer = catalog.http.post(path, content=content, headers={"content-type": "application/json"})
            assert_error(answer, 400, "BadRequestException")

    def test_a_field_that_is_not_known_is_400(self, catalog: Catalog, namespace: Namespace, location: str):
        answer = register(catalog, namespace, "d", location, format_version=3)
        assert "`format_version`" in assert_error(answer, 400, "BadRequestException")
        assert catalog.names(catalog.tables_path(namespace)) == []

    def test_key_has_one_effect(self, catalog: Catalog, namespace: Namespace, location: str):
        path = management(catalog, catalog.tables_path(namespace))
        body = {"name": "d", "format": "delta", "location": location}
        headers = {"idempotency-key": "0190a1b2-0000-7000-8000-00000000de17"}
        first, again = (catalog.http.post(path, json=body, headers=headers) for _ in range(2))
        assert (first.status_code, again.status_code) == (201, 201)
        assert first.json() == again.json()
        other = catalog.http.post(path, json=body | {"name": "e"}, headers=headers)
        assert_error(other, 409, "ConflictException")

    def test_wrong_method_is_405(self, catalog: Catalog, namespace: Namespace):
        answer = catalog.http.get(management(catalog, catalog.tables_path(namespace)))
        assert_error(answer, 405, "UnsupportedOperationException")


class TestConnectors:
    @pytest.fixture
    def connector(self, catalog: Catalog) -> str:
        return unique("connector")

    def path(self, catalog: Catalog, name: str = "", more: str = "") -> str:
        return management(catalog, "/connectors" + (f"/{segment(name)}" if name else "") + more)

    def create(self, catalog: Catalog, name: str, location: str, **fields: Any) -> Any:
        body = {"name": name, "kind": "delta", "location": location} | fields
        answer = catalog.http.post(self.path(catalog), json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def scan(self, catalog: Catalog, name: str) -> Any:
        answer = catalog.http.post(self.path(catalog, name, "/scan"))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def test_life_of_a_connector(self, catalog: Catalog, lake: Lake, connector: str):
        made = self.create(catalog, connector, lake.root, namespace=["a", "b"], enabled=False)
        assert (made["namespace"], made["enabled"], made["interval"]) == (["a", "b"], False, "PT10M")
        assert catalog.http.get(self.path(catalog, connector)).json() == made
        assert made in catalog.http.get(self.path(catalog)).json()["connectors"]
        assert catalog.http.delete(self.path(catalog, connector)).status_code == 204
        for answer in (
            catalog.http.get(self.path(catalog, connector)),
            catalog.http.delete(self.path(catalog, connector)),
            catalog.http.post(self.path(catalog, connector, "/scan")),
        ):
            assert_error(answer, 404, "NotFoundException")

    def test_scan_of_a_lake(self, catalog: Catalog, lake: Lake, connector: str):
        root = f"{lake.root}/{connector}"
        copy_in(lake, DV_TABLE, f"{root}/orders")
        copy_in(lake, PLAIN_TABLE, f"{root}/eu/orders")
        copy_in(lake, UNKNOWN_FEATURE, f"{root}/eu/future")
        lake.put(f"{root}/eu/readme.txt", b"x")
        self.create(catalog, connector, root)
        report = self.scan(catalog, connector)
        found = {tuple(each["identifier"]["namespace"]): each for each in report["registered"]}
        names = sorted(
            ".".join((*each["identifier"]["namespace"], each["identifier"]["name"]))
            for each in report["registered"]
        )
        assert names == [f"{connector}.eu.future", f"{connector}.eu.orders", f"{connector}.orders"]
        assert found[(connector,)]["location"] == f"{root}/orders"
        problems = {each["identifier"]["name"]: each["problem"] for each in report["registered"]}
        assert problems["orders"] is None
        assert "blahabl" in problems["future"]["message"]
        assert (report["skipped"], report["failed"], report["problem"]) == ([], [], None)
        loaded = catalog.get(f"{catalog.tables_path((connector, 'eu'))}/orders")
        assert loaded.status_code == 200, loaded.text
        again = self.scan(catalog, connector)
        assert (again["registered"], len(again["skipped"]), again["failed"]) == ([], 3, [])
        catalog.clear((connector,))

    def test_a_field_that_is_not_known_is_400(self, catalog: Catalog, lake: Lake, connector: str):
        body = {"name": connector, "kind": "delta", "location": lake.root, "namespcae": ["a"]}
        answer = catalog.http.post(self.path(catalog), json=body)
        assert "`namespcae`" in assert_error(answer, 400, "BadRequestException")

    def test_a_root_that_is_not_there_is_told(self, catalog: Catalog, lake: Lake, connector: str):
        root = f"{lake.root}/{connector}"
        self.create(catalog, connector, root)
        (failed,) = self.scan(catalog, connector)["failed"]
        assert (failed["location"], failed["problem"]["type"]) == (root, "NotFoundException")
        assert root in catalog.http.get(self.path(catalog, connector)).json()["last-error"]
        # a name below it in the bucket, and none of its folder
        lake.put(f"{root}-more/file", b"x")
        assert len(self.scan(catalog, connector)["failed"]) == 1

    def test_new_tables_are_found_by_the_next_scan(self, catalog: Catalog, lake: Lake, connector: str):
        root = f"{lake.root}/{connector}"
        self.create(catalog, connector, root, options={"namespaces": "flat", "exclude": "us"})
        lake.put(f"{root}/readme.txt", b"x")
        copy_in(lake, PLAIN_TABLE, f"{root}/us/orders")
        report = self.scan(catalog, connector)
        assert (report["registered"], report["failed"]) == ([], [])
        copy_in(lake, DV_TABLE, f"{root}/eu/orders")
        (made,) = self.scan(catalog, connector)["registered"]
        assert made["identifier"] == {"namespace": [connector], "name": "eu_orders"}
        assert made["snapshot-id"] == 1
        row = catalog.http.get(self.path(catalog, connector)).json()
        assert (row["last-error"], row["last-scan-at-ms"] is None) == (None, False)
        catalog.clear((connector,))

    def test_what_is_refused(self, catalog: Catalog, lake: Lake, connector: str):
        good = {"name": connector, "kind": "delta", "location": lake.root}
        for changes, status in [
            ({"kind": "hudi"}, 400),
            ({"kind": "os:system"}, 400),
            ({"location": "s3://elsewhere"}, 403),
            ({"options": {"what": "ever"}}, 400),
            ({"options": {"max-depth": "1" * 5_000}}, 400),
            ({"options": {"name": "a\x1fb"}}, 400),
            ({"options": {"exclude": "../x"}}, 400),
            ({"interval": "soon"}, 400),
            ({"namespace": ["a", ""]}, 400),
        ]:
            answer = catalog.http.post(self.path(catalog), json=good | changes)
            kind = "BadRequestException" if status == 400 else "ForbiddenException"
            assert_error(answer, status, kind)
        self.create(catalog, connector, lake.root)
        assert_error(catalog.http.post(self.path(catalog), json=good), 409, "AlreadyExistsException")
