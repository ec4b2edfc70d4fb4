"""`createTable`."""

from __future__ import annotations

import time
import uuid

import pytest

from tests.contract.answers import assert_error, etag_of
from tests.contract.client import Catalog, Namespace, unique
from tests.contract.documents import (
    ALL_TYPES,
    ID_AND_DATA,
    NESTED,
    column,
    order,
    schema,
    sort_field,
    spec,
    spec_field,
)

ZSTD = {"write.parquet.compression-codec": "zstd"}


def _create(catalog: Catalog, namespace: Namespace, **body: object):
    return catalog.post(
        catalog.tables_path(namespace), {"name": unique("table"), "schema": ID_AND_DATA} | body
    )


def test_answer_has_location_metadata_and_config(catalog: Catalog, namespace: Namespace):
    before_ms = int(time.time() * 1000)
    answer = _create(catalog, namespace)
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) == {"metadata-location", "metadata", "config"}
    assert body["metadata-location"].startswith(body["metadata"]["location"] + "/metadata/00000-")
    assert body["metadata-location"].endswith(".metadata.json")
    assert before_ms - 1000 <= body["metadata"]["last-updated-ms"] <= int(time.time() * 1000) + 1000


def test_document_of_the_least_request(catalog: Catalog, namespace: Namespace):
    metadata = _create(catalog, namespace).json()["metadata"]
    assert uuid.UUID(metadata.pop("table-uuid")).version == 7
    assert metadata.pop("last-updated-ms") > 0
    assert metadata.pop("location")
    assert metadata.pop("current-snapshot-id", -1) == -1
    assert metadata == {
        "format-version": 2,
        "last-sequence-number": 0,
        "last-column-id": 2,
        "schemas": [ID_AND_DATA | {"schema-id": 0}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": ZSTD,
        "refs": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "statistics": [],
        "partition-statistics": [],
    }


def test_ids_are_assigned_anew_level_by_level(catalog: Catalog, namespace: Namespace):
    metadata = _create(
        catalog,
        namespace,
        schema=NESTED | {"schema-id": 9, "identifier-field-ids": [10]},
        **{
            "partition-spec": spec(spec_field(10, "bucket[8]", "id_bucket", 77), spec_id=5),
            "write-order": order(sort_field(41), order_id=8),
        },
    ).json()["metadata"]
    made = metadata["schemas"][0]
    assert (made["schema-id"], made["identifier-field-ids"], metadata["last-column-id"]) == (0, [1], 10)
    ids = {field["name"]: field for field in made["fields"]}
    assert [ids[name]["id"] for name in ("id", "points", "labels", "place")] == [1, 2, 3, 4]
    assert ids["points"]["type"]["element-id"] == 5
    assert [field["id"] for field in ids["points"]["type"]["element"]["fields"]] == [6, 7]
    assert (ids["labels"]["type"]["key-id"], ids["labels"]["type"]["value-id"]) == (8, 9)
    assert ids["place"]["type"]["fields"][0]["id"] == 10
    assert metadata["partition-specs"] == [
        {
            "spec-id": 0,
            "fields": [{"source-id": 1, "field-id": 1000, "name": "id_bucket", "transform": "bucket[8]"}],
        }
    ]
    assert (metadata["default-spec-id"], metadata["last-partition-id"]) == (0, 1000)
    assert metadata["sort-orders"] == [order(sort_field(10), order_id=1)]
    assert metadata["default-sort-order-id"] == 1


def test_documentation_of_columns_survives_beyond_the_basic_plane(catalog: Catalog, namespace: Namespace):
    text = 'ice 🧊 "quoted" \\ \u0007 ☃'
    metadata = _create(catalog, namespace, schema=schema(column(1, "x🧊", "int", doc=text))).json()[
        "metadata"
    ]
    assert metadata["schemas"][0]["fields"] == [column(1, "x🧊", "int", doc=text)]


def test_every_type_of_format_version_2(catalog: Catalog, namespace: Namespace):
    fields = [column(number, f"c{number}", kind) for number, kind in enumerate(ALL_TYPES, 1)]
    metadata = _create(catalog, namespace, schema=schema(*fields)).json()["metadata"]
    kinds = [field["type"].replace(", ", ",") for field in metadata["schemas"][0]["fields"]]
    assert kinds == [kind.replace(", ", ",") for kind in ALL_TYPES]


def test_properties_are_kept_and_the_default_codec_is_stored(catalog: Catalog, namespace: Namespace):
    metadata = _create(catalog, namespace, properties={"k": "v", "ü": ""}).json()["metadata"]
    assert metadata["properties"] == {"k": "v", "ü": ""} | ZSTD


def test_codec_of_the_request_wins(catalog: Catalog, namespace: Namespace):
    codec = {"write.parquet.compression-codec": "snappy"}
    assert _create(catalog, namespace, properties=codec).json()["metadata"]["properties"] == codec


def test_reserved_properties_are_accepted_and_not_stored(catalog: Catalog, namespace: Namespace):
    reserved = {
        "uuid": str(uuid.uuid4()),
        "format-version": "1",
        "snapshot-count": "3",
        "current-snapshot-id": "5",
        "current-snapshot-summary": "{}",
        "current-snapshot-timestamp-ms": "7",
        "current-schema": "{}",
        "default-partition-spec": "{}",
        "default-sort-order": "{}",
    }
    metadata = _create(catalog, namespace, properties=reserved | {"kept": "1"}).json()["metadata"]
    assert metadata["properties"] == {"kept": "1"} | ZSTD
    assert metadata["format-version"] == 1
    assert metadata["table-uuid"] != reserved["uuid"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_format_versions(catalog: Catalog, namespace: Namespace, version: int):
    metadata = _create(catalog, namespace, properties={"format-version": str(version)}).json()["metadata"]
    assert metadata["format-version"] == version
    assert metadata["properties"] == ZSTD
    assert metadata.get("next-row-id") == (0 if version == 3 else None)
    if version == 1:
        assert metadata["schema"] == metadata["schemas"][0]
        assert metadata["partition-spec"] == []
        assert metadata.get("last-sequence-number", 0) == 0
    assert (
        metadata.get("current-snapshot-id", -1) == -1
        if version < 3
        else None is metadata.get("current-snapshot-id")
    )


@pytest.mark.parametrize("version", ["0", "4", "99", "-1", "two", "", "2.0"])
def test_unknown_format_version_is_400(catalog: Catalog, namespace: Namespace, version: str):
    answer = _create(catalog, namespace, properties={"format-version": version})
    assert_error(answer, 400, "IllegalArgumentException")
    assert catalog.names(catalog.tables_path(namespace)) == []


def test_location_of_the_request_is_kept(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder
):
    location = f"{warehouse_folder.as_uri()}/{unique('chosen')}/t"
    body = _create(local_catalog, local_namespace, location=location).json()
    assert body["metadata"]["location"] == location
    assert body["metadata-location"].startswith(f"{location}/metadata/")


def test_slash_at_the_end_of_a_location_is_dropped(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder
):
    location = f"{warehouse_folder.as_uri()}/{unique('chosen')}"
    body = _create(local_catalog, local_namespace, location=location + "/").json()
    assert body["metadata"]["location"] == location
    assert body["metadata-location"].startswith(f"{location}/metadata/0")


def test_default_locations_are_never_shared(catalog: Catalog, namespace: Namespace):
    first = catalog.create_table(namespace, "same")
    renamed = {"namespace": list(namespace), "name": "other"}
    catalog.post("/tables/rename", {"source": first.identifier, "destination": renamed})
    second = catalog.create_table(namespace, "same")
    second.drop()
    third = catalog.create_table(namespace, "same")
    locations = [made.created.json()["metadata"]["location"] for made in (first, second, third)]
    assert len(set(locations)) == 3
    for one in locations:
        assert not any(other != one and f"{other}/".startswith(f"{one}/") for other in locations)


def test_default_location_lies_under_that_of_the_namespace(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder
):
    location = f"{warehouse_folder.as_uri()}/{unique('base')}"
    name = local_catalog.create_namespace((*local_namespace, "placed"), {"location": location})
    assert local_catalog.create_table(name, "t").metadata()["location"].startswith(f"{location}/t-")


def test_write_metadata_path_is_where_metadata_goes(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder
):
    path = f"{warehouse_folder.as_uri()}/{unique('elsewhere')}"
    table = local_catalog.create_table(local_namespace, properties={"write.metadata.path": path})
    assert table.created.json()["metadata-location"].startswith(f"{path}/00000-")
    answer = table.commit([{"action": "set-properties", "updates": {"a": "1"}}])
    assert answer.json()["metadata-location"].startswith(f"{path}/00001-")


def test_existing_table_is_409_and_untouched(catalog: Catalog, namespace: Namespace):
    table = catalog.create_table(namespace)
    before = table.get()
    answer = _create(catalog, namespace, name=table.name, properties={"other": "1"})
    assert_error(answer, 409, "AlreadyExistsException", f"Table already exists: {table.text}")
    assert table.get() == before


def test_over_a_view_is_409(catalog: Catalog, namespace: Namespace):
    view = catalog.create_view(namespace)
    for stage in (False, True):
        answer = _create(catalog, namespace, name=view.name, **{"stage-create": stage})
        message = f"View with same name already exists: {view.text}"
        assert_error(answer, 409, "AlreadyExistsException", message)


def test_in_a_missing_namespace_is_404(catalog: Catalog, namespace: Namespace):
    for stage in (False, True):
        answer = _create(catalog, (*namespace, "missing"), **{"stage-create": stage})
        message = f"Namespace does not exist: {namespace[0]}.missing"
        assert_error(answer, 404, "NoSuchNamespaceException", message)


def test_answer_is_what_a_load_gives(catalog: Catalog, namespace: Namespace):
    table = catalog.create_table(namespace)
    loaded = catalog.get(table.path)
    assert loaded.json() == table.created.json()
    assert etag_of(loaded) == etag_of(table.created)


def test_nulls_are_the_same_as_absent_fields(catalog: Catalog, namespace: Namespace):
    nulls = dict.fromkeys(("location", "partition-spec", "write-order", "properties", "stage-create"))
    metadata = _create(catalog, namespace, **nulls).json()["metadata"]
    assert (metadata["properties"], metadata["default-sort-order-id"]) == (ZSTD, 0)


_INT = column(1, "a", "int")

BAD_SCHEMAS = {
    "missing type": {"type": "struct", "fields": [{"id": 1, "name": "a", "required": False}]},
    "missing name": {"type": "struct", "fields": [{"id": 1, "type": "int", "required": False}]},
    "missing id": {"type": "struct", "fields": [{"name": "a", "type": "int", "required": False}]},
    "no struct": {"type": "list", "fields": []},
    "no fields": {"type": "struct"},
    "unknown type": schema(column(1, "a", "varchar")),
    "two of one name": schema(_INT, column(2, "a", "long")),
    "two of one id": schema(_INT, column(1, "b", "long")),
    "precision over 38": schema(column(1, "a", "decimal(39,2)")),
    "fixed of nothing": schema(column(1, "a", "fixed[x]")),
    "identifier that is optional": schema(_INT, identifiers=[1]),
    "identifier that is missing": schema(_INT, identifiers=[7]),
    "identifier that is a double": schema(column(1, "a", "double", required=True), identifiers=[1]),
    "initial default before v3": schema(column(1, "a", "int", initial_default=1)),
    "nanoseconds before v3": schema(column(1, "a", "timestamp_ns")),
    "geometry before v3": schema(column(1, "a", "geometry")),
    "id as text": schema(column(1, "a", "int") | {"id": "1"}),
    "id beyond int": schema(column(2**40, "a", "int")),
}


@pytest.mark.parametrize("bad", BAD_SCHEMAS.values(), ids=BAD_SCHEMAS.keys())
def test_schema_that_breaks_the_specification_is_400(catalog: Catalog, namespace: Namespace, bad: object):
    answer = _create(catalog, namespace, schema=bad)
    assert answer.status_code == 400, answer.text
    assert assert_error(answer, 400, answer.json()["error"]["type"])
    assert answer.json()["error"]["type"] in ("IllegalArgumentException", "BadRequestException")
    assert catalog.names(catalog.tables_path(namespace)) == []


def test_variant_before_v3_is_400_in_the_words_of_the_reference(catalog: Catalog, namespace: Namespace):
    answer = _create(catalog, namespace, schema=schema(column(1, "v", "variant")))
    message = assert_error(answer, 400, "IllegalArgumentException")
    assert "variant is not supported until v3" in message


def test_variant_columns_everywhere_in_v3(catalog: Catalog, namespace: Namespace):
    variants = schema(
        column(1, "v", "variant"),
        column(2, "l", {"type": "list", "element-id": 3, "element": "variant", "element-required": False}),
        column(
            4,
            "m",
            {
                "type": "map",
                "key-id": 5,
                "key": "string",
                "value-id": 6,
                "value": "variant",
                "value-required": False,
            },
        ),
        column(7, "s", {"type": "struct", "fields": [column(8, "v", "variant")]}),
    )
    metadata = _create(catalog, namespace, schema=variants, properties={"format-version": "3"}).json()[
        "metadata"
    ]
    fields = metadata["schemas"][0]["fields"]
    assert [field["id"] for field in fields] == [1, 2, 3, 4]
    assert fields[1]["type"]["element-id"] == 5
    assert (fields[2]["type"]["key-id"], fields[2]["type"]["value-id"]) == (6, 7)
    assert fields[3]["type"]["fields"][0]["id"] == 8
    assert metadata["last-column-id"] == 8


def test_new_types_of_v3(catalog: Catalog, namespace: Namespace):
    kinds = ["timestamp_ns", "timestamptz_ns", "unknown", "geometry", "geometry(srid:3857)", "geography"]
    fields = [column(number, f"c{number}", kind) for number, kind in enumerate(kinds, 1)]
    answer = _create(catalog, namespace, schema=schema(*fields), properties={"format-version": "3"})
    assert [field["type"] for field in answer.json()["metadata"]["schemas"][0]["fields"]] == kinds


def test_default_values_survive_in_v3(catalog: Catalog, namespace: Namespace):
    fields = [
        column(1, "a", "int", required=True, initial_default=7, write_default=8),
        column(2, "b", "string", initial_default="ü", write_default=None),
        column(3, "c", "decimal(5,2)", write_default="1.50"),
        column(4, "d", "timestamptz", initial_default="2024-01-02T03:04:05.000006+00:00"),
    ]
    table = catalog.create_table(namespace, schema=schema(*fields), properties={"format-version": "3"})
    made = table.metadata()["schemas"][0]["fields"]
    assert [(f.get("initial-default"), f.get("write-default")) for f in made] == [
        (7, 8),
        ("ü", None),
        (None, "1.50"),
        ("2024-01-02T03:04:05.000006+00:00", None),
    ]


BAD_PARTS = {
    "spec of a missing column": {"partition-spec": spec(spec_field(9, "identity", "x"))},
    "spec with an unusable transform": {"partition-spec": spec(spec_field(2, "day", "x"))},
    "spec with two of one name": {
        "partition-spec": spec(spec_field(1, "identity", "x"), spec_field(2, "identity", "x"))
    },
    "spec field named like another column": {"partition-spec": spec(spec_field(1, "bucket[4]", "data"))},
    "bucket of none": {"partition-spec": spec(spec_field(1, "bucket[0]", "x"))},
    "order of a missing column": {"write-order": order(sort_field(9))},
    "order without a direction": {
        "write-order": order({"source-id": 1, "transform": "identity", "null-order": "nulls-first"})
    },
    "order of another direction": {"write-order": order(sort_field(1) | {"direction": "up"})},
    "metrics of a missing column": {"properties": {"write.metadata.metrics.column.nope": "full"}},
    "codec of metadata that is unknown": {"properties": {"write.metadata.compression-codec": "lz4"}},
}


@pytest.mark.parametrize("bad", BAD_PARTS.values(), ids=BAD_PARTS.keys())
def test_spec_order_or_properties_that_break_the_specification_are_400(
    catalog: Catalog, namespace: Namespace, bad: dict
):
    answer = _create(catalog, namespace, **bad)
    assert answer.status_code == 400, answer.text
    assert assert_error(answer, 400, answer.json()["error"]["type"])
    assert catalog.names(catalog.tables_path(namespace)) == []


@pytest.mark.parametrize(
    "body",
    [
        {"name": "t"},
        {"schema": ID_AND_DATA},
        {"name": None, "schema": ID_AND_DATA},
        {"name": 1, "schema": ID_AND_DATA},
        {"name": "t", "schema": "text"},
        {"name": "t", "schema": None},
        {"name": "t", "schema": ID_AND_DATA, "properties": {"k": 1}},
        {"name": "t", "schema": ID_AND_DATA, "properties": "text"},
        {"name": "t", "schema": ID_AND_DATA, "stage-create": "yes"},
        {"name": "t", "schema": ID_AND_DATA, "location": 7},
        {"name": "t", "schema": ID_AND_DATA, "partition-spec": []},
    ],
)
def test_malformed_body_is_400(catalog: Catalog, namespace: Namespace, body: dict):
    answer = catalog.post(catalog.tables_path(namespace), body)
    assert answer.status_code == 400, answer.text
    assert assert_error(answer, 400, answer.json()["error"]["type"])
    assert catalog.names(catalog.tables_path(namespace)) == []


def test_unknown_fields_of_a_schema_are_tolerated(catalog: Catalog, namespace: Namespace):
    answer = _create(catalog, namespace, schema=schema(column(1, "a", "int", added_in_2030=True)))
    assert answer.status_code == 200


def test_a_column_may_be_called_anything(catalog: Catalog, namespace: Namespace):
    names = ["a.b", "with space", "größe", "A", "a", "`", "🧊", '"']
    fields = [column(number, name, "int") for number, name in enumerate(names, 1)]
    metadata = _create(catalog, namespace, schema=schema(*fields)).json()["metadata"]
    assert [field["name"] for field in metadata["schemas"][0]["fields"]] == names


def test_a_schema_of_5000_columns(catalog: Catalog, namespace: Namespace):
    fields = [column(number, f"column_{number}", "string") for number in range(1, 5001)]
    table = catalog.create_table(namespace, schema=schema(*fields))
    assert table.metadata()["last-column-id"] == 5000
