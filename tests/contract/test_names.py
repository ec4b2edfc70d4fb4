"""Names and how paths encode them (cases O08 and O09)."""

from __future__ import annotations

import json
from urllib.parse import quote_plus

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, namespace_segment, raw, segment, unique
from tests.contract.documents import ID_AND_DATA, sql_version

ODD_NAMES = [
    "with space",
    "with+plus",
    "with%percent",
    "with%20escape",
    "with%2520escape",
    "with%1Fescape",
    "with/slash",
    "with\\backslash",
    "with.dot",
    "...",
    ".hidden",
    "with\"quote'and`tick",
    "with?query&amp=1#fragment",
    "with;semicolon,comma",
    "with{brace}[bracket]<angle>",
    "größe",
    "naïve" + "\u0301",
    "表",
    "🧊❄",
    " leading and trailing ",
    "UPPER",
    "upper",
    "-",
    "_",
    "~tilde~2E",
    "null",
    "\u200bzero width",
    "DROP TABLE x; --",
    "x" * 255,
    "é" * 127,
]

# "." and ".." come first: URL libraries and proxies resolve them, so nothing of that name could be reached.
BAD_NAMES = [
    ".",
    "..",
    "",
    " ",
    "\t",
    "a\x00b",
    "a\nb",
    "a\x1fb",
    "a\x7fb",
    "x" * 256,
    "é" * 128,
]


def _ids(name: str) -> str:
    return ascii(name)[:30]


@pytest.mark.parametrize("name", ODD_NAMES, ids=_ids)
def test_any_name_works_for_namespaces(catalog: Catalog, namespace: Namespace, name: str):
    full = catalog.create_namespace((*namespace, name), {"name": name})
    loaded = catalog.get(catalog.namespace_path(full)).json()
    assert loaded["namespace"] == list(full)
    assert loaded["properties"]["name"] == name
    assert catalog.children(namespace) == [full]
    below = catalog.create_namespace((*full, name))
    assert catalog.children(full) == [below]
    assert catalog.delete(catalog.namespace_path(below)).status_code == 204
    assert catalog.delete(catalog.namespace_path(full)).status_code == 204
    assert catalog.children(namespace) == []


@pytest.mark.parametrize("name", ODD_NAMES, ids=_ids)
def test_any_name_works_for_tables(catalog: Catalog, namespace: Namespace, name: str):
    table = catalog.create_table(namespace, name)
    assert table.metadata() == table.created.json()["metadata"]
    assert catalog.names(catalog.tables_path(namespace)) == [name]
    assert table.commit([{"action": "set-properties", "updates": {"n": name}}]).status_code == 200
    assert table.exists()
    table.drop()
    assert not table.exists()


@pytest.mark.parametrize("name", ODD_NAMES, ids=_ids)
def test_any_name_works_for_views(catalog: Catalog, namespace: Namespace, name: str):
    view = catalog.create_view(namespace, name)
    assert view.metadata() == view.created.json()["metadata"]
    assert catalog.names(catalog.views_path(namespace)) == [name]
    assert view.exists()
    view.drop()
    assert not view.exists()


def test_names_that_differ_in_anything_are_different(catalog: Catalog, namespace: Namespace):
    tables = [catalog.create_table(namespace, name) for name in ODD_NAMES]
    assert sorted(catalog.names(catalog.tables_path(namespace))) == sorted(ODD_NAMES)
    uuids = [table.metadata()["table-uuid"] for table in tables]
    assert len(set(uuids)) == len(ODD_NAMES)
    assert uuids == [table.created.json()["metadata"]["table-uuid"] for table in tables]
    locations = [table.metadata()["location"] for table in tables]
    assert len(set(locations)) == len(ODD_NAMES)


@pytest.mark.parametrize("name", BAD_NAMES, ids=_ids)
def test_bad_name_of_a_namespace_is_400(catalog: Catalog, namespace: Namespace, name: str):
    answer = catalog.post("/namespaces", {"namespace": [*namespace, name]})
    assert_error(answer, 400, "BadRequestException")
    assert catalog.children(namespace) == []


@pytest.mark.parametrize("name", BAD_NAMES, ids=_ids)
def test_bad_name_of_a_table_is_400(catalog: Catalog, namespace: Namespace, name: str):
    for stage in (False, True):
        body = {"name": name, "schema": ID_AND_DATA, "stage-create": stage}
        assert_error(catalog.post(catalog.tables_path(namespace), body), 400, "BadRequestException")
    assert catalog.names(catalog.tables_path(namespace)) == []


@pytest.mark.parametrize("name", BAD_NAMES, ids=_ids)
def test_bad_name_of_a_view_is_400(catalog: Catalog, namespace: Namespace, name: str):
    body = {"name": name, "schema": ID_AND_DATA, "view-version": sql_version(), "properties": {}}
    assert_error(catalog.post(catalog.views_path(namespace), body), 400, "BadRequestException")
    assert catalog.names(catalog.views_path(namespace)) == []


@pytest.mark.parametrize("name", BAD_NAMES, ids=_ids)
def test_rename_to_a_bad_name_is_400(catalog: Catalog, namespace: Namespace, name: str):
    table = catalog.create_table(namespace, "t")
    target = {"namespace": list(namespace), "name": name}
    answer = catalog.post("/tables/rename", {"source": table.identifier, "destination": target})
    assert_error(answer, 400, "BadRequestException")
    assert catalog.names(catalog.tables_path(namespace)) == ["t"]


def test_lone_surrogate_in_a_name_is_400(catalog: Catalog, namespace: Namespace):
    body = json.dumps({"namespace": [*namespace, "\ud800"]}).encode()
    answer = catalog.post("/namespaces", content=body, headers={"content-type": "application/json"})
    assert_error(answer, 400, "BadRequestException")


def test_a_namespace_longer_than_an_index_entry_is_400(catalog: Catalog, namespace: Namespace):
    name = [*namespace, *(["-" * 255] * 12)]
    assert_error(catalog.post("/namespaces", {"namespace": name}), 400, "BadRequestException")


def test_separator_in_a_level_is_400(catalog: Catalog, namespace: Namespace):
    answer = catalog.post("/namespaces", {"namespace": [*namespace, "a\x1fb"]})
    assert_error(answer, 400, "BadRequestException")


class TestPlus:
    """A raw plus is a plus, and where there is no such name a space, for clients that form-encode."""

    @pytest.fixture
    def both(self, catalog: Catalog, namespace: Namespace) -> dict[str, Namespace]:
        names = ("a b", "a+b", "a%20b", "a%2Bb")
        return {name: catalog.create_namespace((*namespace, name), {"is": name}) for name in names}

    @pytest.mark.parametrize(
        ("written", "meant"),
        [("a%20b", "a b"), ("a%2Bb", "a+b"), ("a+b", "a+b"), ("a%2520b", "a%20b"), ("a%252Bb", "a%2Bb")],
    )
    def test_of_namespaces_that_all_exist(
        self, catalog: Catalog, namespace: Namespace, both: dict[str, Namespace], written: str, meant: str
    ):
        status, body = raw(catalog, "GET", f"/namespaces/{namespace[0]}%1F{written}")
        assert status == 200
        assert json.loads(body)["properties"]["is"] == meant

    def test_means_a_space_when_no_namespace_has_the_plus(self, catalog: Catalog, namespace: Namespace):
        spaced = catalog.create_namespace((*namespace, "x y z"))
        table = catalog.create_table(spaced, "my table")
        form = "%1F".join(quote_plus(level) for level in spaced)
        assert "+" in form
        for method, path, status in (
            ("GET", f"/namespaces/{form}", 200),
            ("HEAD", f"/namespaces/{form}", 204),
            ("GET", f"/namespaces/{form}/tables", 200),
            ("GET", f"/namespaces/{form}/tables/my+table", 200),
            ("HEAD", f"/namespaces/{form}/tables/my+table", 204),
            ("DELETE", f"/namespaces/{form}/tables/my+table", 204),
            ("DELETE", f"/namespaces/{form}", 204),
        ):
            assert raw(catalog, method, path)[0] == status, (method, path)
        assert not table.exists()

    @pytest.mark.parametrize(("written", "meant"), [("a%20b", "a b"), ("a%2Bb", "a+b"), ("a+b", "a+b")])
    def test_of_tables_that_both_exist(
        self, catalog: Catalog, namespace: Namespace, written: str, meant: str
    ):
        tables = {name: catalog.create_table(namespace, name) for name in ("a b", "a+b")}
        status, body = raw(catalog, "GET", f"/namespaces/{namespace[0]}/tables/{written}")
        assert status == 200
        assert json.loads(body)["metadata"] == tables[meant].metadata()

    def test_of_views_means_a_space_when_no_view_has_the_plus(self, catalog: Catalog, namespace: Namespace):
        view = catalog.create_view(namespace, "a b")
        status, body = raw(catalog, "GET", f"/namespaces/{namespace[0]}/views/a+b")
        assert (status, json.loads(body)["metadata"]) == (200, view.metadata())

    def test_of_nothing_that_exists_is_404_for_the_literal_name(self, catalog: Catalog, namespace: Namespace):
        status, body = raw(catalog, "GET", f"/namespaces/{namespace[0]}/tables/p+q")
        assert status == 404
        assert json.loads(body)["error"]["message"] == f"Table does not exist: {namespace[0]}.p+q"

    def test_in_parent_is_a_space_as_in_every_query(self, catalog: Catalog, namespace: Namespace):
        spaced = catalog.create_namespace((*namespace, "s t"))
        catalog.create_namespace((*spaced, "child"))
        for written in ("s+t", "s%20t"):
            status, body = raw(catalog, "GET", f"/namespaces?parent={namespace[0]}%1F{written}")
            assert (status, json.loads(body)["namespaces"]) == (200, [[*spaced, "child"]])


@pytest.mark.parametrize("written", ["%", "%2", "%zz", "a%", "%ff", "%C3%28", "%ED%A0%80"])
def test_malformed_escape_in_a_path_is_400(catalog: Catalog, namespace: Namespace, written: str):
    for path in (f"/namespaces/{written}", f"/namespaces/{namespace[0]}/tables/{written}"):
        status, body = raw(catalog, "GET", path)
        assert status == 400, path
        assert json.loads(body)["error"]["type"] == "BadRequestException"


class TestEmpty:
    """Nothing has an empty name: there is no such thing to find or to drop, and none can be made.

    Spark asks for `/namespaces//tables/db` whenever a table called `files`, `history`… is missing in `db`.
    """

    @pytest.mark.parametrize("written", ["", "%1F", "{ns}%1F", "%1f{ns}", "{ns}%1F%1F{ns}"])
    @pytest.mark.parametrize("root", [None, "/v1"], ids=["prefix", "no prefix"])
    def test_a_namespace_with_an_empty_level_does_not_exist(
        self, catalog: Catalog, namespace: Namespace, root: str | None, written: str
    ):
        path = f"/namespaces/{written.format(ns=namespace[0])}"
        for below, kind in (
            ("/tables/t", "NoSuchTableException"),
            ("/views/v", "NoSuchViewException"),
            ("", "NoSuchNamespaceException"),
        ):
            for method in ("GET", "HEAD", "DELETE"):
                status, body = raw(catalog, method, path + below, root=root)
                assert status == 404, (method, path + below)
                found = b"" if method == "HEAD" else json.loads(body)["error"]["type"].encode()
                assert found == (b"" if method == "HEAD" else kind.encode())
        for listing in ("/tables", "/views"):
            status, body = raw(catalog, "GET", path + listing, root=root)
            assert (status, json.loads(body)["error"]["type"]) == (404, "NoSuchNamespaceException")

    def test_a_table_or_view_without_a_name_does_not_exist(self, catalog: Catalog, namespace: Namespace):
        catalog.create_table(namespace, "t")
        for collection, kind in (("tables", "NoSuchTableException"), ("views", "NoSuchViewException")):
            for method in ("GET", "DELETE"):
                status, body = raw(catalog, method, f"/namespaces/{namespace[0]}/{collection}/")
                assert (status, json.loads(body)["error"]["type"]) == (404, kind)
            assert raw(catalog, "HEAD", f"/namespaces/{namespace[0]}/{collection}/") == (404, b"")
        assert catalog.names(catalog.tables_path(namespace)) == ["t"]

    @pytest.mark.parametrize("path", ["/namespaces/{ns}//tables", "/namespaces/{ns}/tables//t"])
    def test_a_segment_is_no_other_resource(self, catalog: Catalog, namespace: Namespace, path: str):
        for method in ("GET", "DELETE"):
            status, body = raw(catalog, method, path.format(ns=namespace[0]))
            assert (status, json.loads(body)["error"]["code"]) == (404, 404)

    @pytest.mark.parametrize(
        "path", ["//tables", "//tables/t", "//properties", "/%1Fa/tables", "/a%1F/views"]
    )
    def test_nothing_is_made_there(self, catalog: Catalog, path: str):
        status, body = raw(catalog, "POST", f"/namespaces{path}")
        assert (status, json.loads(body)["error"]["type"]) == (400, "BadRequestException")

    def test_an_empty_parent_is_the_top_level(self, catalog: Catalog, namespace: Namespace):
        status, body = raw(catalog, "GET", "/namespaces?parent=")
        assert status == 200
        assert list(namespace) in json.loads(body)["namespaces"]
        status, body = raw(catalog, "GET", f"/namespaces?parent={namespace[0]}%1F")
        assert (status, json.loads(body)["error"]["type"]) == (404, "NoSuchNamespaceException")


def test_encoded_slash_stays_inside_its_segment(catalog: Catalog, namespace: Namespace):
    name = catalog.create_namespace((*namespace, "a/tables/b"))
    catalog.create_table(name, "c/d")
    written = namespace_segment(name)
    assert "%2F" in written
    status, body = raw(catalog, "GET", f"/namespaces/{written}/tables/{segment('c/d')}")
    assert status == 200
    assert json.loads(body)["metadata"]["format-version"] == 2


@pytest.mark.parametrize("separator", ["%1F", "%1f"])
def test_unit_separator_in_either_case(catalog: Catalog, namespace: Namespace, separator: str):
    catalog.create_namespace((*namespace, "b"))
    status, _ = raw(catalog, "GET", f"/namespaces/{namespace[0]}{separator}b")
    assert status == 200


def test_message_names_what_is_missing_as_it_was_meant(catalog: Catalog, namespace: Namespace):
    name = unique("größe ☃")
    answer = catalog.get(f"{catalog.tables_path(namespace)}/{segment(name)}")
    assert_error(answer, 404, "NoSuchTableException", f"Table does not exist: {namespace[0]}.{name}")
