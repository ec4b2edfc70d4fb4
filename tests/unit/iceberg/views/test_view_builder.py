from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from floecat.errors import CommitFailedError, IllegalArgumentError, InvalidMetadataError
from floecat.iceberg.views.view_builder import (
    AppliedViewUpdates,
    apply_view_updates,
    check_view_requirements,
    new_view_metadata,
    view_metadata_file_location,
)
from floecat.iceberg.views.view_metadata import ViewMetadata
from tests.updates import decode_view_requirements, decode_view_updates

VIEW_UUID = "fa6506c3-7681-40c8-86dc-e36561f83385"
NOW_MS = 1_700_000_000_000


def schema(*names: str, schema_id: int = 0) -> dict[str, Any]:
    fields = [{"id": i, "name": name, "required": False, "type": "int"} for i, name in enumerate(names, 1)]
    return {"type": "struct", "schema-id": schema_id, "fields": fields}


def version(*dialects: str, sql: str = "SELECT 1", **changes: Any) -> dict[str, Any]:
    return {
        "version-id": 1,
        "timestamp-ms": 1_600_000_000_000,
        "schema-id": 0,
        "summary": {"engine-name": "spark"},
        "default-namespace": ["ns"],
        "representations": [{"type": "sql", "sql": sql, "dialect": d} for d in dialects or ("spark",)],
    } | {name.replace("_", "-"): value for name, value in changes.items()}


def create(
    view_version: dict[str, Any] | None = None,
    *,
    view_schema: dict[str, Any] | None = None,
    properties: Mapping[str, str] = {},
) -> ViewMetadata:
    return new_view_metadata(
        schema=json.dumps(view_schema or schema("a")).encode(),
        view_version=json.dumps(view_version or version()).encode(),
        properties=properties,
        location="s3://bucket/v",
        view_uuid=VIEW_UUID,
        now_ms=NOW_MS,
    )


def apply(base: ViewMetadata, *updates: dict[str, Any]) -> AppliedViewUpdates:
    return apply_view_updates(base, decode_view_updates(json.dumps(updates).encode()), now_ms=NOW_MS)


def add_version(*dialects: str, **changes: Any) -> dict[str, Any]:
    return {"action": "add-view-version", "view-version": version(*dialects, **changes)}


def add_schema(*names: str, schema_id: int = 0) -> dict[str, Any]:
    return {"action": "add-schema", "schema": schema(*names, schema_id=schema_id)}


def set_current(version_id: int = -1) -> dict[str, Any]:
    return {"action": "set-current-view-version", "view-version-id": version_id}


def set_properties(**properties: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": {k.replace("_", "."): v for k, v in properties.items()}}


def replace(base: ViewMetadata, sql: str, **changes: Any) -> ViewMetadata:
    return apply(base, add_version(sql=sql, **changes), set_current()).metadata


def as_json(metadata: ViewMetadata) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(metadata.to_bytes())
    return decoded


# create


def test_a_new_view_holds_what_was_sent() -> None:
    metadata = create(properties={"comment": "c"})
    assert as_json(metadata) == {
        "view-uuid": VIEW_UUID,
        "format-version": 1,
        "location": "s3://bucket/v",
        "schemas": [schema("a")],
        "current-version-id": 1,
        "versions": [version()],
        "version-log": [{"timestamp-ms": 1_600_000_000_000, "version-id": 1}],
        "properties": {"comment": "c"},
    }


def test_create_assigns_the_schema_id() -> None:
    sent = version(schema_id=99, default_namespace=[])
    metadata = create(sent, view_schema=schema("a", schema_id=7))
    created = as_json(metadata)
    assert [item["schema-id"] for item in created["schemas"]] == [0]
    assert created["versions"][0]["schema-id"] == 0
    assert created["versions"][0]["default-namespace"] == []
    assert "default-catalog" not in created["versions"][0]


def test_create_keeps_a_default_catalog_and_fields_it_does_not_know() -> None:
    sent = version(default_catalog="prod") | {"storage-table": {"namespace": ["a"], "name": "b"}}
    created = as_json(create(sent))["versions"][0]
    assert created["default-catalog"] == "prod"
    assert created["storage-table"] == {"namespace": ["a"], "name": "b"}


@pytest.mark.parametrize("dialects", [("trino", "trino"), ("trino", "Trino"), ("spark", "trino", "TRINO")])
def test_one_query_per_dialect(dialects: tuple[str, ...]) -> None:
    message = "^Invalid view version: Cannot add multiple queries for dialect trino$"
    with pytest.raises(IllegalArgumentError, match=message):
        create(version(*dialects))
    with pytest.raises(IllegalArgumentError, match=message):
        apply(create(), add_version(*dialects))


def test_create_refuses_versions_that_cannot_be() -> None:
    with pytest.raises(IllegalArgumentError, match="without a query"):
        create(version(representations=[]))
    with pytest.raises(IllegalArgumentError, match="unsupported view representations: ir"):
        create(version(representations=[{"type": "ir"}]))
    with pytest.raises(IllegalArgumentError, match="out of range"):
        create(version(version_id=-1))
    with pytest.raises(InvalidMetadataError, match="default-namespace"):
        create({k: v for k, v in version().items() if k != "default-namespace"})


def test_create_refuses_a_broken_schema() -> None:
    with pytest.raises(IllegalArgumentError):
        create(view_schema={"type": "struct", "fields": [{"name": "a"}]})


# versions and schemas


def test_a_replace_adds_a_version_and_a_log_entry() -> None:
    base = create()
    applied = apply(base, add_schema("a", "b"), add_version(sql="SELECT 2", schema_id=-1), set_current())
    assert applied.changed
    metadata = applied.metadata
    assert list(metadata.versions) == [1, 2]
    assert metadata.versions[1].encoded == base.versions[1].encoded
    assert (metadata.current_version_id, metadata.current_version.schema_id) == (2, 1)
    assert [item["schema-id"] for item in as_json(metadata)["schemas"]] == [0, 1]
    assert [(e.version_id, e.timestamp_ms) for e in metadata.version_log] == [
        (1, 1_600_000_000_000),
        (2, 1_600_000_000_000),
    ]
    assert base.current_version_id == 1


def test_concurrent_replaces_get_ids_one_after_the_other() -> None:
    base = create()
    first = replace(base, "SELECT 2", version_id=2)
    second = replace(first, "SELECT 3", version_id=2)
    assert list(second.versions) == [1, 2, 3]
    assert second.current_version_id == 3
    assert second.current_version.schema_id == 0


def test_a_version_id_above_all_others_is_kept() -> None:
    metadata = replace(create(), "SELECT 2", version_id=40)
    assert list(metadata.versions) == [1, 40]
    assert list(replace(metadata, "SELECT 3", version_id=5).versions) == [1, 40, 41]


def test_an_equal_version_is_reused() -> None:
    base = replace(create(), "SELECT 2")
    applied = apply(base, add_version(version_id=9, timestamp_ms=5), set_current())
    assert list(applied.metadata.versions) == [1, 2]
    assert applied.metadata.current_version_id == 1
    assert applied.metadata.version_log[-1].timestamp_ms == NOW_MS


def test_an_equal_schema_is_reused_whatever_its_id() -> None:
    base = create()
    applied = apply(base, add_schema("a", schema_id=12))
    assert not applied.changed
    applied = apply(base, add_schema("a"), add_version(sql="SELECT 2", schema_id=-1), set_current())
    assert applied.metadata.current_version.schema_id == 0
    assert list(applied.metadata.schemas) == [0]


def test_last_added_refers_to_the_last_of_several() -> None:
    metadata = apply(
        create(),
        add_schema("b"),
        add_schema("c"),
        add_version(sql="SELECT 2", schema_id=-1),
        add_version(sql="SELECT 3", schema_id=-1),
        set_current(),
    ).metadata
    assert metadata.current_version_id == 3
    assert metadata.current_version.schema_id == 2
    assert len(metadata.version_log) == 2


def test_last_added_needs_something_added() -> None:
    with pytest.raises(IllegalArgumentError, match="no schema has been added"):
        apply(create(), add_version(sql="SELECT 2", schema_id=-1))
    with pytest.raises(IllegalArgumentError, match="Cannot set last version id"):
        apply(create(), set_current())


def test_unknown_ids_are_refused() -> None:
    with pytest.raises(IllegalArgumentError, match="Cannot add version with unknown schema: 4"):
        apply(create(), add_version(sql="SELECT 2", schema_id=4))
    with pytest.raises(IllegalArgumentError, match="Cannot set current version to unknown version: 4"):
        apply(create(), set_current(4))


def test_adding_a_version_does_not_make_it_current() -> None:
    applied = apply(create(), add_version(sql="SELECT 2"))
    assert applied.changed
    assert applied.metadata.current_version_id == 1
    assert len(applied.metadata.version_log) == 1


def test_a_rollback_is_logged_at_the_present_time() -> None:
    metadata = apply(replace(create(), "SELECT 2"), set_current(1)).metadata
    assert [entry.version_id for entry in metadata.version_log] == [1, 2, 1]
    assert metadata.version_log[-1].timestamp_ms == NOW_MS


# dialects


def test_a_replace_must_not_lose_a_dialect() -> None:
    base = create(version("spark", "trino"))
    with pytest.raises(IllegalArgumentError) as caught:
        replace(base, "SELECT 2")
    assert caught.value.message == (
        "Cannot replace view due to loss of view dialects (replace.drop-dialect.allowed=false):\n"
        "Previous dialects: [spark, trino]\nNew dialects: [spark]"
    )


def test_a_dialect_may_go_where_a_property_allows_it() -> None:
    base = create(version("spark", "trino"), properties={"replace.drop-dialect.allowed": "TRUE"})
    assert replace(base, "SELECT 2").current_version.sql_dialects == {"spark"}


def test_the_property_may_come_with_the_replace() -> None:
    applied = apply(
        create(version("spark", "trino")),
        add_version(sql="SELECT 2"),
        set_current(),
        {"action": "set-properties", "updates": {"replace.drop-dialect.allowed": "true"}},
    )
    assert applied.metadata.current_version_id == 2


def test_dialects_compare_without_case_and_may_be_added() -> None:
    base = create(version("Spark"))
    assert apply(base, add_version("spark", "trino"), set_current()).metadata.current_version_id == 2


def test_contradicting_properties_are_refused() -> None:
    properties = {"replace.drop-dialect.allowed": "true", "replace.append-dialect.allowed": "true"}
    with pytest.raises(IllegalArgumentError, match="Cannot set both"):
        create(properties=properties)


# history


def replaced(base: ViewMetadata, times: int) -> ViewMetadata:
    for index in range(times):
        base = replace(base, f"SELECT {index + 2}")
    return base


def test_ten_versions_are_kept() -> None:
    metadata = replaced(create(), 14)
    assert list(metadata.versions) == list(range(6, 16))
    assert [entry.version_id for entry in metadata.version_log] == list(range(6, 16))


def test_the_number_of_versions_is_a_property() -> None:
    metadata = replaced(create(properties={"version.history.num-entries": "2"}), 4)
    assert list(metadata.versions) == [4, 5]
    assert [entry.version_id for entry in metadata.version_log] == [4, 5]


def test_versions_just_added_and_the_current_one_always_stay() -> None:
    base = replaced(create(properties={"version.history.num-entries": "1"}), 1)
    applied = apply(base, *(add_version(sql=f"SELECT {n}") for n in (10, 11, 12)))
    assert applied.metadata.current_version_id == 2
    assert list(applied.metadata.versions) == [2, 3, 4, 5]


def test_an_old_current_version_stays() -> None:
    base = apply(replaced(create(), 4), set_current(1)).metadata
    shrunk = apply(
        base, {"action": "set-properties", "updates": {"version.history.num-entries": "2"}}
    ).metadata
    assert list(shrunk.versions) == [1, 5]
    assert [entry.version_id for entry in shrunk.version_log] == [5, 1]


@pytest.mark.parametrize("size", ["0", "-3", "many", "", "1_0", " 3 ", "٣", "9" * 5000])
def test_the_number_of_versions_must_be_positive(size: str) -> None:
    with pytest.raises(IllegalArgumentError, match=r"version\.history\.num-entries must be"):
        create(properties={"version.history.num-entries": size})


# everything else


def test_more_properties_than_the_default_are_refused() -> None:
    base = create(properties={f"a{number}": "" for number in range(99_999)})
    full = apply(base, {"action": "set-properties", "updates": {"b": "", "a0": "1"}}).metadata
    with pytest.raises(IllegalArgumentError, match=r"more than 100000 \(floecat\.limits\.elements\)"):
        apply(full, {"action": "set-properties", "updates": {"c": ""}})


def test_properties_and_location_add_no_version() -> None:
    base = create(properties={"a": "1", "b": "2"})
    applied = apply(
        base,
        {"action": "set-properties", "updates": {"c": "3", "a": "9"}},
        {"action": "remove-properties", "removals": ["b", "unknown"]},
        {"action": "set-location", "location": "s3://bucket/moved"},
    )
    assert applied.changed
    assert applied.metadata.properties == {"a": "9", "c": "3"}
    assert applied.metadata.location == "s3://bucket/moved"
    assert as_json(applied.metadata)["versions"] == as_json(base)["versions"]
    assert as_json(applied.metadata)["version-log"] == as_json(base)["version-log"]


@pytest.mark.parametrize(
    "updates",
    [
        [],
        [{"action": "assign-uuid", "uuid": VIEW_UUID.upper()}],
        [{"action": "upgrade-format-version", "format-version": 1}],
        [{"action": "set-location", "location": "s3://bucket/v"}],
        [{"action": "set-properties", "updates": {"a": "1"}}],
        [{"action": "set-properties", "updates": {}}],
        [{"action": "remove-properties", "removals": ["unknown"]}],
        [add_version(version_id=8)],
        [add_version(version_id=8), set_current()],
        [set_current(1)],
        [add_schema("a", schema_id=3)],
    ],
)
def test_updates_without_effect_change_nothing(updates: list[dict[str, Any]]) -> None:
    base = create(properties={"a": "1"})
    applied = apply(base, *updates)
    assert not applied.changed
    assert applied.metadata is base


def test_the_uuid_stays() -> None:
    with pytest.raises(IllegalArgumentError, match="Cannot reassign uuid"):
        apply(create(), {"action": "assign-uuid", "uuid": "00000000-0000-0000-0000-000000000000"})


@pytest.mark.parametrize(
    ("format_version", "text"), [(0, "Cannot downgrade v1 view to v0"), (2, "Unsupported format version: 2")]
)
def test_there_is_one_format_version(format_version: int, text: str) -> None:
    with pytest.raises(IllegalArgumentError, match=text):
        apply(create(), {"action": "upgrade-format-version", "format-version": format_version})


def test_an_empty_location_is_refused() -> None:
    with pytest.raises(IllegalArgumentError, match="Invalid location"):
        apply(create(), {"action": "set-location", "location": ""})


def test_fields_the_specification_does_not_name_survive() -> None:
    body = as_json(create()) | {"x-vendor": {"n": 1.50}}
    body["versions"][0]["x-hint"] = [1, None]
    body["version-log"][0]["x-by"] = "someone"
    base = ViewMetadata.parse(json.dumps(body).encode())
    updated = as_json(replace(base, "SELECT 2"))
    assert updated["x-vendor"] == {"n": 1.50}
    assert updated["versions"][0]["x-hint"] == [1, None]
    assert updated["version-log"][0]["x-by"] == "someone"


def test_the_uuid_requirement() -> None:
    base = create()
    other = "00000000-0000-0000-0000-000000000000"
    ok = decode_view_requirements(
        json.dumps([{"type": "assert-view-uuid", "uuid": VIEW_UUID.upper()}]).encode()
    )
    check_view_requirements(ok, base)
    failing = decode_view_requirements(json.dumps([{"type": "assert-view-uuid", "uuid": other}]).encode())
    with pytest.raises(CommitFailedError) as caught:
        check_view_requirements([*ok, *failing], base)
    assert caught.value.message == (
        f"Requirement failed: view UUID does not match: expected {VIEW_UUID} != {other}"
    )


# metadata files

FILE_UUID = uuid.UUID("01890d6e-1c2f-7b4e-8a55-0123456789ab")


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, "s3://bucket/v/metadata/00003-{}.metadata.json"),
        ({"write.metadata.path": "s3://other/meta/"}, "s3://other/meta/00003-{}.metadata.json"),
        ({"write.metadata.compression-codec": "GZIP"}, "s3://bucket/v/metadata/00003-{}.gz.metadata.json"),
        ({"write.metadata.compression-codec": "none"}, "s3://bucket/v/metadata/00003-{}.metadata.json"),
    ],
)
def test_metadata_file_locations(properties: dict[str, str], expected: str) -> None:
    metadata = create(properties=properties)
    assert view_metadata_file_location(metadata, 3, FILE_UUID) == expected.format(FILE_UUID)


def test_refuses_an_unknown_codec() -> None:
    metadata = create(properties={"write.metadata.compression-codec": "lzma"})
    with pytest.raises(IllegalArgumentError, match="codec"):
        view_metadata_file_location(metadata, 0, FILE_UUID)
