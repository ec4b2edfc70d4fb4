"""Updates of properties, location, identity, format version and encryption keys; unknown updates."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.contract.answers import assert_error, etag_of
from tests.contract.client import Catalog, Namespace, Table, unique
from tests.contract.documents import schema
from tests.contract.updates import (
    add_schema,
    append,
    remove_properties,
    set_location,
    set_properties,
    set_ref,
    update,
)

KEY = {
    "key-id": "k1",
    "encrypted-key-metadata": "AAEC",
    "encrypted-by-id": "master",
    "properties": {"a": "b"},
}


def refused(table: Table, *updates: Any) -> str:
    """Commits what must be refused; nothing of it may be there afterwards. Returns the message."""
    before = table.get()
    answer = table.commit(updates)
    assert answer.status_code == 400, answer.text
    message = assert_error(answer, 400, answer.json()["error"]["type"])
    assert table.get() == before
    return message


def test_answer_of_a_commit(table: Table):
    answer = table.commit([set_properties(a="1")])
    assert answer.status_code == 200
    assert set(answer.json()) == {"metadata-location", "metadata"}
    loaded = table.catalog.get(table.path)
    assert {key: loaded.json()[key] for key in answer.json()} == answer.json()
    assert etag_of(loaded) == etag_of(answer)


def test_properties_are_set_and_removed(table: Table):
    table.committed([set_properties(a="1", b="2")])
    made = table.committed([set_properties(b="3"), remove_properties("a", "never")])
    assert made["properties"] == {"b": "3", "write.parquet.compression-codec": "zstd"}


def test_property_is_removed_and_set_in_the_order_of_the_updates(table: Table):
    assert table.committed([set_properties(a="1"), remove_properties("a")])["properties"].get("a") is None
    assert table.committed([remove_properties("a"), set_properties(a="2")])["properties"]["a"] == "2"


def test_old_spellings_of_property_updates(table: Table):
    table.committed([{"action": "set-properties", "updated": {"a": "1", "b": "2"}}])
    made = table.committed([{"action": "remove-properties", "removed": ["a"]}])
    assert {key: value for key, value in made["properties"].items() if len(key) == 1} == {"b": "2"}


def test_reserved_properties_are_not_stored(table: Table):
    reserved = {"uuid": "x", "snapshot-count": "1", "current-schema": "{}", "current-snapshot-id": "4"}
    made = table.committed([update("set-properties", updates=reserved | {"kept": "1"})])
    assert not set(reserved) & set(made["properties"])
    assert made["properties"]["kept"] == "1"


def test_location_is_set(local_catalog: Catalog, local_namespace: Namespace, warehouse_folder):
    table = local_catalog.create_table(local_namespace)
    moved = f"{warehouse_folder.as_uri()}/{unique('moved')}"
    answer = table.commit([set_location(moved)])
    assert answer.json()["metadata"]["location"] == moved
    assert answer.json()["metadata-location"].startswith(f"{moved}/metadata/00001-")


def test_uuid_cannot_be_changed(table: Table):
    own = table.metadata()["table-uuid"]
    assert table.commit([update("assign-uuid", uuid=own)]).status_code == 200
    assert refused(table, update("assign-uuid", uuid=str(uuid.uuid4())))
    assert refused(table, update("assign-uuid", uuid="no uuid"))


class TestFormatVersion:
    def test_upgrade_step_by_step(self, catalog: Catalog, namespace: Namespace):
        table = catalog.create_table(namespace, properties={"format-version": "1"})
        table.committed(append(1, None))
        second = table.committed([update("upgrade-format-version", format_version=2)])
        assert (second["format-version"], second["last-sequence-number"]) == (2, 0)
        assert "schema" not in second
        assert "partition-spec" not in second
        table.committed(append(2, 1, 1))
        third = table.committed([update("upgrade-format-version", format_version=3)])
        assert (third["format-version"], third["next-row-id"]) == (3, 0)
        assert [each["snapshot-id"] for each in third["snapshots"]] == [1, 2]
        assert "first-row-id" not in third["snapshots"][0]
        made = table.committed(append(3, 2, 2, first_row_id=0, added_rows=5))
        assert (made["next-row-id"], made["current-snapshot-id"]) == (5, 3)

    def test_upgrade_over_two_versions(self, catalog: Catalog, namespace: Namespace):
        table = catalog.create_table(namespace, properties={"format-version": "1"})
        made = table.committed([update("upgrade-format-version", format_version=3)])
        assert (made["format-version"], made["next-row-id"], made["last-sequence-number"]) == (3, 0, 0)

    def test_equal_version_changes_nothing(self, table: Table):
        before = table.get()
        assert table.commit([update("upgrade-format-version", format_version=2)]).status_code == 200
        assert table.get() == before

    def test_downgrade_is_refused_in_the_words_of_the_reference(self, table: Table):
        message = refused(table, update("upgrade-format-version", format_version=1))
        assert message == "Cannot downgrade v2 table to v1"

    @pytest.mark.parametrize("version", [0, 4, 100, -1])
    def test_unknown_version_is_refused(self, table: Table, version: int):
        assert refused(table, update("upgrade-format-version", format_version=version))


class TestEncryptionKeys:
    @pytest.fixture
    def v3(self, catalog: Catalog, namespace: Namespace) -> Table:
        return catalog.create_table(namespace, properties={"format-version": "3"})

    def test_keys_are_added_and_removed(self, v3: Table):
        made = v3.committed([update("add-encryption-key", encryption_key=KEY)])
        assert made["encryption-keys"] == [KEY]
        other = KEY | {"key-id": "k2"}
        made = v3.committed([update("add-encryption-key", encryption_key=other)])
        assert made["encryption-keys"] == [KEY, other]
        made = v3.committed([update("remove-encryption-key", key_id="k1")])
        assert made["encryption-keys"] == [other]

    def test_key_that_exists_changes_nothing(self, v3: Table):
        v3.committed([update("add-encryption-key", encryption_key=KEY)])
        before = v3.get()
        again = KEY | {"encrypted-key-metadata": "/////w=="}
        assert v3.commit([update("add-encryption-key", encryption_key=again)]).status_code == 200
        assert v3.get() == before

    def test_removing_an_unknown_key_changes_nothing(self, v3: Table):
        before = v3.get()
        assert v3.commit([update("remove-encryption-key", key_id="never")]).status_code == 200
        assert v3.get() == before

    @pytest.mark.parametrize("missing", ["key-id", "encrypted-key-metadata"])
    def test_key_without_a_required_field_is_refused(self, v3: Table, missing: str):
        sent = dict(KEY)
        del sent[missing]
        assert refused(v3, update("add-encryption-key", encryption_key=sent))


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"action": None},
        {"action": "fly-to-the-moon"},
        {"action": "set-properties"},
        {"action": "set-properties", "updates": {"a": 1}},
        {"action": "set-properties", "updates": []},
        {"action": "remove-properties", "removals": "a"},
        {"action": "set-location"},
        {"action": "set-location", "location": None},
        {"action": "add-schema"},
        {"action": "set-current-schema", "schema-id": "0"},
        {"action": "set-current-schema", "schema-id": 2**31},
        {"action": "add-snapshot"},
        {"action": "add-snapshot", "snapshot": []},
        {"action": "remove-snapshots", "snapshot-ids": 1},
        {"action": "remove-snapshots", "snapshot-ids": ["1"]},
        {"action": "set-snapshot-ref", "ref-name": "b", "snapshot-id": 1},
        {"action": "add-view-version", "view-version": {}},
        {"action": "set-current-view-version", "view-version-id": 1},
        "set-location",
        None,
        [],
    ],
    ids=lambda bad: str(bad)[:60],
)
def test_unknown_or_malformed_update_is_400(table: Table, bad: Any):
    assert refused(table, set_properties(touched="1"), bad)


def test_unknown_update_is_named(table: Table):
    assert "fly-to-the-moon" in refused(table, {"action": "fly-to-the-moon"})


def test_unknown_update_is_400_also_for_a_missing_table(catalog: Catalog, namespace: Namespace):
    body = {"requirements": [], "updates": [{"action": "fly-to-the-moon"}]}
    answer = catalog.post(f"{catalog.tables_path(namespace)}/missing", body)
    assert_error(answer, 400, "BadRequestException")


def test_unknown_fields_of_an_update_are_ignored(table: Table):
    answer = table.commit([set_properties(a="1") | {"added-in-2030": True}])
    assert answer.json()["metadata"]["properties"]["a"] == "1"


def test_commit_to_a_missing_table_is_404(catalog: Catalog, namespace: Namespace):
    body = {"requirements": [], "updates": [set_properties(a="1")]}
    answer = catalog.post(f"{catalog.tables_path(namespace)}/missing", body)
    assert_error(answer, 404, "NoSuchTableException", f"Table does not exist: {namespace[0]}.missing")
    answer = catalog.post(f"{catalog.tables_path((*namespace, 'none'))}/missing", body)
    assert_error(answer, 404, "NoSuchTableException", f"Table does not exist: {namespace[0]}.none.missing")


def test_commit_to_a_view_is_404(catalog: Catalog, namespace: Namespace):
    view = catalog.create_view(namespace)
    body = {"requirements": [], "updates": [set_properties(a="1")]}
    answer = catalog.post(f"{catalog.tables_path(namespace)}/{view.name}", body)
    assert_error(answer, 404, "NoSuchTableException", f"Table does not exist: {view.text}")


NOTHING: dict[str, Any] = {
    "no updates": [],
    "properties as they are": [update("set-properties", updates={"write.parquet.compression-codec": "zstd"})],
    "no properties": [update("set-properties", updates={}), remove_properties()],
    "unknown properties": [remove_properties("never")],
    "the schema it has": [add_schema(schema())],
    "the ref it has": [set_ref(1)],
    "no snapshots": [update("remove-snapshots", snapshot_ids=[])],
}


@pytest.mark.parametrize("updates", NOTHING.values(), ids=NOTHING.keys())
def test_commit_without_effect_writes_nothing(table: Table, updates: list[Any]):
    if updates and updates[0]["action"] == "add-schema":
        updates = [add_schema(table.metadata()["schemas"][0])]
    table.committed(append(1, 1))
    before = table.get()
    answer = table.commit(updates)
    assert answer.status_code == 200
    assert answer.json()["metadata-location"] == before["metadata-location"]
    assert table.get() == before
