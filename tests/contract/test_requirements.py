"""Requirements of commits and the texts of their failures, which clients match on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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
from tests.contract.updates import (
    add_schema,
    add_snapshot,
    add_sort_order,
    add_spec,
    append,
    assert_create,
    assert_current_schema_id,
    assert_default_sort_order_id,
    assert_default_spec_id,
    assert_last_assigned_field_id,
    assert_last_assigned_partition_id,
    assert_ref_snapshot_id,
    assert_table_uuid,
    set_current_schema,
    set_default_sort_order,
    set_default_spec,
    set_properties,
    set_ref,
)

OTHER_UUID = "0198b5f3-3333-7000-8000-000000000000"
TOUCH = [set_properties(touched="yes")]


@pytest.fixture
def evolved(table: Table) -> Table:
    """Schema 1, spec 1, order 1; main at snapshot 5, tag t1 at 5."""
    wider = schema(*ID_AND_DATA["fields"], column(3, "more", "int"), schema_id=1)
    table.committed(
        [
            add_schema(wider),
            set_current_schema(),
            add_spec(spec(spec_field(1, "bucket[4]", "id_bucket"), spec_id=1)),
            set_default_spec(),
            add_sort_order(order(sort_field(1))),
            set_default_sort_order(),
            *append(5, 1),
            set_ref(5, "t1", "tag"),
        ]
    )
    return table


HOLDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "uuid": lambda metadata: assert_table_uuid(metadata["table-uuid"]),
    "uuid in upper case": lambda metadata: assert_table_uuid(metadata["table-uuid"].upper()),
    "branch": lambda _: assert_ref_snapshot_id("main", 5),
    "tag": lambda _: assert_ref_snapshot_id("t1", 5),
    "ref that must not exist": lambda _: assert_ref_snapshot_id("new", None),
    "field id": lambda _: assert_last_assigned_field_id(3),
    "schema": lambda _: assert_current_schema_id(1),
    "partition id": lambda _: assert_last_assigned_partition_id(1000),
    "spec": lambda _: assert_default_spec_id(1),
    "order": lambda _: assert_default_sort_order_id(1),
}

FAILS: dict[str, tuple[Any, str]] = {
    "branch moved": (
        assert_ref_snapshot_id("main", 4),
        "Requirement failed: branch main has changed: expected id 4 != 5",
    ),
    "branch exists": (
        assert_ref_snapshot_id("main", None),
        "Requirement failed: branch main was created concurrently",
    ),
    "tag moved": (
        assert_ref_snapshot_id("t1", 4),
        "Requirement failed: tag t1 has changed: expected id 4 != 5",
    ),
    "tag exists": (assert_ref_snapshot_id("t1", None), "Requirement failed: tag t1 was created concurrently"),
    "ref is missing": (
        assert_ref_snapshot_id("gone", 5),
        "Requirement failed: branch or tag gone is missing, expected 5",
    ),
    "field id": (
        assert_last_assigned_field_id(2),
        "Requirement failed: last assigned field id changed: expected id 2 != 3",
    ),
    "schema": (assert_current_schema_id(0), "Requirement failed: current schema changed: expected id 0 != 1"),
    "partition id": (
        assert_last_assigned_partition_id(999),
        "Requirement failed: last assigned partition id changed: expected id 999 != 1000",
    ),
    "spec": (
        assert_default_spec_id(0),
        "Requirement failed: default partition spec changed: expected id 0 != 1",
    ),
    "order": (
        assert_default_sort_order_id(0),
        "Requirement failed: default sort order changed: expected id 0 != 1",
    ),
    "create": (assert_create(), "Requirement failed: table already exists"),
}


@pytest.mark.parametrize("requirement", HOLDS.values(), ids=HOLDS.keys())
def test_requirement_that_holds(evolved: Table, requirement: Callable[[dict[str, Any]], Any]):
    made = evolved.committed(TOUCH, [requirement(evolved.metadata())])
    assert made["properties"]["touched"] == "yes"


@pytest.mark.parametrize(("requirement", "message"), FAILS.values(), ids=FAILS.keys())
def test_requirement_that_fails_is_409_and_changes_nothing(evolved: Table, requirement: Any, message: str):
    before = evolved.get()
    assert_error(evolved.commit(TOUCH, [requirement]), 409, "CommitFailedException", message)
    assert evolved.get() == before


def test_other_uuid_is_409(evolved: Table):
    actual = evolved.metadata()["table-uuid"]
    message = assert_error(
        evolved.commit(TOUCH, [assert_table_uuid(OTHER_UUID)]), 409, "CommitFailedException"
    )
    assert message.startswith("Requirement failed: UUID does not match: expected ")
    assert actual in message
    assert OTHER_UUID in message


def test_all_requirements_must_hold(evolved: Table):
    holding = [make(evolved.metadata()) for make in HOLDS.values()]
    assert evolved.commit(TOUCH, holding).status_code == 200
    answer = evolved.commit([set_properties(second="1")], [*holding, assert_current_schema_id(0)])
    assert_error(answer, 409, "CommitFailedException", FAILS["schema"][1])
    assert "second" not in evolved.metadata()["properties"]


def test_requirements_are_checked_also_when_nothing_is_updated(evolved: Table):
    answer = evolved.commit([], [assert_current_schema_id(0)])
    assert_error(answer, 409, "CommitFailedException", FAILS["schema"][1])
    assert evolved.commit([], [assert_current_schema_id(1)]).status_code == 200


def test_first_append_requires_that_main_does_not_exist(table: Table):
    # Case O07: a stored -1 is no snapshot.
    none = assert_ref_snapshot_id("main", None)
    assert table.committed(append(1, 1), [none])["current-snapshot-id"] == 1
    answer = table.commit(append(2, 1), [none])
    assert_error(answer, 409, "CommitFailedException", FAILS["branch exists"][1])


def test_absent_snapshot_id_is_the_same_as_null(table: Table):
    requirement = {"type": "assert-ref-snapshot-id", "ref": "main"}
    assert table.committed(append(1, 1), [requirement])["current-snapshot-id"] == 1
    assert table.commit(append(2, 2, 1), [requirement]).status_code == 409


def test_two_parallel_first_appends_have_one_winner(catalog: Catalog, namespace: Namespace):
    none = [assert_ref_snapshot_id("main", None)]
    for _ in range(5):
        table = catalog.create_table(namespace)
        with ThreadPoolExecutor(2) as threads:
            answers = list(
                threads.map(
                    lambda number, table=table: table.commit(append(number, 1), none),  # type: ignore[misc]
                    (1, 2),
                )
            )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        loser = next(answer for answer in answers if answer.status_code == 409)
        assert_error(loser, 409, "CommitFailedException", FAILS["branch exists"][1])
        assert len(table.metadata()["snapshots"]) == 1


def test_stale_base_succeeds_when_its_requirements_still_hold(evolved: Table):
    uuid = evolved.metadata()["table-uuid"]
    more = schema(*ID_AND_DATA["fields"], column(3, "more", "int"), column(4, "x", "int"), schema_id=2)
    # Another writer changed the spec, then the schema, since this one looked.
    evolved.committed([add_spec(spec(spec_field(2, "identity", "data_id"), spec_id=2)), set_default_spec()])
    schema_change = [assert_table_uuid(uuid), assert_current_schema_id(1), assert_last_assigned_field_id(3)]
    assert (
        evolved.committed([add_schema(more), set_current_schema()], schema_change)["current-schema-id"] == 2
    )
    spec_change = [
        assert_table_uuid(uuid),
        assert_default_spec_id(2),
        assert_last_assigned_partition_id(1001),
    ]
    updates = [add_spec(spec(spec_field(1, "truncate[10]", "id_trunc"), spec_id=3)), set_default_spec()]
    assert evolved.committed(updates, spec_change)["default-spec-id"] == 3
    order_change = [assert_table_uuid(uuid), assert_default_sort_order_id(1)]
    updates = [add_sort_order(order(sort_field(2), order_id=2)), set_default_sort_order()]
    assert evolved.committed(updates, order_change)["default-sort-order-id"] == 2


def test_recreated_table_refuses_commits_for_the_old_one(catalog: Catalog, namespace: Namespace):
    old = catalog.create_table(namespace, "t")
    uuid = old.metadata()["table-uuid"]
    old.drop()
    new = catalog.create_table(namespace, "t")
    message = assert_error(new.commit(TOUCH, [assert_table_uuid(uuid)]), 409, "CommitFailedException")
    assert message.startswith("Requirement failed: UUID does not match")
    assert new.metadata() == new.created.json()["metadata"]


def test_appends_to_two_branches_do_not_disturb_each_other(table: Table):
    table.committed(append(1, 1))
    table.committed([set_ref(1, "audit")])
    main = [add_snapshot(snapshot(2, 2, 1)), set_ref(2)]
    audit = [add_snapshot(snapshot(3, 3, 1)), set_ref(3, "audit")]
    table.committed(main, [assert_ref_snapshot_id("main", 1)])
    made = table.committed(audit, [assert_ref_snapshot_id("audit", 1)])
    assert {name: ref["snapshot-id"] for name, ref in made["refs"].items()} == {"main": 2, "audit": 3}
    assert made["current-snapshot-id"] == 2


@pytest.mark.parametrize(
    "requirement",
    [
        {},
        {"type": None},
        {"type": "assert-the-moon"},
        {"type": "assert-table-uuid"},
        {"type": "assert-table-uuid", "uuid": 7},
        {"type": "assert-ref-snapshot-id", "snapshot-id": 1},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": "1"},
        {"type": "assert-current-schema-id"},
        {"type": "assert-current-schema-id", "current-schema-id": "0"},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1.5},
        {"type": "assert-view-uuid", "uuid": OTHER_UUID},
        "assert-create",
        None,
        7,
    ],
)
def test_unknown_or_malformed_requirement_is_400(table: Table, requirement: Any):
    answer = table.commit(TOUCH, [requirement])
    assert_error(answer, 400, "BadRequestException")
    assert "touched" not in table.metadata()["properties"]


def test_unknown_requirement_is_named(table: Table):
    message = assert_error(table.commit(TOUCH, [{"type": "assert-the-moon"}]), 400, "BadRequestException")
    assert "assert-the-moon" in message


@pytest.mark.parametrize(
    "body",
    [
        {"requirements": {}, "updates": {}},
        {"requirements": [], "updates": "all"},
        [],
    ],
)
def test_body_of_another_form_is_400(table: Table, body: Any):
    assert_error(table.catalog.post(table.path, body), 400, "BadRequestException")


def test_identifier_in_the_body_is_no_matter(table: Table):
    body = {
        "identifier": {"namespace": ["catalog", "other"], "name": "other"},
        "requirements": [],
        "updates": TOUCH,
    }
    answer = table.catalog.post(table.path, body)
    assert answer.status_code == 200
    assert table.metadata()["properties"]["touched"] == "yes"
