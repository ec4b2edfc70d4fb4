from __future__ import annotations

import json

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.builder.metadata_builder import new_table_metadata
from floecat.iceberg.metadata.integrity import check_integrity
from floecat.iceberg.metadata.table_metadata import TableMetadata
from tests.unit.iceberg.table_documents import (
    BASE_FILE,
    BASE_MS,
    ID,
    NOW_MS,
    TEXT,
    TS,
    UUID,
    append,
    column,
    commit,
    document,
    empty,
    encode,
    order,
    parse,
    partition_field,
    read,
    schema,
    sort_field,
    spec,
    update,
)


def create(
    *columns: dict,
    partition_spec: dict | None = None,
    sort_order: dict | None = None,
    properties: dict[str, str] | None = None,
    **more: object,
) -> TableMetadata:
    return new_table_metadata(
        schema=encode(schema(*columns, **more)),
        partition_spec=None if partition_spec is None else encode(partition_spec),
        sort_order=None if sort_order is None else encode(sort_order),
        location="s3://lake/db/t/",
        properties=properties or {},
        table_uuid=UUID,
        now_ms=NOW_MS,
    )


def test_a_new_table() -> None:
    metadata = create(ID | {"id": 30}, TEXT | {"id": 20, "doc": "what was said 💬"})

    assert read(metadata) == {
        "format-version": 2,
        "table-uuid": UUID,
        "location": "s3://lake/db/t",
        "last-sequence-number": 0,
        "last-updated-ms": NOW_MS,
        "last-column-id": 2,
        "current-schema-id": 0,
        "schemas": [schema(ID, TEXT | {"doc": "what was said 💬"})],
        "default-spec-id": 0,
        "partition-specs": [spec()],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [order(order_id=0)],
        "properties": {"write.parquet.compression-codec": "zstd"},
        "current-snapshot-id": -1,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    check_integrity(TableMetadata.parse(metadata.to_bytes()))


def test_all_ids_of_a_new_table_are_assigned_anew() -> None:
    inner = column(
        9, "inner", {"type": "struct", "fields": [column(5, "day", "date", required=True)]}, required=True
    )
    metadata = create(
        ID | {"id": 7},
        inner,
        TS | {"id": 4},
        schema_id=12,
        partition_spec=spec(
            partition_field(7, 5, "day"), partition_field(7, 4, "ts_hour", "hour"), spec_id=3
        ),
        sort_order=order(sort_field(4), sort_field(7, "bucket[4]"), order_id=9),
        **{"identifier-field-ids": [7, 5]},
    )
    written = read(metadata)

    assert written["schemas"][0]["schema-id"] == 0
    assert written["schemas"][0]["identifier-field-ids"] == [1, 4]
    assert metadata.current_schema.names_by_id == {1: "id", 2: "inner", 3: "ts", 4: "inner.day"}
    assert metadata.last_column_id == 4
    assert written["partition-specs"] == [
        spec(partition_field(1000, 4, "day"), partition_field(1001, 3, "ts_hour", "hour"))
    ]
    assert written["last-partition-id"] == 1001
    assert written["sort-orders"] == [order(sort_field(3), sort_field(1, "bucket[4]"))]
    assert written["default-sort-order-id"] == 1


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_format_version_is_a_property_that_is_not_stored(version: int) -> None:
    metadata = create(ID, properties={"format-version": str(version), "uuid": "x", "snapshot-count": "1"})
    written = read(metadata)

    assert written["format-version"] == version
    assert written["properties"] == {"write.parquet.compression-codec": "zstd"}
    assert ("schema" in written, "partition-spec" in written) == (version == 1, version == 1)
    assert ("last-sequence-number" in written) == (version > 1)
    assert written.get("next-row-id") == (0 if version == 3 else None)
    assert written["current-snapshot-id"] == (None if version == 3 else -1)


def test_own_properties_beat_the_defaults() -> None:
    metadata = create(ID, properties={"write.parquet.compression-codec": "snappy", "a": "b"})
    assert metadata.properties == {"write.parquet.compression-codec": "snappy", "a": "b"}


def test_defaults_of_columns_survive_creation() -> None:
    created = create(
        column(5, "ratio", "double", **{"initial-default": 1, "write-default": 2.5}),
        properties={"format-version": "3"},
    )
    assert read(created)["schemas"][0]["fields"][0]["initial-default"] == 1.0
    assert b'"initial-default":1.0' in created.to_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"properties": {"format-version": "4"}}, r"Unsupported format version: v4 \(supported: v3\)"),
        ({"properties": {"format-version": "0"}}, "Unsupported format version: v0"),
        ({"properties": {"format-version": "two"}}, "format-version must have integer value"),
        (
            {"properties": {"commit.retry.num-retries": "x"}},
            "commit.retry.num-retries must have non negative",
        ),
        ({"properties": {"write.metadata.metrics.column.nope": "full"}}, "could not find column nope"),
        ({"properties": {"encryption.key-id": "k"}}, "Invalid properties for v2: encryption.key-id"),
        (
            {"partition_spec": spec(partition_field(1, 99, "x"))},
            "Cannot find source column for partition field: x",
        ),
        ({"partition_spec": spec(partition_field(1, 2, "text_day", "day"))}, "Invalid source type string"),
        ({"partition_spec": spec(partition_field(1, 2, "id"))}, "sourced from different field"),
        ({"sort_order": order(sort_field(99))}, "Cannot find source column for sort field"),
        ({"sort_order": order(sort_field(2, "day"))}, "Invalid source type string for transform: day"),
    ],
)
def test_refuses_tables_that_cannot_be(arguments: dict, message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        create(ID, TEXT, **arguments)


def test_variant_needs_version_3() -> None:
    data = column(1, "data", "variant")
    with pytest.raises(
        IllegalArgumentError, match="Invalid type for data: variant is not supported until v3"
    ):
        create(data)
    assert create(data, properties={"format-version": "3"}).format_version == 3


def test_metrics_of_a_nested_column_are_known_by_name() -> None:
    inner = column(1, "inner", {"type": "struct", "fields": [column(2, "a")]})
    properties = {"write.metadata.metrics.column.inner.a": "counts", "write.metadata.metrics.default": "none"}
    assert create(inner, properties=properties).properties.keys() >= properties.keys()


# -- create by updates ----------------------------------------------------------------------------------

STAGED = [
    update("assign-uuid", uuid="0190a1b2-0000-7000-8000-000000000001"),
    update("upgrade-format-version", format_version=2),
    update("add-schema", schema=schema(ID, TEXT, TS)),
    update("set-current-schema", schema_id=-1),
    update("add-spec", spec=spec()),
    update("set-default-spec", spec_id=-1),
    update("add-sort-order", sort_order=order(order_id=0)),
    update("set-default-sort-order", sort_order_id=-1),
    update("set-location", location="s3://lake/db/t"),
    update("set-properties", updates={"owner": "ops"}),
]


def test_a_create_transaction_builds_the_whole_document() -> None:
    result = commit(None, *STAGED, *append(5, 1, None))
    written = read(result.metadata)

    assert result.changed
    assert [item.snapshot_id for item in result.added_snapshots] == [5]
    assert written["table-uuid"] == "0190a1b2-0000-7000-8000-000000000001"
    assert written["metadata-log"] == []
    assert written["current-snapshot-id"] == 5
    assert written["properties"] == {"owner": "ops"}
    check_integrity(TableMetadata.parse(result.metadata.to_bytes()))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_first_upgrade_of_a_create_decides_the_version(version: int) -> None:
    upgrade = update("upgrade-format-version", format_version=version)
    updates = [item for item in STAGED if item["action"] != "upgrade-format-version"]
    assert commit(None, *updates, upgrade).metadata.format_version == version


def test_a_create_transaction_with_several_schemas_specs_and_orders() -> None:
    wider = schema(ID, TEXT, TS, column(4, "more", "int"))
    written = read(
        commit(
            None,
            *STAGED,
            update("add-sort-order", sort_order=order(sort_field(1), order_id=1)),
            *append(5, 1, None),
            update("add-schema", schema=wider),
            update("set-current-schema", schema_id=-1),
            update("add-spec", spec=spec(partition_field(1000, 4, "more"), spec_id=1)),
            update("set-default-spec", spec_id=-1),
            update("add-sort-order", sort_order=order(sort_field(4), order_id=1)),
            update("set-default-sort-order", sort_order_id=-1),
        ).metadata
    )

    assert [item["schema-id"] for item in written["schemas"]] == [0, 1]
    assert [item["spec-id"] for item in written["partition-specs"]] == [0, 1]
    assert [item["order-id"] for item in written["sort-orders"]] == [0, 1, 2]
    assert (written["current-schema-id"], written["default-spec-id"], written["default-sort-order-id"]) == (
        1,
        1,
        2,
    )


def test_the_uuid_of_a_create_may_come_from_elsewhere() -> None:
    assert commit(None, *STAGED[1:]).metadata.table_uuid == UUID


def test_specs_and_orders_that_a_create_leaves_out_are_empty() -> None:
    needed = [item for item in STAGED if "spec" not in item["action"] and "sort" not in item["action"]]
    metadata = commit(None, *needed).metadata
    assert metadata.partition_specs[0].fields == ()
    assert metadata.sort_orders[0].is_unsorted


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        (
            [item for item in STAGED if item["action"] != "set-location"],
            "Table location is required in format v2",
        ),
        ([item for item in STAGED if "schema" not in item["action"]], "Cannot find current schema"),
        (append(5, 1, None), "before a schema is added"),
        ([*STAGED[:4], *append(5, 1, None)], "before a partition spec is added"),
        ([*STAGED[:6], *append(5, 1, None)], "before a sort order is added"),
        ([update("upgrade-format-version", format_version=4)], "Unsupported format version: v4"),
    ],
)
def test_refuses_incomplete_creates(updates: list[dict], message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        commit(None, *updates)


# -- the document as a whole ----------------------------------------------------------------------------


def no_effect() -> list[list[dict]]:
    same_statistics = {"snapshot-id": 11, "statistics-path": "s3://p", "file-size-in-bytes": 5}
    return [
        [],
        [update("assign-uuid", uuid=UUID.upper())],
        [update("upgrade-format-version", format_version=2)],
        [update("add-schema", schema=schema(ID, TEXT, TS, schema_id=5))],
        [update("set-current-schema", schema_id=0)],
        [update("add-spec", spec=spec(spec_id=4)), update("set-default-spec", spec_id=-1)],
        [
            update("add-sort-order", sort_order=order(order_id=0)),
            update("set-default-sort-order", sort_order_id=-1),
        ],
        [update("set-location", location="s3://lake/db/t/")],
        [update("set-properties", updates={"owner": "ops", "format-version": "2", "uuid": "x"})],
        [update("set-properties", updates={"a": "b"}), update("remove-properties", removals=["a", "c"])],
        [update("set-snapshot-ref", ref_name="main", type="branch", snapshot_id=13)],
        [update("remove-snapshot-ref", ref_name="nope")],
        [update("remove-snapshots", snapshot_ids=[1, 2])],
        [update("remove-statistics", snapshot_id=11)],
        [update("remove-partition-statistics", snapshot_id=12)],
        [update("set-partition-statistics", partition_statistics=same_statistics)],
        [update("remove-partition-specs", spec_ids=[7])],
        [update("remove-schemas", schema_ids=[7])],
        [update("remove-encryption-key", key_id="x")],
        [update("add-encryption-key", encryption_key={"key-id": "k", "encrypted-key-metadata": "eQ=="})],
    ]


@pytest.mark.parametrize(
    "updates", no_effect(), ids=lambda updates: "+".join(u["action"] for u in updates) or "none"
)
def test_updates_without_effect_leave_the_base(updates: list[dict]) -> None:
    base = parse(
        document(
            **{
                "partition-statistics": [
                    {"file-size-in-bytes": 5, "snapshot-id": 11, "statistics-path": "s3://p"}
                ],
                "encryption-keys": [{"key-id": "k", "encrypted-key-metadata": "eA=="}],
            }
        )
    )
    result = commit(base, *updates)

    assert not result.changed
    assert result.metadata is base


def test_the_metadata_log_gets_the_file_before() -> None:
    base = parse(document(**{"metadata-log": [{"timestamp-ms": 1, "metadata-file": "s3://old", "x": 1}]}))
    written = read(commit(base, update("set-properties", updates={"a": "b"})).metadata)

    assert written["metadata-log"] == [
        {"timestamp-ms": 1, "metadata-file": "s3://old", "x": 1},
        {"timestamp-ms": BASE_MS + 5000, "metadata-file": BASE_FILE},
    ]
    assert written["last-updated-ms"] == NOW_MS


def log(count: int) -> list[dict]:
    return [{"timestamp-ms": BASE_MS + i, "metadata-file": f"s3://m/{i}"} for i in range(count)]


@pytest.mark.parametrize(
    ("properties", "entries", "kept"),
    [
        ({}, 100, 100),
        ({}, 99, 100),
        ({}, 150, 100),
        ({"write.metadata.previous-versions-max": "3"}, 5, 3),
        ({"write.metadata.previous-versions-max": "3"}, 2, 3),
        ({"write.metadata.previous-versions-max": "0"}, 5, 1),
        ({"write.metadata.previous-versions-max": "many"}, 5, 6),
    ],
)
def test_the_metadata_log_is_trimmed(properties: dict[str, str], entries: int, kept: int) -> None:
    base = parse(document(**{"metadata-log": log(entries)}))
    for delete in ("true", "false"):
        more = properties | {"write.metadata.delete-after-commit.enabled": delete}
        result = commit(base, update("set-properties", updates=more))

        files = [entry.metadata_file for entry in result.metadata.metadata_log]
        dropped = [f"s3://m/{i}" for i in range(max(0, entries + 1 - kept))]
        assert len(files) == kept
        assert files[-1] == BASE_FILE
        assert dropped + files == [f"s3://m/{i}" for i in range(entries)] + [BASE_FILE]
        assert result.dropped_metadata_files == (dropped if delete == "true" else [])


def test_a_base_without_file_leaves_no_log() -> None:
    result = commit(parse(document()), update("set-properties", updates={"a": "b"}), location=None)
    assert result.metadata.metadata_log == ()


def test_time_never_goes_back() -> None:
    result = commit(parse(document()), update("set-properties", updates={"a": "b"}), now_ms=BASE_MS - 999)
    assert result.metadata.last_updated_ms == BASE_MS + 5000
    assert read(result.metadata)["last-updated-ms"] == BASE_MS + 5000


def test_the_same_input_gives_the_same_bytes() -> None:
    updates = [*append(14, 4, 13), update("set-properties", updates={"b": "1", "a": "2"})]
    first, second = (commit(parse(document()), *updates).metadata.to_bytes() for _ in range(2))
    assert first == second


def test_properties_are_merged_and_reserved_ones_never_stored() -> None:
    result = commit(
        parse(document()),
        update("set-properties", updates={"a": "1", "format-version": "3", "current-schema": "{}"}),
        update("remove-properties", removals=["owner", "format-version"]),
    )
    assert read(result.metadata)["properties"] == {"a": "1"}
    assert result.metadata.format_version == 3


def test_more_properties_than_the_default_are_refused() -> None:
    base = parse(document(properties={f"a{number}": "" for number in range(99_999)}))
    full = commit(base, update("set-properties", updates={"b": "", "a0": "1"})).metadata
    with pytest.raises(IllegalArgumentError, match=r"more than 100000 \(floecat\.limits\.elements\)"):
        commit(full, update("set-properties", updates={"c": ""}))


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ([update("upgrade-format-version", format_version=1)], "Cannot downgrade v2 table to v1"),
        (
            [update("upgrade-format-version", format_version=4)],
            r"Cannot upgrade table to unsupported format version: v4 \(supported: v3\)",
        ),
        ([update("set-properties", updates={"format-version": "1"})], "Cannot downgrade v2 table to v1"),
        ([update("set-properties", updates={"format-version": "x"})], "must have integer value"),
        ([update("assign-uuid", uuid="0190a1b2-0000-7000-8000-000000000001")], "Cannot reassign uuid"),
        ([update("assign-uuid", uuid="mine")], "not a UUID"),
        ([update("set-location", location="")], "must not be null or empty"),
    ],
)
def test_refuses_changes_of_the_whole(updates: list[dict], message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        commit(parse(document()), *updates)


def test_set_location_strips_the_slash() -> None:
    metadata = commit(parse(document()), update("set-location", location="s3://new/t/")).metadata
    assert metadata.location == "s3://new/t"
    assert read(metadata)["location"] == "s3://new/t"


def test_nulls_in_the_base_are_no_lists() -> None:
    base = parse(
        empty(
            **{
                "refs": None,
                "snapshots": None,
                "snapshot-log": None,
                "metadata-log": None,
                "properties": None,
            }
        )
    )
    written = read(commit(base, *append(5, 1, None)).metadata)
    assert [item["snapshot-id"] for item in written["snapshots"]] == [5]
    assert written["refs"] == {"main": {"snapshot-id": 5, "type": "branch"}}
    assert json.loads(commit(base, *append(5, 1, None)).metadata.refs_only_bytes()) == written


def test_encryption_keys() -> None:
    base = parse(
        document(3, **{"encryption-keys": [{"key-id": "a", "encrypted-key-metadata": "eA==", "x": 1}]})
    )
    key = {"key-id": "b", "encrypted-key-metadata": "eQ==", "encrypted-by-id": "a", "properties": {"k": "v"}}

    both = commit(base, update("add-encryption-key", encryption_key=key)).metadata
    assert read(both)["encryption-keys"] == [{"key-id": "a", "encrypted-key-metadata": "eA==", "x": 1}, key]

    one = commit(both, update("remove-encryption-key", key_id="a")).metadata
    assert read(one)["encryption-keys"] == [key]

    with pytest.raises(IllegalArgumentError, match="encryption key"):
        commit(base, update("add-encryption-key", encryption_key={"key-id": "c"}))
