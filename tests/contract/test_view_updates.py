"""`replaceView`: the 8 view updates and the one requirement."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, View, unique
from tests.contract.documents import ID_AND_DATA, column, schema, sql, sql_version
from tests.contract.files import files_below
from tests.contract.updates import (
    add_schema,
    add_view_version,
    assert_view_uuid,
    remove_properties,
    set_current_view_version,
    set_location,
    set_properties,
    update,
)

OTHER = schema(column(1, "n", "int"))


def replacement(*representations: Any, version_id: int = 2, schema_id: int = 0, **more: Any) -> list[Any]:
    version = sql_version(*representations, version_id=version_id, schema_id=schema_id, **more)
    return [add_view_version(version), set_current_view_version()]


def refused(view: View, *updates: Any) -> str:
    """Commits what must be refused; nothing of it may be there afterwards. Returns the message."""
    before = view.get()
    answer = view.commit(updates)
    assert answer.status_code == 400, answer.text
    message = assert_error(answer, 400, answer.json()["error"]["type"])
    assert view.get() == before
    return message


class TestVersions:
    def test_replacement_is_the_next_version(self, view: View):
        answer = view.commit(replacement(sql("select 2")))
        assert answer.status_code == 200, answer.text
        assert set(answer.json()) == {"metadata-location", "metadata", "config"}
        made = answer.json()["metadata"]
        assert made["current-version-id"] == 2
        assert [version["version-id"] for version in made["versions"]] == [1, 2]
        assert [entry["version-id"] for entry in made["version-log"]] == [1, 2]
        assert answer.json()["metadata-location"].startswith(f"{made['location']}/metadata/00001-")
        assert view.get() == answer.json()

    def test_schema_of_the_same_request(self, view: View):
        made = view.committed([add_schema(OTHER | {"schema-id": 9}), *replacement(sql("x"), schema_id=-1)])
        assert [each["schema-id"] for each in made["schemas"]] == [0, 1]
        assert made["versions"][1]["schema-id"] == 1

    def test_equal_schema_is_reused(self, view: View):
        made = view.committed(
            [add_schema(ID_AND_DATA | {"schema-id": 5}), *replacement(sql("x"), schema_id=-1)]
        )
        assert len(made["schemas"]) == 1
        assert made["versions"][1]["schema-id"] == 0

    def test_last_added_schema_that_is_not_there_is_refused(self, view: View):
        assert refused(view, *replacement(sql("x"), schema_id=-1))

    def test_unknown_schema_is_refused(self, view: View):
        assert refused(view, *replacement(sql("x"), schema_id=7))

    def test_id_that_is_taken_becomes_the_next_free_one(self, view: View):
        uuid_only = [assert_view_uuid(view.metadata()["view-uuid"])]
        first = view.committed(replacement(sql("select 2"), version_id=2), uuid_only)
        second = view.committed(replacement(sql("select 3"), version_id=2), uuid_only)
        assert first["current-version-id"] == 2
        assert second["current-version-id"] == 3
        assert [version["version-id"] for version in second["versions"]] == [1, 2, 3]
        assert second["versions"][2]["representations"] == [sql("select 3")]

    def test_version_that_behaves_the_same_is_reused(self, view: View):
        view.committed(replacement(sql("select 2")))
        made = view.committed(replacement(sql(), version_id=3))
        assert made["current-version-id"] == 1
        assert [entry["version-id"] for entry in made["version-log"]] == [1, 2, 1]
        assert len(made["versions"]) == 2

    def test_older_version_is_taken_up_again(self, view: View):
        view.committed(replacement(sql("select 2")))
        made = view.committed([set_current_view_version(1)])
        assert made["current-version-id"] == 1
        log = made["version-log"]
        assert [entry["version-id"] for entry in log] == [1, 2, 1]
        assert log[2]["timestamp-ms"] >= log[0]["timestamp-ms"]

    def test_added_version_is_not_current(self, view: View):
        made = view.committed([add_view_version(sql_version(sql("select 2"), version_id=2))])
        assert made["current-version-id"] == 1
        assert [entry["version-id"] for entry in made["version-log"]] == [1]

    def test_minus_one_without_an_added_version_is_refused(self, view: View):
        assert refused(view, set_current_view_version(-1))

    def test_unknown_version_is_refused(self, view: View):
        assert "7" in refused(view, set_current_view_version(7))

    def test_two_queries_of_one_dialect_are_refused(self, view: View):
        message = refused(view, *replacement(sql("a", "spark"), sql("b", "Spark")))
        assert message.startswith("Invalid view version: Cannot add multiple queries for dialect")

    def test_lost_dialect_is_refused_unless_it_is_allowed(self, catalog: Catalog, namespace: Namespace):
        version = sql_version(sql("a", "spark"), sql("b", "trino"))
        view = catalog.create_view(namespace, view_version=version)
        message = refused(view, *replacement(sql("c", "spark")))
        assert "replace.drop-dialect.allowed" in message
        allowed = update("set-properties", updates={"replace.drop-dialect.allowed": "true"})
        made = view.committed([allowed, *replacement(sql("c", "spark"))])
        assert made["current-version-id"] == 2

    def test_history_is_bounded(self, catalog: Catalog, namespace: Namespace):
        view = catalog.create_view(namespace, properties={"version.history.num-entries": "3"})
        for number in range(2, 8):
            made = view.committed(replacement(sql(f"select {number}"), version_id=number))
        assert [version["version-id"] for version in made["versions"]] == [5, 6, 7]
        assert made["current-version-id"] == 7
        assert [entry["version-id"] for entry in made["version-log"]] == [5, 6, 7]

    def test_ten_versions_are_kept_by_default(self, view: View):
        for number in range(2, 14):
            made = view.committed(replacement(sql(f"select {number}"), version_id=number))
        assert [version["version-id"] for version in made["versions"]] == list(range(4, 14))

    @pytest.mark.parametrize("setting", ["0", "-1", "many"])
    def test_bad_history_size_is_refused(self, view: View, setting: str):
        bad = update("set-properties", updates={"version.history.num-entries": setting})
        assert refused(view, bad, *replacement(sql("select 2")))


class TestOtherUpdates:
    def test_properties_add_no_version(self, catalog: Catalog, namespace: Namespace):
        view = catalog.create_view(namespace, properties={"a": "1", "b": "2"})
        made = view.committed([set_properties(b="3", c="4"), remove_properties("a", "never")])
        assert made["properties"] == {"b": "3", "c": "4"}
        assert len(made["versions"]) == len(made["version-log"]) == 1

    def test_location_adds_no_version(
        self, local_catalog: Catalog, local_namespace: Namespace, warehouse_folder
    ):
        view = local_catalog.create_view(local_namespace)
        moved = f"{warehouse_folder.as_uri()}/{unique('moved')}"
        answer = view.commit([set_location(moved)])
        assert answer.json()["metadata"]["location"] == moved
        assert answer.json()["metadata-location"].startswith(f"{moved}/metadata/00001-")
        assert len(answer.json()["metadata"]["versions"]) == 1

    def test_uuid_cannot_be_changed(self, view: View):
        own = view.metadata()["view-uuid"]
        assert view.commit([update("assign-uuid", uuid=own)]).status_code == 200
        assert refused(view, update("assign-uuid", uuid=str(uuid.uuid4())))

    def test_format_version(self, view: View):
        assert view.commit([update("upgrade-format-version", format_version=1)]).status_code == 200
        for version in (0, 2):
            assert refused(view, update("upgrade-format-version", format_version=version))

    @pytest.mark.parametrize("updates", [[], [remove_properties("never")], [set_current_view_version(1)]])
    def test_without_effect_writes_nothing(
        self, local_catalog: Catalog, local_namespace: Namespace, updates: list[Any]
    ):
        view = local_catalog.create_view(local_namespace)
        before, files = view.get(), files_below(view.metadata()["location"])
        assert view.commit(updates).status_code == 200
        assert view.get() == before
        assert files_below(view.metadata()["location"]) == files

    @pytest.mark.parametrize(
        "bad",
        [
            {"action": "fly-to-the-moon"},
            {"action": "add-snapshot", "snapshot": {}},
            {"action": "add-view-version"},
            {"action": "add-view-version", "view-version": []},
            {"action": "set-current-view-version"},
            {"action": "set-current-view-version", "view-version-id": "1"},
            {"action": "set-location"},
            {"action": "set-properties"},
            {},
            None,
            "text",
        ],
        ids=str,
    )
    def test_unknown_or_malformed_update_is_400(self, view: View, bad: Any):
        assert refused(view, set_properties(a="1"), bad)


class TestRequirement:
    def test_uuid_that_holds(self, view: View):
        own = view.metadata()["view-uuid"]
        for spelled in (own, own.upper()):
            assert view.commit([set_properties(a=spelled)], [assert_view_uuid(spelled)]).status_code == 200

    def test_other_uuid_is_409(self, view: View):
        before = view.get()
        other = str(uuid.uuid4())
        answer = view.commit([set_properties(a="1")], [assert_view_uuid(other)])
        message = assert_error(answer, 409, "CommitFailedException")
        assert message.startswith("Requirement failed: view UUID does not match")
        assert other in message
        assert view.get() == before

    def test_requirements_may_be_absent(self, catalog: Catalog, view: View):
        for body in ({}, {"requirements": None}, {"requirements": []}):
            answer = catalog.post(view.path, {"updates": [set_properties(a="1")], **body})
            assert answer.status_code == 200, answer.text

    @pytest.mark.parametrize("bad", [{"type": "assert-create"}, {"type": "assert-view-uuid"}, {}, None])
    def test_unknown_or_malformed_requirement_is_400(self, view: View, bad: Any):
        before = view.get()
        assert_error(view.commit([set_properties(a="1")], [bad]), 400, "BadRequestException")
        assert view.get() == before

    @pytest.mark.parametrize("body", [{"updates": {}}, {"updates": "all"}, []])
    def test_body_of_another_form_is_400(self, catalog: Catalog, view: View, body: Any):
        assert_error(catalog.post(view.path, body), 400, "BadRequestException")


@pytest.mark.parametrize(
    "updates", [[set_properties(a="1")], replacement(sql("x")), [set_location("file:///x")]]
)
def test_dropped_meanwhile_is_404(catalog: Catalog, view: View, updates: list[Any]):
    own = view.metadata()["view-uuid"]
    view.drop()
    answer = view.commit(updates, [assert_view_uuid(own)])
    assert_error(answer, 404, "NoSuchViewException", f"View does not exist: {view.text}")


def test_concurrent_replacements_all_succeed(view: View):
    own = [assert_view_uuid(view.metadata()["view-uuid"])]

    def replace(number: int) -> int:
        return view.commit(replacement(sql(f"select {number}"), version_id=2), own).status_code

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(replace, range(8))) == [200] * 8
    made = view.metadata()
    assert [version["version-id"] for version in made["versions"]] == list(range(1, 10))
    assert [entry["version-id"] for entry in made["version-log"]] == list(range(1, 10))
    texts = {version["representations"][0]["sql"] for version in made["versions"]}
    assert texts == {sql()["sql"], *[f"select {number}" for number in range(8)]}
