"""`dropTable`, `renameTable`, and what is left of both; cases O22 as far as the catalog decides it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table, unique
from tests.contract.files import files_below, path_of
from tests.contract.updates import set_properties


def _rename(catalog: Catalog, kind: str, source: dict, destination: dict):
    return catalog.post(f"/{kind}s/rename", {"source": source, "destination": destination})


def _named(namespace: Namespace, name: str) -> dict:
    return {"namespace": list(namespace), "name": name}


def _eventually(condition: Callable[[], bool], timeout_s: float = 120.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


class TestDrop:
    def test_dropped_table_is_gone_at_once(self, catalog: Catalog, namespace: Namespace, table: Table):
        answer = catalog.delete(table.path)
        assert (answer.status_code, answer.content) == (204, b"")
        assert not table.exists()
        assert catalog.names(catalog.tables_path(namespace)) == []
        assert_error(
            catalog.get(table.path), 404, "NoSuchTableException", f"Table does not exist: {table.text}"
        )

    @pytest.mark.parametrize("params", [{}, {"purgeRequested": "false"}, {"purgeRequested": "true"}])
    def test_missing_table_is_404(self, catalog: Catalog, namespace: Namespace, params: dict[str, str]):
        answer = catalog.delete(f"{catalog.tables_path(namespace)}/missing", params=params)
        assert_error(answer, 404, "NoSuchTableException", f"Table does not exist: {namespace[0]}.missing")

    def test_view_is_no_table(self, catalog: Catalog, namespace: Namespace):
        view = catalog.create_view(namespace)
        answer = catalog.delete(f"{catalog.tables_path(namespace)}/{view.name}")
        assert_error(answer, 404, "NoSuchTableException", f"Table does not exist: {view.text}")
        assert view.exists()

    def test_name_is_free_at_once(self, catalog: Catalog, namespace: Namespace):
        uuids = set()
        for purge in ("false", "true", "false"):
            table = catalog.create_table(namespace, "again")
            uuids.add(table.metadata()["table-uuid"])
            table.drop(purgeRequested=purge)
        assert len(uuids) == 3
        catalog.create_view(namespace, "again")

    def test_without_purge_every_file_stays(self, local_table: Table):
        body = local_table.get()
        local_table.committed([set_properties(a="1")])
        before = files_below(body["metadata"]["location"])
        local_table.drop()
        time.sleep(0.5)
        assert files_below(body["metadata"]["location"]) == before
        assert path_of(body["metadata-location"]).exists()

    def test_with_purge_the_files_go_some_time_later(self, local_table: Table):
        body = local_table.get()
        local_table.committed([set_properties(a="1")])
        local_table.drop(purgeRequested="true")
        assert not local_table.exists()
        assert _eventually(lambda: not path_of(body["metadata-location"]).exists())
        assert _eventually(lambda: files_below(body["metadata"]["location"]) == [])

    def test_purge_leaves_a_neighbour_whose_name_begins_the_same(
        self, local_catalog: Catalog, local_namespace: Namespace, warehouse_folder
    ):
        base = f"{warehouse_folder.as_uri()}/{unique('neighbours')}"
        short, long, inner = (
            local_catalog.create_table(local_namespace, name, location=f"{base}/{path}")
            for name, path in (("test", "test"), ("test2", "test2"), ("inner", "test/inner"))
        )
        files = {each.name: files_below(each.metadata()["location"]) for each in (long, inner)}
        gone = path_of(short.get()["metadata-location"])
        short.drop(purgeRequested="true")
        assert _eventually(lambda: not gone.exists())
        for each in (long, inner):
            assert files_below(each.metadata()["location"]) == files[each.name]
            assert path_of(each.get()["metadata-location"]).exists()

    def test_purge_of_a_renamed_table_leaves_its_successor(
        self, local_catalog: Catalog, local_namespace: Namespace
    ):
        old = local_catalog.create_table(local_namespace, "tbl")
        gone = path_of(old.get()["metadata-location"])
        moved = _named(local_namespace, "renamed")
        assert _rename(local_catalog, "table", old.identifier, moved).status_code == 204
        new = local_catalog.create_table(local_namespace, "tbl")
        files = files_below(new.metadata()["location"])
        path = f"{local_catalog.tables_path(local_namespace)}/renamed"
        assert local_catalog.delete(path, params={"purgeRequested": "true"}).status_code == 204
        assert _eventually(lambda: not gone.exists())
        assert files_below(new.metadata()["location"]) == files

    def test_gc_enabled_false_keeps_no_metadata(self, local_catalog: Catalog, local_namespace: Namespace):
        """As with the reference implementation, the property is about data files."""
        table = local_catalog.create_table(local_namespace, properties={"gc.enabled": "false"})
        metadata = path_of(table.get()["metadata-location"])
        table.drop(purgeRequested="true")
        assert _eventually(lambda: not metadata.exists())

    @pytest.mark.parametrize("value", ["maybe", "2", ""])
    def test_malformed_purge_flag_is_400(self, catalog: Catalog, table: Table, value: str):
        answer = catalog.delete(table.path, params={"purgeRequested": value})
        assert_error(answer, 400, "BadRequestException")
        assert table.exists()

    @pytest.mark.parametrize("value", ["true", "True", "TRUE"])
    def test_purge_flag_in_any_case(self, catalog: Catalog, table: Table, value: str):
        assert catalog.delete(table.path, params={"purgeRequested": value}).status_code == 204


class TestRename:
    @pytest.fixture(params=["table", "view"])
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @staticmethod
    def _make(catalog: Catalog, kind: str, namespace: Namespace, name: str):
        return getattr(catalog, f"create_{kind}")(namespace, name)

    @staticmethod
    def _missing(kind: str) -> str:
        return f"NoSuch{kind.capitalize()}Exception"

    def test_within_a_namespace(self, catalog: Catalog, namespace: Namespace, kind: str):
        old = self._make(catalog, kind, namespace, "old")
        before = old.get()
        answer = _rename(catalog, kind, old.identifier, _named(namespace, "new"))
        assert (answer.status_code, answer.content) == (204, b"")
        assert not old.exists()
        assert catalog.names(f"{catalog.namespace_path(namespace)}/{kind}s") == ["new"]
        assert catalog.get(f"{catalog.namespace_path(namespace)}/{kind}s/new").json() == before

    def test_into_another_namespace(self, catalog: Catalog, namespace: Namespace, kind: str):
        target = catalog.create_namespace((*namespace, "target"))
        old = self._make(catalog, kind, namespace, "same")
        before = old.get()
        assert _rename(catalog, kind, old.identifier, _named(target, "same")).status_code == 204
        assert not old.exists()
        assert catalog.get(f"{catalog.namespace_path(target)}/{kind}s/same").json() == before

    def test_to_itself_changes_nothing(self, catalog: Catalog, namespace: Namespace, kind: str):
        old = self._make(catalog, kind, namespace, "old")
        before = old.get()
        answer = _rename(catalog, kind, old.identifier, old.identifier)
        assert answer.status_code in (204, 409)
        assert old.get() == before

    def test_missing_source_is_404(self, catalog: Catalog, namespace: Namespace, kind: str):
        answer = _rename(catalog, kind, _named(namespace, "none"), _named(namespace, "new"))
        message = f"{kind.capitalize()} does not exist: {namespace[0]}.none"
        assert_error(answer, 404, self._missing(kind), message)
        answer = _rename(catalog, kind, _named((*namespace, "no"), "none"), _named(namespace, "new"))
        assert_error(
            answer, 404, self._missing(kind), f"{kind.capitalize()} does not exist: {namespace[0]}.no.none"
        )

    def test_missing_namespace_of_the_target_is_404(self, catalog: Catalog, namespace: Namespace, kind: str):
        old = self._make(catalog, kind, namespace, "old")
        answer = _rename(catalog, kind, old.identifier, _named((*namespace, "non_existing"), "new"))
        message = f"Namespace does not exist: {namespace[0]}.non_existing"
        assert_error(answer, 404, "NoSuchNamespaceException", message)
        assert old.exists()

    def test_other_kind_is_no_source(self, catalog: Catalog, namespace: Namespace, kind: str):
        other = self._make(catalog, "view" if kind == "table" else "table", namespace, "other")
        answer = _rename(catalog, kind, other.identifier, _named(namespace, "new"))
        assert_error(answer, 404, self._missing(kind), f"{kind.capitalize()} does not exist: {other.text}")
        assert other.exists()

    @pytest.mark.parametrize("taken_by", ["table", "view"])
    def test_target_that_exists_is_409(
        self, catalog: Catalog, namespace: Namespace, kind: str, taken_by: str
    ):
        source = self._make(catalog, kind, namespace, "source")
        target = self._make(catalog, taken_by, namespace, "target")
        before = source.get(), target.get()
        answer = _rename(catalog, kind, source.identifier, target.identifier)
        message = f"Cannot rename {source.text} to {target.text}. {taken_by.capitalize()} already exists"
        if kind == taken_by == "table":
            message = f"Table already exists: {target.text}"
        assert_error(answer, 409, "AlreadyExistsException", message)
        assert (source.get(), target.get()) == before

    def test_old_name_is_free(self, catalog: Catalog, namespace: Namespace, kind: str):
        old = self._make(catalog, kind, namespace, "old")
        _rename(catalog, kind, old.identifier, _named(namespace, "new"))
        again = self._make(catalog, kind, namespace, "old")
        uuid = "table-uuid" if kind == "table" else "view-uuid"
        assert again.metadata()[uuid] != old.created.json()["metadata"][uuid]

    def test_renamed_entry_can_be_changed(self, catalog: Catalog, namespace: Namespace, kind: str):
        old = self._make(catalog, kind, namespace, "old")
        location = old.metadata()["location"]
        _rename(catalog, kind, old.identifier, _named(namespace, "new"))
        body = {"requirements": [], "updates": [set_properties(a="1")]}
        answer = catalog.post(f"{catalog.namespace_path(namespace)}/{kind}s/new", body)
        assert answer.status_code == 200
        assert answer.json()["metadata"]["location"] == location

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"source": {"namespace": ["a"], "name": "b"}},
            {"source": {"namespace": ["a"]}, "destination": {"namespace": ["a"], "name": "c"}},
            {"source": {"namespace": "a", "name": "b"}, "destination": {"namespace": ["a"], "name": "c"}},
            {"source": "a.b", "destination": "a.c"},
            [],
        ],
    )
    def test_malformed_body_is_400(self, catalog: Catalog, kind: str, body: object):
        assert_error(catalog.post(f"/{kind}s/rename", body), 400, "BadRequestException")
