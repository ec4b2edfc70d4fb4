"""`commitTransaction`: all or nothing."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table
from tests.contract.documents import ID_AND_DATA, order, spec
from tests.contract.files import files_below
from tests.contract.updates import (
    append,
    assert_create,
    assert_current_schema_id,
    assert_ref_snapshot_id,
    assert_table_uuid,
    creation,
    set_properties,
    set_ref,
)


def change(table: Table, updates: list[Any], requirements: list[Any] | None = None) -> dict[str, Any]:
    return {"identifier": table.identifier, "requirements": requirements or [], "updates": updates}


def transact(catalog: Catalog, *changes: dict[str, Any], **options: Any) -> httpx.Response:
    return catalog.post("/transactions/commit", {"table-changes": list(changes)}, **options)


def absent(catalog: Catalog, namespace: Namespace, name: str) -> Table:
    return Table(catalog, namespace, name, httpx.Response(404))


@pytest.fixture
def pair(catalog: Catalog, namespace: Namespace) -> tuple[Table, Table]:
    other = catalog.create_namespace((*namespace, "other"))
    return catalog.create_table(namespace, "one"), catalog.create_table(other, "two")


CREATION = creation(ID_AND_DATA, spec(), order(order_id=0))


def test_one_table(catalog: Catalog, table: Table):
    answer = transact(catalog, change(table, append(1, 1), [assert_ref_snapshot_id("main", None)]))
    assert (answer.status_code, answer.content) == (204, b"")
    assert table.metadata()["current-snapshot-id"] == 1


def test_tables_of_several_namespaces(catalog: Catalog, pair: tuple[Table, Table]):
    one, two = pair
    answer = transact(
        catalog,
        change(one, append(1, 1), [assert_table_uuid(one.metadata()["table-uuid"])]),
        change(two, [set_properties(a="1")], [assert_current_schema_id(0)]),
    )
    assert (answer.status_code, answer.content) == (204, b"")
    assert one.metadata()["current-snapshot-id"] == 1
    assert two.metadata()["properties"]["a"] == "1"
    assert len(one.metadata()["metadata-log"]) == len(two.metadata()["metadata-log"]) == 1


@pytest.mark.parametrize("failing", [0, 1])
def test_requirement_of_one_fails_and_none_is_touched(
    catalog: Catalog, pair: tuple[Table, Table], failing: int
):
    before = [table.get() for table in pair]
    changes = [change(table, append(1, 1)) for table in pair]
    changes[failing]["requirements"] = [assert_current_schema_id(1)]
    message = "Requirement failed: current schema changed: expected id 1 != 0"
    assert_error(transact(catalog, *changes), 409, "CommitFailedException", message)
    assert [table.get() for table in pair] == before


@pytest.mark.parametrize("failing", [0, 1])
def test_update_of_one_is_invalid_and_none_is_touched(
    catalog: Catalog, pair: tuple[Table, Table], failing: int
):
    before = [table.get() for table in pair]
    changes = [change(table, append(1, 1)) for table in pair]
    changes[failing]["updates"] = [set_ref(99)]
    answer = transact(catalog, *changes)
    assert answer.status_code == 400
    assert assert_error(answer, 400, answer.json()["error"]["type"])
    assert [table.get() for table in pair] == before


@pytest.mark.parametrize("failing", [0, 1])
def test_unknown_table_is_404_and_none_is_touched(catalog: Catalog, pair: tuple[Table, Table], failing: int):
    before = [table.get() for table in pair]
    changes = [change(table, append(1, 1)) for table in pair]
    changes[failing]["identifier"] = {"namespace": list(pair[0].namespace), "name": "none"}
    message = f"Table does not exist: {pair[0].namespace[0]}.none"
    assert_error(transact(catalog, *changes), 404, "NoSuchTableException", message)
    assert [table.get() for table in pair] == before


def test_failed_transaction_leaves_no_file(local_catalog: Catalog, local_namespace: Namespace):
    tables = [local_catalog.create_table(local_namespace) for _ in range(3)]
    before = [files_below(table.metadata()["location"]) for table in tables]
    changes = [change(table, append(1, 1)) for table in tables]
    changes[2]["requirements"] = [assert_current_schema_id(1)]
    assert transact(local_catalog, *changes).status_code == 409
    assert [files_below(table.metadata()["location"]) for table in tables] == before


def test_view_among_the_tables_is_404(catalog: Catalog, namespace: Namespace, table: Table):
    view = catalog.create_view(namespace)
    before = table.get()
    answer = transact(
        catalog,
        change(table, append(1, 1)),
        {"identifier": view.identifier, "requirements": [], "updates": [set_properties(a="1")]},
    )
    assert_error(answer, 404, "NoSuchTableException", f"Table does not exist: {view.text}")
    assert table.get() == before


def test_one_table_twice_is_400(catalog: Catalog, table: Table):
    before = table.get()
    answer = transact(catalog, change(table, append(1, 1)), change(table, [set_properties(a="1")]))
    message = assert_error(answer, 400, "BadRequestException")
    assert table.text in message
    assert table.get() == before


class TestCreates:
    def test_create_beside_a_change(self, catalog: Catalog, namespace: Namespace, table: Table):
        made = absent(catalog, namespace, "made")
        answer = transact(
            catalog,
            change(made, [*CREATION, *append(5, 1)], [assert_create()]),
            change(table, append(1, 1)),
        )
        assert (answer.status_code, answer.content) == (204, b"")
        metadata = made.metadata()
        assert (metadata["current-snapshot-id"], metadata["metadata-log"]) == (5, [])
        assert table.metadata()["current-snapshot-id"] == 1

    def test_two_creates(self, catalog: Catalog, namespace: Namespace):
        tables = [absent(catalog, namespace, name) for name in ("x", "y")]
        assert transact(catalog, *[change(t, CREATION, [assert_create()]) for t in tables]).status_code == 204
        uuids = {table.metadata()["table-uuid"] for table in tables}
        locations = {table.metadata()["location"] for table in tables}
        assert (len(uuids), len(locations)) == (2, 2)

    def test_failing_change_prevents_the_create(self, catalog: Catalog, namespace: Namespace, table: Table):
        made = absent(catalog, namespace, "made")
        answer = transact(
            catalog,
            change(made, CREATION, [assert_create()]),
            change(table, append(1, 1), [assert_current_schema_id(1)]),
        )
        assert answer.status_code == 409
        assert not made.exists()
        assert catalog.names(catalog.tables_path(namespace)) == [table.name]

    def test_create_of_an_existing_table_prevents_the_change(
        self, catalog: Catalog, namespace: Namespace, table: Table
    ):
        other = catalog.create_table(namespace)
        before = table.get(), other.get()
        answer = transact(catalog, change(table, append(1, 1)), change(other, CREATION, [assert_create()]))
        assert_error(answer, 409, "CommitFailedException", "Requirement failed: table already exists")
        assert (table.get(), other.get()) == before

    def test_create_over_a_view_is_409(self, catalog: Catalog, namespace: Namespace):
        view = catalog.create_view(namespace)
        answer = transact(
            catalog,
            {"identifier": view.identifier, "requirements": [assert_create()], "updates": CREATION},
        )
        message = f"View with same name already exists: {view.text}"
        assert_error(answer, 409, "AlreadyExistsException", message)

    def test_create_in_a_missing_namespace_is_404(self, catalog: Catalog, namespace: Namespace, table: Table):
        before = table.get()
        made = absent(catalog, (*namespace, "none"), "made")
        answer = transact(catalog, change(table, append(1, 1)), change(made, CREATION, [assert_create()]))
        message = f"Namespace does not exist: {namespace[0]}.none"
        assert_error(answer, 404, "NoSuchNamespaceException", message)
        assert table.get() == before


def test_table_without_effect_is_not_written(catalog: Catalog, pair: tuple[Table, Table]):
    one, two = pair
    before = one.get()
    assert transact(catalog, change(one, []), change(two, append(1, 1))).status_code == 204
    assert one.get() == before
    assert two.metadata()["current-snapshot-id"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"table-changes": None},
        {"table-changes": []},
        {"table-changes": {}},
        {"table-changes": [{}]},
        {"table-changes": [{"requirements": [], "updates": []}]},
        {"table-changes": [{"identifier": "a.b", "requirements": [], "updates": []}]},
        {
            "table-changes": [
                {
                    "identifier": {"namespace": ["a"], "name": "b"},
                    "requirements": [],
                    "updates": [{"action": "x"}],
                }
            ]
        },
    ],
)
def test_malformed_body_is_400(catalog: Catalog, body: dict[str, Any]):
    assert_error(catalog.post("/transactions/commit", body), 400, "BadRequestException")


def test_replay_with_one_key_has_one_effect(catalog: Catalog, pair: tuple[Table, Table]):
    headers = {"idempotency-key": str(uuid.uuid4())}
    changes = [change(table, append(1, 1), [assert_ref_snapshot_id("main", None)]) for table in pair]
    for _ in range(3):
        answer = transact(catalog, *changes, headers=headers)
        assert (answer.status_code, answer.content) == (204, b"")
    assert [len(table.metadata()["metadata-log"]) for table in pair] == [1, 1]


def test_crossing_transactions_never_mix(catalog: Catalog, namespace: Namespace):
    tables = [catalog.create_table(namespace, name) for name in "ab"]

    def run(number: int) -> int:
        ordered = tables if number % 2 else tables[::-1]
        changes = [change(table, [set_properties(writer=str(number))]) for table in ordered]
        return transact(catalog, *changes).status_code

    with ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(run, range(24)))
    assert statuses == [204] * 24
    writers = {table.metadata()["properties"]["writer"] for table in tables}
    assert len(writers) == 1
    assert [len(table.metadata()["metadata-log"]) for table in tables] == [24, 24]


def test_fifty_tables_at_once(catalog: Catalog, namespace: Namespace):
    tables = [catalog.create_table(namespace, f"t{number}") for number in range(50)]
    assert transact(catalog, *[change(table, append(1, 1)) for table in tables]).status_code == 204
    assert all(table.metadata()["current-snapshot-id"] == 1 for table in tables)
