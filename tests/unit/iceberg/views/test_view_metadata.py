from __future__ import annotations

import copy
import json

import pytest

from floecat.errors import InvalidMetadataError
from floecat.iceberg.views.view_metadata import ViewMetadata, ViewVersion

VIEW_UUID = "fa6506c3-7681-40c8-86dc-e36561f83385"


def document(**changes: object) -> dict[str, object]:
    return {
        "view-uuid": VIEW_UUID,
        "format-version": 1,
        "location": "s3://bucket/warehouse/default.db/event_agg",
        "current-version-id": 1,
        "properties": {"comment": "daily counts"},
        "versions": [
            {
                "version-id": 1,
                "timestamp-ms": 1573518431292,
                "schema-id": 1,
                "default-catalog": "prod",
                "default-namespace": ["default"],
                "summary": {"engine-name": "Spark", "engineVersion": "3.3.2"},
                "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "Spark"}],
                "storage-table": {"namespace": ["a"], "name": "b"},
            }
        ],
        "schemas": [
            {
                "schema-id": 1,
                "type": "struct",
                "fields": [{"id": 1, "name": "n", "required": False, "type": "int", "doc": "count"}],
            }
        ],
        "version-log": [{"timestamp-ms": 1573518431292, "version-id": 1}],
        "x-vendor": {"kept": [1, 2.50, None]},
    } | changes


def parse(**changes: object) -> ViewMetadata:
    return ViewMetadata.parse(json.dumps(document(**changes)).encode())


def test_parses_what_the_specification_names() -> None:
    metadata = parse()
    assert metadata.view_uuid == VIEW_UUID
    assert metadata.format_version == 1
    assert metadata.location == "s3://bucket/warehouse/default.db/event_agg"
    assert metadata.properties == {"comment": "daily counts"}
    version = metadata.current_version
    assert (version.version_id, version.schema_id, version.timestamp_ms) == (1, 1, 1573518431292)
    assert version.default_catalog == "prod"
    assert version.default_namespace == ("default",)
    assert version.summary["engine-name"] == "Spark"
    assert version.sql_dialects == {"spark"}
    assert metadata.current_schema.schema_id == 1
    assert [(entry.timestamp_ms, entry.version_id) for entry in metadata.version_log] == [(1573518431292, 1)]


def test_bytes_stay_as_they_came() -> None:
    data = json.dumps(document(), indent=3).encode()
    metadata = ViewMetadata.parse(data)
    assert metadata.to_bytes() == data
    assert metadata.size_bytes == len(data)


def test_is_immutable() -> None:
    metadata = parse()
    with pytest.raises(TypeError):
        metadata.properties["a"] = "b"  # type: ignore[index]
    with pytest.raises(TypeError):
        metadata.current_version.summary["a"] = "b"  # type: ignore[index]
    with pytest.raises(AttributeError):
        metadata.extra = 1  # type: ignore[attr-defined]


def test_optional_fields_may_be_absent_or_null() -> None:
    body = document()
    del body["properties"]
    assert ViewMetadata.parse(json.dumps(body).encode()).properties == {}
    assert parse(properties=None).properties == {}


@pytest.mark.parametrize(
    "field",
    [
        "view-uuid",
        "format-version",
        "location",
        "current-version-id",
        "versions",
        "schemas",
        "version-log",
    ],
)
def test_required_fields_are_named(field: str) -> None:
    body = document()
    del body[field]
    with pytest.raises(InvalidMetadataError, match=f"missing required field `{field}`"):
        ViewMetadata.parse(json.dumps(body).encode())


@pytest.mark.parametrize(
    "field",
    ["version-id", "timestamp-ms", "schema-id", "default-namespace", "summary", "representations"],
)
def test_required_fields_of_versions_are_named(field: str) -> None:
    body = document()
    versions = copy.deepcopy(body["versions"])
    del versions[0][field]  # type: ignore[index]
    with pytest.raises(InvalidMetadataError, match=f"missing required field `{field}`"):
        parse(versions=versions)


@pytest.mark.parametrize(
    "changes",
    [
        {"format-version": 0},
        {"format-version": 2},
        {"location": ""},
        {"view-uuid": "SECRET"},
        {"current-version-id": 9},
        {"schemas": []},
        {"schemas": [{"schema-id": 2, "type": "struct", "fields": []}]},
        {"versions": []},
        {"versions": "SECRET"},
        {"current-version-id": "SECRET"},
        {"current-version-id": 2**40},
        {"properties": {"SECRET": 1}},
    ],
)
def test_refuses_broken_documents_without_quoting_them(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        parse(**changes)
    assert "SECRET" not in caught.value.message


def test_refuses_two_versions_or_schemas_with_one_id() -> None:
    body = document()
    with pytest.raises(InvalidMetadataError, match="two versions have the same id"):
        parse(versions=[*body["versions"], *body["versions"]])  # type: ignore[misc]
    with pytest.raises(InvalidMetadataError, match="two schemas have the same id"):
        parse(schemas=[*body["schemas"], *body["schemas"]])  # type: ignore[misc]


def test_refuses_a_sql_representation_without_a_dialect() -> None:
    versions = copy.deepcopy(document()["versions"])
    del versions[0]["representations"][0]["dialect"]  # type: ignore[index]
    with pytest.raises(InvalidMetadataError, match="needs `sql` and `dialect`"):
        parse(versions=versions)


def test_keeps_representations_of_types_to_come() -> None:
    versions = copy.deepcopy(document()["versions"])
    versions[0]["representations"].append({"type": "ir", "plan": "…"})  # type: ignore[index]
    assert parse(versions=versions).current_version.sql_dialects == {"spark"}


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000])
def test_refuses_what_is_no_document(data: bytes) -> None:
    with pytest.raises(InvalidMetadataError):
        ViewMetadata.parse(data)


def test_refuses_invalid_utf8_in_a_field_that_is_only_carried() -> None:
    data = json.dumps(document()).encode().replace(b'"kept"', b'"\xff"')
    with pytest.raises(InvalidMetadataError):
        ViewMetadata.parse(data)


def test_versions_compare_by_what_they_do() -> None:
    version = parse().current_version
    later = json.loads(version.encoded) | {"version-id": 7, "timestamp-ms": 1}
    assert ViewVersion.parse(json.dumps(later).encode()).behaviour() == version.behaviour()
    for change in (
        {"schema-id": 2},
        {"summary": {}},
        {"default-catalog": None},
        {"default-namespace": []},
        {"representations": [{"type": "sql", "sql": "SELECT 2", "dialect": "Spark"}]},
        {"storage-table": None},
    ):
        changed = ViewVersion.parse(json.dumps(later | change).encode())
        assert changed.behaviour() != version.behaviour()


def test_an_absent_default_catalog_equals_null() -> None:
    fields = json.loads(parse().current_version.encoded)
    del fields["default-catalog"]
    absent = ViewVersion.parse(json.dumps(fields).encode())
    null = ViewVersion.parse(json.dumps(fields | {"default-catalog": None}).encode())
    assert absent.behaviour() == null.behaviour()
