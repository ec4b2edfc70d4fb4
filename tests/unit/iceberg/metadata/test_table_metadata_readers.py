"""Documents of ours, read by a reference client."""

from __future__ import annotations

import pytest
from pyiceberg.table.metadata import TableMetadataUtil

from floecat.iceberg.builder.metadata_builder import new_table_metadata
from tests.unit.iceberg.table_documents import (
    ID,
    NOW_MS,
    TEXT,
    TS,
    UUID,
    append,
    column,
    commit,
    encode,
    order,
    partition_field,
    schema,
    set_ref,
    snapshot,
    sort_field,
    spec,
    update,
)

NESTED = column(
    4,
    "points",
    {
        "type": "list",
        "element-id": 5,
        "element-required": True,
        "element": {"type": "struct", "fields": [column(6, "x", "decimal(9,2)")]},
    },
)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_every_stage_of_a_table(version: int) -> None:
    metadata = new_table_metadata(
        schema=encode(schema(ID, TEXT, TS, NESTED)),
        partition_spec=encode(spec(partition_field(1, 3, "ts_day", "day"))),
        sort_order=encode(order(sort_field(1))),
        location="s3://lake/db/t",
        properties={"format-version": str(version)},
        table_uuid=UUID,
        now_ms=NOW_MS,
    )
    rows = {"first-row-id": 0, "added-rows": 7} if version == 3 else {}
    first = snapshot(5, 0 if version == 1 else 1, **rows, **{"timestamp-ms": NOW_MS})
    stages = [
        [update("add-snapshot", snapshot=first), set_ref("main", 5)],
        [set_ref("v1", 5, "tag", max_ref_age_ms=10)],
        [
            update("add-schema", schema=schema(ID, TEXT, TS, NESTED, column(9, "more", "date"))),
            update("set-current-schema", schema_id=-1),
            update("add-sort-order", sort_order=order()),
            update("set-default-sort-order", sort_order_id=-1),
        ],
        [update("remove-snapshots", snapshot_ids=[5])],
    ]

    parsed = TableMetadataUtil.parse_raw(metadata.to_bytes().decode())
    assert parsed.current_snapshot_id is None
    assert parsed.schema().find_field("points.x").field_id == 6
    assert parsed.last_column_id == 6
    for stage in stages:
        metadata = commit(metadata, *stage).metadata
        parsed = TableMetadataUtil.parse_raw(metadata.to_bytes().decode())
        assert parsed.format_version == version
        assert parsed.current_snapshot_id == metadata.current_snapshot_id
        assert parsed.refs.keys() == metadata.refs.keys()
        assert len(parsed.schemas) == len(metadata.schemas)
        assert parsed.default_sort_order_id == metadata.default_sort_order_id
        assert len(parsed.metadata_log) == len(metadata.metadata_log)


def test_pyiceberg_reads_the_filtered_document() -> None:
    metadata = new_table_metadata(
        schema=encode(schema(ID)),
        partition_spec=None,
        sort_order=None,
        location="s3://lake/db/t",
        properties={},
        table_uuid=UUID,
        now_ms=NOW_MS,
    )
    for number in range(1, 4):
        metadata = commit(metadata, *append(number, number, number - 1 or None)).metadata
    parsed = TableMetadataUtil.parse_raw(metadata.refs_only_bytes().decode())
    assert [item.snapshot_id for item in parsed.snapshots] == [3]
    assert len(parsed.snapshot_log) == 3
