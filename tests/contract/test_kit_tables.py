"""What `CatalogTests` of Iceberg's compatibility kit asserts on tables beyond the other files of this suite.

`docs/development/contract.md` tells for each test of the kit where it is held. Requests are those that a
client sends.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table
from tests.contract.documents import (
    ID_AND_DATA,
    column,
    order,
    schema,
    snapshot,
    sort_field,
    spec,
    spec_field,
)
from tests.contract.files import path_of
from tests.contract.updates import (
    add_schema,
    add_snapshot,
    add_sort_order,
    add_spec,
    append,
    assert_create,
    assert_last_assigned_field_id,
    assert_last_assigned_partition_id,
    assert_table_uuid,
    creation,
    remove_snapshot_ref,
    remove_snapshots,
    set_current_schema,
    set_default_sort_order,
    set_default_spec,
    set_location,
    set_properties,
    set_ref,
    update,
)

ID, DATA = ID_AND_DATA["fields"]
OTHER = schema(ID, column(3, "category", "string"))
"""`data` is gone, `category` is new: fresh ids go on from the last column id."""
BUCKETED = spec(spec_field(1, "bucket[16]", "id_bucket"))
SHARDED = spec(spec_field(1, "bucket[16]", "shard"))
SORTED = order(sort_field(1))
SORTED_DOWN = order(sort_field(1, descending=True))


class Replacement:
    """What a client sends for a replace transaction that it began on the present state of a table.

    A replace asserts the uuid and the ids that it has assigned itself, and nothing about what it replaces.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        base = table.metadata()
        self.last_sequence_number = base.get("last-sequence-number", 0)
        self.last_column_id = base["last-column-id"]
        self.last_partition_id = base["last-partition-id"]
        self.requirements: list[Any] = [assert_table_uuid(base["table-uuid"])]
        self.updates: list[Any] = [remove_snapshot_ref("main")]

    def schema(self, made: Any) -> Replacement:
        self.requirements.append(assert_last_assigned_field_id(self.last_column_id))
        self.updates += [add_schema(made), set_current_schema()]
        return self

    def spec(self, made: Any) -> Replacement:
        self.requirements.append(assert_last_assigned_partition_id(self.last_partition_id))
        self.updates += [add_spec(made), set_default_spec()]
        return self

    def order(self, made: Any) -> Replacement:
        self.updates += [add_sort_order(made), set_default_sort_order()]
        return self

    def also(self, *updates: Any) -> Replacement:
        self.updates += updates
        return self

    def append(self, snapshot_id: int, sequence_number: int | None = None, **more: Any) -> Replacement:
        number = self.last_sequence_number + 1 if sequence_number is None else sequence_number
        return self.also(*append(snapshot_id, number, **more))

    def send(self) -> httpx.Response:
        return self.table.commit(self.updates, self.requirements)

    def made(self) -> Any:
        answer = self.send()
        assert answer.status_code == 200, answer.text
        return answer.json()["metadata"]


@pytest.fixture
def filled(table: Table) -> Table:
    """A table with one snapshot."""
    table.committed(append(1, 1))
    return table


class TestReplace:
    def test_identity_stays_and_the_log_of_metadata_grows_by_one(self, filled: Table):
        before = filled.get()
        made = Replacement(filled).made()
        assert made["table-uuid"] == before["metadata"]["table-uuid"]
        assert made.get("current-snapshot-id", -1) in (-1, None)
        assert made["snapshots"] == before["metadata"]["snapshots"]
        log = made["metadata-log"]
        assert log[:-1] == before["metadata"]["metadata-log"]
        assert log[-1]["metadata-file"] == before["metadata-location"]

    def test_everything_is_replaced_and_old_snapshots_stay(
        self, local_catalog: Catalog, local_namespace: Namespace, warehouse_folder
    ):
        table = local_catalog.create_table(local_namespace, properties={"kept": "1", "changed": "1"})
        table.committed(append(1, 1))
        location = f"{warehouse_folder.as_uri()}/{local_namespace[0]}/replaced"
        replacement = Replacement(table).schema(OTHER).spec(BUCKETED).order(SORTED)
        replacement.also(set_location(location), set_properties(changed="2", added="2"))
        made = replacement.append(2, schema_id=1).made()
        assert made["current-schema-id"] == 1
        assert [(field["name"], field["id"]) for field in made["schemas"][1]["fields"]] == [
            ("id", 1),
            ("category", 3),
        ]
        assert (made["last-column-id"], made["default-spec-id"], made["default-sort-order-id"]) == (3, 1, 1)
        assert made["location"] == location
        assert {key: made["properties"][key] for key in ("kept", "changed", "added")} == {
            "kept": "1",
            "changed": "2",
            "added": "2",
        }
        assert [each["snapshot-id"] for each in made["snapshots"]] == [1, 2]
        assert "parent-snapshot-id" not in made["snapshots"][1]
        assert made["current-snapshot-id"] == 2
        assert table.get()["metadata-location"].startswith(f"{location}/metadata/")

    def test_snapshot_log_is_kept(self, filled: Table):
        made = Replacement(filled).append(2).made()
        assert [entry["snapshot-id"] for entry in made["snapshot-log"]] == [1, 2]

    def test_table_must_exist(self, catalog: Catalog, namespace: Namespace, filled: Table):
        replacement = Replacement(filled).append(2)
        filled.drop()
        message = f"Table does not exist: {filled.text}"
        assert_error(catalog.get(filled.path), 404, "NoSuchTableException", message)
        assert_error(replacement.send(), 404, "NoSuchTableException", message)
        assert catalog.names(catalog.tables_path(namespace)) == []

    def test_another_table_of_that_name_is_not_replaced(
        self, catalog: Catalog, namespace: Namespace, filled: Table
    ):
        replacement = Replacement(filled).append(2)
        filled.drop()
        again = catalog.create_table(namespace, filled.name)
        before = again.get()
        message = assert_error(replacement.send(), 409, "CommitFailedException")
        assert message.startswith("Requirement failed: UUID does not match")
        assert again.get() == before

    def test_format_version_goes_up_with_a_replace(self, catalog: Catalog, namespace: Namespace):
        table = catalog.create_table(namespace, properties={"format-version": "1"})
        replacement = Replacement(table).also(update("upgrade-format-version", format_version=2)).append(1, 1)
        made = replacement.made()
        assert (made["format-version"], made["last-sequence-number"]) == (2, 1)


class TestConcurrentReplaces:
    """Two transactions that began on one state; the other one is first."""

    def test_last_one_wins(self, filled: Table):
        late, early = Replacement(filled), Replacement(filled)
        assert early.append(2).made()["current-snapshot-id"] == 2
        # Its sequence number is taken, which is no fault of a snapshot that has no parent.
        made = late.append(3).made()
        assert made["current-snapshot-id"] == 3
        assert [each["snapshot-id"] for each in made["snapshots"]] == [1, 2, 3]
        assert made["last-sequence-number"] == 2

    def test_a_replace_without_a_snapshot_needs_no_second_try(self, filled: Table):
        late, early = Replacement(filled).also(set_properties(by="late")), Replacement(filled)
        early.append(2).made()
        made = late.made()
        assert made.get("current-snapshot-id", -1) in (-1, None)
        assert made["properties"]["by"] == "late"

    def test_schema_of_the_first_one_is_replaced_again(self, filled: Table):
        late, early = Replacement(filled), Replacement(filled).schema(OTHER)
        assert early.made()["current-schema-id"] == 1
        assert late.also(set_current_schema(0)).made()["current-schema-id"] == 0

    def test_schema_of_the_last_one_wins(self, filled: Table):
        late, early = Replacement(filled).schema(OTHER), Replacement(filled)
        assert early.also(set_current_schema(0)).made()["current-schema-id"] == 0
        made = late.made()
        assert made["current-schema-id"] == 1
        assert [field["id"] for field in made["schemas"][1]["fields"]] == [1, 3]

    def test_two_new_columns_conflict(self, filled: Table):
        late, early = Replacement(filled).schema(OTHER), Replacement(filled)
        early.schema(schema(ID, column(3, "another", "int"))).made()
        before = filled.get()
        message = assert_error(late.send(), 409, "CommitFailedException")
        assert message.startswith("Requirement failed: last assigned field id changed")
        assert filled.get() == before

    def test_spec_of_the_first_one_is_replaced_again(self, filled: Table):
        late, early = Replacement(filled), Replacement(filled).spec(BUCKETED)
        assert early.made()["default-spec-id"] == 1
        assert late.also(set_default_spec(0)).made()["default-spec-id"] == 0

    def test_spec_of_the_last_one_wins(self, filled: Table):
        late, early = Replacement(filled).spec(BUCKETED), Replacement(filled)
        assert early.also(set_default_spec(0)).made()["default-spec-id"] == 0
        assert late.made()["default-spec-id"] == 1

    def test_two_new_partition_fields_conflict(self, filled: Table):
        late, early = Replacement(filled).spec(BUCKETED), Replacement(filled).spec(SHARDED)
        early.made()
        before = filled.get()
        message = assert_error(late.send(), 409, "CommitFailedException")
        assert message.startswith("Requirement failed: last assigned partition id changed")
        assert filled.get() == before

    def test_sort_order_of_the_first_one_is_replaced_again(self, filled: Table):
        late, early = Replacement(filled), Replacement(filled).order(SORTED)
        assert early.made()["default-sort-order-id"] == 1
        assert late.also(set_default_sort_order(0)).made()["default-sort-order-id"] == 0

    def test_two_new_sort_orders_do_not_conflict(self, filled: Table):
        late, early = Replacement(filled).order(SORTED), Replacement(filled).order(SORTED_DOWN)
        assert early.made()["default-sort-order-id"] == 1
        made = late.made()
        assert made["default-sort-order-id"] == 2
        assert [len(each["fields"]) for each in made["sort-orders"]] == [0, 1, 1]


def _staged(catalog: Catalog, namespace: Namespace, name: str) -> Any:
    request = {"name": name, "schema": ID_AND_DATA, "stage-create": True}
    answer = catalog.post(catalog.tables_path(namespace), request)
    assert answer.status_code == 200, answer.text
    return answer.json()["metadata"]


def _completed(
    catalog: Catalog, namespace: Namespace, name: str, staged: Any, *updates: Any
) -> httpx.Response:
    """The commit of a create transaction: everything that was staged, and what came after."""
    identity = [update("assign-uuid", uuid=staged["table-uuid"]), set_location(staged["location"])]
    parts = creation(staged["schemas"][0], staged["partition-specs"][0], staged["sort-orders"][0], *updates)
    body = {"requirements": [assert_create()], "updates": [*identity, *parts]}
    return catalog.post(f"{catalog.tables_path(namespace)}/{name}", body)


class TestCreateOrReplace:
    @pytest.mark.parametrize("version", [1, 2, 3])
    def test_missing_table_is_created_with_the_version_of_the_transaction(
        self, catalog: Catalog, namespace: Namespace, version: int
    ):
        up = update("upgrade-format-version", format_version=version)
        rows = {"first_row_id": 0, "added_rows": 0} if version == 3 else {}
        sequence_number = 1 if version > 1 else None
        staged = _staged(catalog, namespace, "t")
        assert catalog.names(catalog.tables_path(namespace)) == []
        answer = _completed(catalog, namespace, "t", staged, up, *append(1, sequence_number, **rows))
        assert answer.status_code == 200, answer.text
        made = answer.json()["metadata"]
        assert made["format-version"] == version
        assert "format-version" not in made["properties"]
        assert made["metadata-log"] == []
        assert made["current-snapshot-id"] == 1
        assert made.get("last-sequence-number", 0) == (sequence_number or 0)

    def test_table_created_meanwhile_is_a_conflict(self, catalog: Catalog, namespace: Namespace):
        staged = _staged(catalog, namespace, "t")
        table = catalog.create_table(namespace, "t")
        before = table.get()
        late = _completed(catalog, namespace, "t", staged)
        message = assert_error(late, 409, "CommitFailedException")
        assert message.startswith("Requirement failed: table already exists")
        assert table.get() == before

    def test_existing_table_is_replaced(self, catalog: Catalog, namespace: Namespace, filled: Table):
        made = Replacement(filled).schema(OTHER).append(2, schema_id=1).made()
        assert (made["current-schema-id"], made["current-snapshot-id"]) == (1, 2)
        assert catalog.names(catalog.tables_path(namespace)) == [filled.name]


class TestUnused:
    """`expireSnapshots().cleanExpiredMetadata(true)`: one commit drops snapshots with what only they used."""

    @pytest.mark.parametrize("on_branch", [False, True])
    def test_specs(self, table: Table, on_branch: bool):
        table.committed([add_spec(BUCKETED), set_default_spec()])
        table.committed([add_spec(spec(spec_field(2, "truncate[4]", "prefix"))), set_default_spec()])
        table.committed([set_default_spec(0), *append(1, 1)])
        if on_branch:
            table.committed([add_snapshot(snapshot(2, 2, 1)), set_ref(2, "audit")])
        unused = [2] if on_branch else [1, 2]
        made = table.committed([update("remove-partition-specs", spec_ids=unused)])
        left = [0, 1] if on_branch else [0]
        assert [each["spec-id"] for each in made["partition-specs"]] == left
        assert made["default-spec-id"] == 0
        # Ids of dropped fields are not given to others.
        assert made["last-partition-id"] == 1001

    @pytest.mark.parametrize("on_branch", [False, True])
    def test_schemas(self, table: Table, on_branch: bool):
        table.committed(append(1, 1))
        table.committed([add_schema(schema(ID, DATA, column(3, "a", "int"))), set_current_schema()])
        table.committed([*append(2, 2, 1, schema_id=1)])
        if on_branch:
            table.committed([set_ref(1, "audit")])
        latest = schema(ID, DATA, column(3, "a", "int"), column(4, "b", "int"))
        table.committed([add_schema(latest), set_current_schema()])
        table.committed(append(3, 3, 2, schema_id=2))
        expired, unused = ([2], [1]) if on_branch else ([1, 2], [0, 1])
        made = table.committed([remove_snapshots(*expired), update("remove-schemas", schema_ids=unused)])
        left = [each["schema-id"] for each in made["schemas"]]
        assert left == ([0, 2] if on_branch else [2])
        assert {each["schema-id"] for each in made["snapshots"]} <= set(left)
        assert (made["current-schema-id"], made["last-column-id"]) == (2, 4)


@pytest.mark.parametrize("name", ["ta.ble", "ta/ble", "ns.tbl", "/", "a..b", "a%2Fb"])
def test_table_whose_name_has_a_dot_or_slash(catalog: Catalog, namespace: Namespace, name: str):
    table = catalog.create_table(namespace, name)
    body = table.get()
    assert catalog.names(catalog.tables_path(namespace)) == [name]
    assert table.committed(append(1, 1))["current-snapshot-id"] == 1
    table.drop()
    assert not table.exists()
    request = {"name": name, "metadata-location": body["metadata-location"]}
    assert catalog.post(f"{catalog.namespace_path(namespace)}/register", request).json() == body
    moved = {"source": table.identifier, "destination": table.identifier | {"name": f"{name}2"}}
    assert catalog.post("/tables/rename", moved).status_code == 204
    assert catalog.names(catalog.tables_path(namespace)) == [f"{name}2"]


@pytest.mark.parametrize("level", ["new.db", "new/db", "new%2Fdb"])
def test_namespace_whose_name_has_a_dot_or_slash(catalog: Catalog, namespace: Namespace, level: str):
    name = catalog.create_namespace((*namespace, level), {"k": "v"})
    assert catalog.children(namespace) == [name]
    assert catalog.get(catalog.namespace_path(name)).json()["properties"]["k"] == "v"
    table = catalog.create_table(name, "t")
    assert table.get() == table.created.json()
    table.drop()
    assert catalog.delete(catalog.namespace_path(name)).status_code == 204
    assert catalog.children(namespace) == []


def test_tables_of_nested_namespaces_are_those_of_one_level(catalog: Catalog, namespace: Namespace):
    inner = catalog.create_namespace((*namespace, "inner"))
    outer_table, inner_table = catalog.create_table(namespace, "t"), catalog.create_table(inner, "t")
    for table in (outer_table, inner_table):
        listed = catalog.get(catalog.tables_path(table.namespace)).json()["identifiers"]
        assert listed == [table.identifier]
    inner_table.drop()
    assert outer_table.get() == outer_table.created.json()
    assert catalog.names(catalog.tables_path(inner)) == []


def test_listings_follow_creates_renames_and_drops_at_once(catalog: Catalog, namespace: Namespace):
    other = catalog.create_namespace((*namespace, "other"))
    paths = [catalog.tables_path(name) for name in (namespace, other)]

    def listed() -> list[list[str]]:
        return [catalog.names(path) for path in paths]

    assert listed() == [[], []]
    one, two = catalog.create_table(namespace, "one"), catalog.create_table(other, "two")
    catalog.create_table(namespace, "three")
    assert listed() == [["one", "three"], ["two"]]
    moved = {"source": one.identifier, "destination": two.identifier | {"name": "one"}}
    assert catalog.post("/tables/rename", moved).status_code == 204
    assert listed() == [["three"], ["one", "two"]]
    two.drop()
    assert listed() == [["three"], ["one"]]


def test_drop_without_purge_keeps_the_metadata_file(local_table: Table):
    location = local_table.get()["metadata-location"]
    local_table.drop()
    assert path_of(location).is_file()


def test_conflicting_commit_leaves_the_table_of_the_winner(filled: Table):
    uuid = [assert_table_uuid(filled.metadata()["table-uuid"])]
    winner = filled.committed([add_schema(OTHER), set_current_schema()], uuid)
    loser = filled.commit(
        [add_schema(schema(ID, column(3, "late", "int"))), set_current_schema()],
        [*uuid, assert_last_assigned_field_id(2)],
    )
    assert_error(
        loser,
        409,
        "CommitFailedException",
        "Requirement failed: last assigned field id changed: expected id 2 != 3",
    )
    assert filled.metadata() == winner
