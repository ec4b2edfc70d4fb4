"""Changes after which a client could not read the table or view any more: 400, and nothing has changed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table, unique
from tests.contract.documents import (
    ID_AND_DATA,
    column,
    order,
    schema,
    snapshot,
    sort_field,
    spec,
    sql,
    sql_version,
    statistics,
)
from tests.contract.files import write_metadata
from tests.contract.updates import (
    add_schema,
    add_snapshot,
    add_sort_order,
    add_spec,
    add_view_version,
    set_current_schema,
    set_current_view_version,
    set_default_spec,
    set_properties,
    set_ref,
    update,
)

HUGE = 10**1500
LAST_ID = 2**31 - 1


def _key(**parts: Any) -> dict[str, Any]:
    key = {"key-id": "k", "encrypted-key-metadata": "AAEC"} | parts
    return update("add-encryption-key", encryption_key=key)


def _snapshot(**parts: Any) -> dict[str, Any]:
    made = snapshot(1, 1) | {name.replace("_", "-"): value for name, value in parts.items()}
    return add_snapshot({name: value for name, value in made.items() if value is not ...})


def _statistics(**parts: Any) -> dict[str, Any]:
    made = statistics(1)
    blob = {"type": "t", "snapshot-id": 1, "sequence-number": 1, "fields": [1]} | parts
    return update("set-statistics", statistics=made | {"blob-metadata": [blob]})


def _defaulted(kind: str, value: object) -> list[dict[str, Any]]:
    columns = [*ID_AND_DATA["fields"], column(3, "c", kind, write_default=value)]
    return [add_schema(schema(*columns)), set_current_schema()]


_BUCKET = {"name": "b", "transform": "bucket[4]"}
_SORTED = {"transform": "identity", "direction": "asc", "null-order": "nulls-first"}

UNREADABLE: dict[str, list[dict[str, Any]]] = {
    "key that is no base64": [_key(**{"encrypted-key-metadata": "!!"})],
    "key with null properties": [_key(properties=None)],
    "blob with null properties": [_statistics(properties=None)],
    "blob with a field beyond 32 bits": [_statistics(fields=[LAST_ID + 1])],
    "huge number in a snapshot": [_snapshot(later=HUGE)],
    "manifests without a list": [_snapshot(manifest_list=..., manifests=["file:///m.avro"])],
    "empty operation": [_snapshot(summary={"operation": ""})],
    "unknown operation": [_snapshot(summary={"operation": "merge"})],
    "spec of several columns": [add_spec(spec(_BUCKET | {"source-ids": [1, 2]}))],
    "order of several columns": [add_sort_order(order(_SORTED | {"source-ids": [1, 2]}))],
    "decimal without digits": [add_schema(schema(column(1, "d", "decimal(0, 0)"))), set_current_schema()],
    "huge number in a schema": [add_schema(schema(column(1, "id", later=HUGE))), set_current_schema()],
    "decimal with a blank": _defaulted("decimal(9, 2)", " 1.00"),
    "uuid with odd dashes": _defaulted("uuid", "f79c3e09677c4bbda4793f349cb785e7----"),
    "zone that is not +00:00": _defaulted("timestamptz", "2020-01-01T00:00:00Z"),
    "nanoseconds in microseconds": _defaulted("timestamp", "2020-01-01T00:00:00.123456789"),
    "five digits of a year": _defaulted("date", "+12345-01-01"),
    "partition field id that has no next": [
        add_spec(spec(_BUCKET | {"source-id": 1, "field-id": LAST_ID})),
        add_spec(spec({"name": "c", "transform": "bucket[8]", "source-id": 1})),
    ],
}


@pytest.mark.parametrize("updates", UNREADABLE.values(), ids=UNREADABLE.keys())
@pytest.mark.parametrize("how", ["commit", "transaction"])
def test_update_is_400_and_changes_nothing(
    catalog: Catalog, namespace: Namespace, how: str, updates: list[dict[str, Any]]
) -> None:
    table = catalog.create_table(namespace, properties={"format-version": "2"})
    before = table.get()
    sent = [set_properties(a="b"), *updates]
    if how == "commit":
        answer = table.commit(sent)
    else:
        change = {"identifier": table.identifier, "requirements": [], "updates": sent}
        answer = catalog.post("/transactions/commit", {"table-changes": [change]})
    assert_error(answer, 400, "IllegalArgumentException")
    assert table.get() == before
    table.committed([set_properties(a="c")])


@pytest.mark.parametrize("stage", [False, True])
@pytest.mark.parametrize(
    "parts",
    [
        {"schema": schema(column(1, "d", "decimal(0, 0)"))},
        {"schema": schema(column(1, "id", later=HUGE))},
        {"partition-spec": spec(_BUCKET | {"source-ids": [1, 2]})},
        {"write-order": order(_SORTED | {"source-ids": [1, 2]})},
    ],
)
def test_create_is_400(catalog: Catalog, namespace: Namespace, stage: bool, parts: dict[str, Any]) -> None:
    body = {"name": "t", "schema": ID_AND_DATA, "stage-create": stage, **parts}
    assert_error(catalog.post(catalog.tables_path(namespace), body), 400, "IllegalArgumentException")
    assert catalog.names(catalog.tables_path(namespace)) == []


def test_types_and_sources_are_written_as_all_clients_read_them(catalog: Catalog, namespace: Namespace):
    columns = [column(1, "a", "DECIMAL(9 , 2)"), column(2, "b", "fixed[ 7 ]"), column(3, "c", "LONG")]
    bucket = _BUCKET | {"name": "part", "source-ids": [1], "field-id": 1000}
    table = catalog.create_table(
        namespace,
        schema=schema(*columns),
        partition_spec=spec(bucket),
        write_order=order(_SORTED | {"source-ids": [3]}),
    )
    made = table.metadata()
    types = [field["type"] for field in made["schemas"][0]["fields"]]
    assert types == ["decimal(9, 2)", "fixed[7]", "long"]
    (field,) = made["partition-specs"][0]["fields"]
    assert field == {"name": "part", "transform": "bucket[4]", "source-id": 1, "field-id": 1000}
    assert made["sort-orders"] == [order(sort_field(3))]


def test_type_that_a_historical_spec_does_not_take_is_400(catalog: Catalog, namespace: Namespace):
    columns = [column(1, "id"), column(2, "ts", "timestamp")]
    day = {"name": "day", "transform": "day", "source-id": 2}
    table = catalog.create_table(namespace, schema=schema(*columns), partition_spec=spec(day))
    table.committed([add_spec(spec()), set_default_spec()])
    other = [add_schema(schema(columns[0], column(2, "ts", "string"))), set_current_schema()]
    assert_error(table.commit(other), 400, "IllegalArgumentException")
    table.committed([update("remove-partition-specs", spec_ids=[0]), *other])


class TestViews:
    def test_update_is_400(self, catalog: Catalog, namespace: Namespace):
        view = catalog.create_view(namespace)
        before = view.get()
        version = sql_version(sql("SELECT 2"), version_id=2)
        for updates in (
            [add_view_version(version | {"later": HUGE}), set_current_view_version()],
            [add_schema(schema(column(1, "d", "decimal(1, 2)"))), set_properties(a="b")],
        ):
            assert_error(view.commit(updates), 400, "IllegalArgumentException")
        assert view.get() == before

    @pytest.mark.parametrize(
        "parts",
        [
            {"schemas": [{"schema-id": 0}]},
            {"schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1}]}]},
            {"properties": {"comment": {}}},
            {"later": HUGE},
        ],
    )
    def test_registration_is_400(
        self, local_catalog: Catalog, local_namespace: Namespace, warehouse_folder, parts: dict[str, Any]
    ):
        made = local_catalog.create_view(local_namespace, "v0").metadata()
        location = write_metadata(warehouse_folder / unique("unreadable"), made | parts)
        path = local_catalog.namespace_path(local_namespace)
        answer = local_catalog.post(f"{path}/register-view", {"name": "v", "metadata-location": location})
        assert_error(answer, 400, "IllegalArgumentException")
        assert local_catalog.names(local_catalog.views_path(local_namespace)) == ["v0"]


class TestRegistration:
    @pytest.fixture
    def document(self, local_catalog: Catalog, local_namespace: Namespace) -> dict[str, Any]:
        table = local_catalog.create_table(local_namespace, "t0")
        for number in (1, 2):
            added = snapshot(number, number, number - 1 or None)
            table.committed([add_snapshot(added), set_ref(number)])
        made: dict[str, Any] = table.metadata()
        return made

    @pytest.mark.parametrize(
        "broken",
        ["log runs backwards", "document older than its log", "foreign ref", "huge number", "reserved id"],
    )
    @pytest.mark.parametrize("overwrite", [False, True])
    def test_of_what_no_client_loads_is_400(
        self,
        local_catalog: Catalog,
        local_namespace: Namespace,
        warehouse_folder,
        document: dict[str, Any],
        broken: str,
        overwrite: bool,
    ):
        now_ms = document["last-updated-ms"]
        match broken:
            case "log runs backwards":
                times = [(now_ms, 1), (now_ms - 60_001, 2)]
                document["snapshot-log"] = [{"timestamp-ms": at, "snapshot-id": of} for at, of in times]
            case "document older than its log":
                document["last-updated-ms"] = now_ms - 120_000
            case "foreign ref":
                document["refs"]["x"] = {"snapshot-id": 1, "type": "foo"}
            case "huge number":
                document["later"] = HUGE
            case "reserved id":
                document["schemas"][0]["fields"][0]["id"] = LAST_ID - 101
        location = write_metadata(warehouse_folder / unique("unreadable"), document)
        name = "t0" if overwrite else "t"
        path = f"{local_catalog.namespace_path(local_namespace)}/register"
        before = local_catalog.get(f"{local_catalog.tables_path(local_namespace)}/t0").json()
        answer = local_catalog.post(
            path, {"name": name, "metadata-location": location, "overwrite": overwrite}
        )
        assert_error(answer, 400, "IllegalArgumentException")
        assert local_catalog.names(local_catalog.tables_path(local_namespace)) == ["t0"]
        assert local_catalog.get(f"{local_catalog.tables_path(local_namespace)}/t0").json() == before

    def test_of_an_old_table_is_taken_and_goes_on(
        self, local_catalog: Catalog, local_namespace: Namespace, warehouse_folder
    ):
        folder = warehouse_folder / unique("old")
        document = {
            "format-version": 1,
            "location": folder.as_uri(),
            "last-updated-ms": 1_600_000_000_000,
            "last-column-id": 2,
            "schema": {"type": "struct", "fields": ID_AND_DATA["fields"]},
            "partition-spec": [{"name": "part", "transform": "bucket[4]", "source-id": 1}],
            "current-snapshot-id": 5,
            "snapshots": [
                {"snapshot-id": 5, "timestamp-ms": 1_600_000_000_000, "manifest-list": "file:///m.avro"}
            ],
            "snapshot-log": [{"timestamp-ms": 1_600_000_059_000, "snapshot-id": 5}],
        }
        location = write_metadata(folder, document)
        path = local_catalog.namespace_path(local_namespace)
        answer = local_catalog.post(f"{path}/register", {"name": "t", "metadata-location": location})
        assert answer.status_code == 200, answer.text
        committed = local_catalog.post(
            f"{local_catalog.tables_path(local_namespace)}/t",
            {"requirements": [], "updates": [set_properties(a="b")]},
        )
        assert committed.status_code == 200, committed.text
        made = {"schema-id": 0, "summary": {"operation": "append"}}
        assert committed.json()["metadata"]["snapshots"] == [document["snapshots"][0] | made]


def test_table_of_the_last_partition_field_id_stays_usable(catalog: Catalog, table: Table):
    full = add_spec(spec({"name": "p", "transform": "bucket[4]", "source-id": 1, "field-id": LAST_ID}))
    made = table.committed([full, set_default_spec()])
    assert made["last-partition-id"] == LAST_ID
    more = [add_spec(spec({"name": "q", "transform": "bucket[8]", "source-id": 1})), set_default_spec()]
    assert_error(table.commit(more), 400, "IllegalArgumentException")
    assert table.committed([set_properties(a="b")])["last-partition-id"] == LAST_ID
