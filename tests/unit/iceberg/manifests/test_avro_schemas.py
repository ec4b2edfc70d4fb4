from __future__ import annotations

import json
from typing import Any

import pytest

from floecat.iceberg.manifests.avro_schemas import sanitize_name
from tests.unit.iceberg.manifest_samples import SampleFile, Table, read_entries, read_metadata


def field_ids(schema: Any) -> dict[str, int]:
    """Ids of all fields, elements, keys and values by path."""
    if isinstance(schema, list):
        return field_ids(schema[1])
    if not isinstance(schema, dict):
        return {}
    found = {}
    for field in schema.get("fields", []):
        found[field["name"]] = field["field-id"]
        found |= {f"{field['name']}.{name}": id for name, id in field_ids(field["type"]).items()}
    if schema["type"] == "array":
        if "element-id" in schema:
            found["element"] = schema["element-id"]
        found |= field_ids(schema["items"])
    return found


def test_ids_of_the_specification() -> None:
    data = {
        "content": 134,
        "file_path": 100,
        "file_format": 101,
        "partition": 102,
        "partition.p0": 1000,
        "record_count": 103,
        "file_size_in_bytes": 104,
        "column_sizes": 108,
        "column_sizes.key": 117,
        "column_sizes.value": 118,
        "value_counts": 109,
        "value_counts.key": 119,
        "value_counts.value": 120,
        "null_value_counts": 110,
        "null_value_counts.key": 121,
        "null_value_counts.value": 122,
        "nan_value_counts": 137,
        "nan_value_counts.key": 138,
        "nan_value_counts.value": 139,
        "lower_bounds": 125,
        "lower_bounds.key": 126,
        "lower_bounds.value": 127,
        "upper_bounds": 128,
        "upper_bounds.key": 129,
        "upper_bounds.value": 130,
        "key_metadata": 131,
        "split_offsets": 132,
        "split_offsets.element": 133,
        "equality_ids": 135,
        "equality_ids.element": 136,
        "sort_order_id": 140,
        "referenced_data_file": 143,
    }
    entry = {"status": 0, "snapshot_id": 1, "sequence_number": 3, "file_sequence_number": 4, "data_file": 2}
    for format_version in (2, 3):
        table = Table(("int",), format_version=format_version)
        written = json.loads(read_metadata(table.write([]).data)["avro.schema"])
        if format_version == 3:
            data |= {"first_row_id": 142, "content_offset": 144, "content_size_in_bytes": 145}
        assert field_ids(written) == entry | {f"data_file.{name}": id for name, id in data.items()}


@pytest.mark.parametrize(
    ("name", "avro_name"),
    [
        ("day", "day"),
        ("_day2", "_day2"),
        ("2day", "_2day"),
        ("a/b c", "a_x2Fb_x20c"),
        ("-", "_x2D"),
        ("é", "_xE9"),
        ("😀", "_xD83D_xDE00"),
    ],
)
def test_names_that_avro_does_not_take(name: str, avro_name: str) -> None:
    assert sanitize_name(name) == avro_name
    manifest = Table(("int",), (name,)).write([SampleFile("a", partition=(5,))])
    (field,) = json.loads(read_metadata(manifest.data)["avro.schema"])["fields"][4]["type"]["fields"][3][
        "type"
    ]["fields"]
    assert field["name"] == avro_name
    assert field.get("iceberg-field-name", name) == name
    assert read_entries(manifest.data)[0]["data_file"]["partition"] == {avro_name: 5}


def test_names_that_become_the_same_and_types_that_repeat() -> None:
    table = Table(("decimal(9, 2)", "decimal(9, 2)"), ("a-b", "a_x2Db"))
    (entry,) = read_entries(table.write([SampleFile("a", partition=(1, -1))]).data)
    assert entry["data_file"]["partition"] == {
        "a_x2Db": b"\x00\x00\x00\x01",
        "a_x2Db_1001": b"\xff\xff\xff\xff",
    }
