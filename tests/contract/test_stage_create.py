"""`createTable` with `stage-create`, and the commit that completes it (case O04)."""

from __future__ import annotations

import uuid
from typing import Any

import httpx

from tests.contract.answers import assert_error, etag_of
from tests.contract.client import Catalog, Namespace, Table, unique
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
from tests.contract.files import files_below
from tests.contract.updates import (
    add_schema,
    add_snapshot,
    assert_create,
    assert_table_uuid,
    creation,
    set_current_schema,
    set_location,
    set_properties,
    set_ref,
    update,
)


def _stage(
    catalog: Catalog, namespace: Namespace, name: str, headers: dict[str, str] | None = None, **body: Any
) -> httpx.Response:
    request = {"name": name, "schema": ID_AND_DATA, "stage-create": True} | body
    answer = catalog.post(catalog.tables_path(namespace), request, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


def _completion(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """The updates that clients make from staged metadata."""
    return [
        update("assign-uuid", uuid=metadata["table-uuid"]),
        update("upgrade-format-version", format_version=metadata["format-version"]),
        *creation(metadata["schemas"][0], metadata["partition-specs"][0], metadata["sort-orders"][0]),
        set_location(metadata["location"]),
        update("set-properties", updates=metadata["properties"]),
    ]


def _commit(
    catalog: Catalog, namespace: Namespace, name: str, updates: list, **options: Any
) -> httpx.Response:
    table = Table(catalog, namespace, name, httpx.Response(200))
    return table.commit(updates, [assert_create()], **options)


def test_answer_is_full_metadata_without_a_location_of_it(catalog: Catalog, namespace: Namespace):
    answer = _stage(catalog, namespace, "t", properties={"k": "v", "format-version": "3"})
    body = answer.json()
    assert body["metadata-location"] is None
    assert "etag" not in answer.headers
    metadata = body["metadata"]
    assert (metadata["format-version"], metadata["properties"]["k"], metadata["last-column-id"]) == (
        3,
        "v",
        2,
    )
    assert "format-version" not in metadata["properties"]
    assert metadata["schemas"] == [ID_AND_DATA | {"schema-id": 0}]
    assert metadata["location"]


def test_nothing_is_published(catalog: Catalog, namespace: Namespace):
    _stage(catalog, namespace, "t")
    assert catalog.names(catalog.tables_path(namespace)) == []
    assert catalog.head(f"{catalog.tables_path(namespace)}/t").status_code == 404
    answer = catalog.get(f"{catalog.tables_path(namespace)}/t")
    assert_error(answer, 404, "NoSuchTableException", f"Table does not exist: {namespace[0]}.t")
    assert catalog.delete(catalog.namespace_path(namespace)).status_code == 204


def test_no_object_is_written(local_catalog: Catalog, local_namespace: Namespace):
    metadata = _stage(local_catalog, local_namespace, "t").json()["metadata"]
    assert files_below(metadata["location"]) == []


def test_commit_publishes_what_was_staged(catalog: Catalog, namespace: Namespace):
    staged = _stage(catalog, namespace, "t").json()["metadata"]
    answer = _commit(catalog, namespace, "t", _completion(staged))
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"metadata-location", "metadata"}
    made = answer.json()["metadata"]
    same = (
        "table-uuid",
        "location",
        "format-version",
        "schemas",
        "partition-specs",
        "sort-orders",
        "properties",
    )
    assert {key: made[key] for key in same} == {key: staged[key] for key in same}
    assert made["metadata-log"] == []
    assert answer.json()["metadata-location"].startswith(f"{staged['location']}/metadata/00000-")
    loaded = catalog.get(f"{catalog.tables_path(namespace)}/t")
    assert loaded.json()["metadata"] == made
    assert etag_of(loaded) == etag_of(answer)


def test_commit_brings_the_first_snapshot(catalog: Catalog, namespace: Namespace):
    staged = _stage(catalog, namespace, "t", properties={"format-version": "2"}).json()["metadata"]
    first = [add_snapshot(snapshot(11, 1)), set_ref(11)]
    made = _commit(catalog, namespace, "t", _completion(staged) + first).json()["metadata"]
    assert (made["current-snapshot-id"], made["last-sequence-number"]) == (11, 1)
    assert [entry["snapshot-id"] for entry in made["snapshot-log"]] == [11]
    assert made["refs"] == {"main": {"snapshot-id": 11, "type": "branch"}}


def test_updates_alone_make_a_table_that_was_never_staged(catalog: Catalog, namespace: Namespace):
    sent = schema(column(1, "a", "int"), column(2, "ts", "timestamp"), schema_id=0)
    parts = creation(sent, spec(spec_field(2, "day", "ts_day", 1000)), order(sort_field(1)))
    answer = _commit(catalog, namespace, "t", parts)
    assert answer.status_code == 200, answer.text
    made = answer.json()["metadata"]
    assert made["format-version"] == 2
    assert made["schemas"] == [sent]
    assert made["partition-specs"] == [spec(spec_field(2, "day", "ts_day", 1000))]
    assert made["sort-orders"][-1] == order(sort_field(1), order_id=1)
    assert uuid.UUID(made["table-uuid"])
    assert made["location"]


def test_commit_that_sends_only_its_changes_is_completed_by_its_transaction_id(
    catalog: Catalog, namespace: Namespace
):
    headers = {"iceberg-transaction-id": str(uuid.uuid4())}
    staged = _stage(catalog, namespace, "t", headers).json()["metadata"]
    _stage(catalog, namespace, "t")
    answer = _commit(catalog, namespace, "t", [set_properties(a="1")], headers=headers)
    assert answer.status_code == 200, answer.text
    made = answer.json()["metadata"]
    assert made["table-uuid"] == staged["table-uuid"]
    assert made["location"] == staged["location"]
    assert made["properties"] == staged["properties"] | {"a": "1"}


def test_staging_with_one_transaction_id_twice_gives_the_same_table(catalog: Catalog, namespace: Namespace):
    headers = {"iceberg-transaction-id": str(uuid.uuid4())}
    first = _stage(catalog, namespace, "t", headers).json()["metadata"]
    second = _stage(catalog, namespace, "t", headers).json()["metadata"]
    assert second == first


def test_secrets_in_properties_are_not_kept_with_the_staged_table(catalog: Catalog, namespace: Namespace):
    headers = {"iceberg-transaction-id": str(uuid.uuid4())}
    properties = {"s3.secret-access-key": "hush", "adls.token": "hush", "kept": "1"}
    _stage(catalog, namespace, "t", headers, properties=properties)
    answer = _commit(catalog, namespace, "t", [set_properties(a="1")], headers=headers)
    assert answer.status_code == 200, answer.text
    assert "hush" not in answer.text
    assert answer.json()["metadata"]["properties"]["kept"] == "1"


def test_two_may_stage_one_name_and_one_of_them_commits(catalog: Catalog, namespace: Namespace):
    one = _stage(catalog, namespace, "t").json()["metadata"]
    two = _stage(catalog, namespace, "t").json()["metadata"]
    assert one["table-uuid"] != two["table-uuid"]
    assert one["location"] != two["location"]
    assert _commit(catalog, namespace, "t", _completion(two)).status_code == 200
    late = _commit(catalog, namespace, "t", _completion(one))
    assert_error(late, 409, "CommitFailedException", "Requirement failed: table already exists")
    loaded = catalog.get(f"{catalog.tables_path(namespace)}/t").json()["metadata"]
    assert loaded["table-uuid"] == two["table-uuid"]


def test_files_of_the_loser_are_left_to_its_client(local_catalog: Catalog, local_namespace: Namespace):
    staged = _stage(local_catalog, local_namespace, "t").json()["metadata"]
    local_catalog.create_table(local_namespace, "t")
    from tests.contract.files import path_of

    data = path_of(staged["location"]) / "data" / "part-0.parquet"
    data.parent.mkdir(parents=True, exist_ok=True)
    data.write_bytes(b"data")
    assert _commit(local_catalog, local_namespace, "t", _completion(staged)).status_code == 409
    assert files_below(staged["location"]) == ["data/part-0.parquet"]


def test_table_created_meanwhile_is_409(catalog: Catalog, namespace: Namespace):
    staged = _stage(catalog, namespace, "t").json()["metadata"]
    other = catalog.create_table(namespace, "t")
    answer = _commit(catalog, namespace, "t", _completion(staged))
    assert_error(answer, 409, "CommitFailedException", "Requirement failed: table already exists")
    assert other.metadata() == other.created.json()["metadata"]


def test_view_created_meanwhile_is_409(catalog: Catalog, namespace: Namespace):
    staged = _stage(catalog, namespace, "t").json()["metadata"]
    view = catalog.create_view(namespace, "t")
    answer = _commit(catalog, namespace, "t", _completion(staged))
    assert_error(
        answer, 409, "AlreadyExistsException", f"View with same name already exists: {namespace[0]}.t"
    )
    assert view.metadata() == view.created.json()["metadata"]


def test_namespace_dropped_meanwhile_is_404(catalog: Catalog, namespace: Namespace):
    inner = catalog.create_namespace((*namespace, "inner"))
    staged = _stage(catalog, inner, "t").json()["metadata"]
    assert catalog.delete(catalog.namespace_path(inner)).status_code == 204
    answer = _commit(catalog, inner, "t", _completion(staged))
    assert_error(answer, 404, "NoSuchNamespaceException", f"Namespace does not exist: {'.'.join(inner)}")


def test_assert_create_goes_with_no_other_requirement(catalog: Catalog, namespace: Namespace):
    staged = _stage(catalog, namespace, "t").json()["metadata"]
    table = Table(catalog, namespace, "t", httpx.Response(200))
    answer = table.commit(_completion(staged), [assert_create(), assert_table_uuid(staged["table-uuid"])])
    message = assert_error(answer, 400, "BadRequestException")
    assert message.startswith("Invalid create requirements")
    assert not table.exists()


def test_commit_without_assert_create_on_a_missing_table_is_404(catalog: Catalog, namespace: Namespace):
    staged = _stage(catalog, namespace, "t").json()["metadata"]
    table = Table(catalog, namespace, "t", httpx.Response(200))
    assert_error(
        table.commit(_completion(staged)),
        404,
        "NoSuchTableException",
        f"Table does not exist: {namespace[0]}.t",
    )


def test_create_without_a_schema_is_400(catalog: Catalog, namespace: Namespace):
    name = unique("never_staged")
    answer = _commit(catalog, namespace, name, [set_properties(a="1")])
    assert answer.status_code == 400
    assert assert_error(answer, 400, answer.json()["error"]["type"])
    assert catalog.names(catalog.tables_path(namespace)) == []


def test_several_schemas_specs_and_orders_in_one_creation(catalog: Catalog, namespace: Namespace):
    staged = _stage(
        catalog,
        namespace,
        "t",
        **{"partition-spec": spec(spec_field(1, "identity", "id")), "write-order": order(sort_field(1))},
    ).json()["metadata"]
    wider = schema(*ID_AND_DATA["fields"], column(3, "more", "int"), schema_id=1)
    updates = [
        *_completion(staged),
        add_schema(wider),
        set_current_schema(),
        update("add-spec", spec=spec(spec_field(2, "bucket[4]", "data_bucket", 1001), spec_id=1)),
        update("set-default-spec", spec_id=-1),
        update("add-sort-order", sort_order=order(sort_field(2), order_id=2)),
        update("set-default-sort-order", sort_order_id=-1),
    ]
    made = _commit(catalog, namespace, "t", updates).json()["metadata"]
    assert [one["schema-id"] for one in made["schemas"]] == [0, 1]
    assert [one["spec-id"] for one in made["partition-specs"]] == [0, 1]
    assert [one["order-id"] for one in made["sort-orders"]][-2:] == [1, 2]
    ids = (
        "current-schema-id",
        "default-spec-id",
        "default-sort-order-id",
        "last-column-id",
        "last-partition-id",
    )
    assert [made[key] for key in ids] == [1, 1, 2, 3, 1001]
