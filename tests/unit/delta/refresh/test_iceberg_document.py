import msgspec
import pytest

from floecat.delta.refresh.iceberg_document import TableDocument, VersionSnapshot
from floecat.iceberg.metadata.integrity import check_integrity
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.partitioning import PartitionField
from floecat.iceberg.schemas.schema import parse_schema

UUID = "5f3c2f0e-8f5e-4b52-8df1-9c0b5d1b7a10"
LOCATION = "s3://lake/t"


def schema(*names):
    fields = [
        {"id": position, "name": name, "required": False, "type": "long"}
        for position, name in enumerate(names, start=1)
    ]
    return parse_schema(msgspec.json.encode({"type": "struct", "fields": fields}))


def document(*versions, format_version=2):
    made = TableDocument.new(UUID, LOCATION, format_version)
    schema_id = made.schema(schema("a"))
    spec_id = made.spec(())
    for version in versions:
        made.add(snapshot(version, schema_id))
    if versions:
        made.make_current(versions[-1], spec_id, {"b": "2", "a": "1"})
    return made


def snapshot(version, schema_id=0, **changes):
    fields = {
        "version": version,
        "timestamp_ms": 1_000 + version,
        "schema_id": schema_id,
        "manifest_list": f"{LOCATION}/metadata/snap-{version}-compat.avro",
        "summary": {"operation": "append", "total-records": "1"},
    }
    return VersionSnapshot(**(fields | changes))


@pytest.mark.parametrize("format_version", [2, 3])
def test_it_is_a_metadata_document(format_version):
    made = TableDocument.new(UUID, LOCATION, format_version)
    made.schema(schema("a"))
    made.spec(())
    for version in (0, 1):
        first_row_id = 10 * version if format_version == 3 else None
        made.add(snapshot(version, first_row_id=first_row_id, added_rows=10))
    made.make_current(1, 0, {})
    metadata = TableMetadata.parse(made.encode())
    check_integrity(metadata)
    assert metadata.current_snapshot_id == 1
    assert metadata.last_sequence_number == 2
    assert [entry.snapshot_id for entry in metadata.snapshots] == [0, 1]
    assert metadata.next_row_id == (20 if format_version == 3 else 0)


def test_version_zero_is_a_snapshot_like_any_other():
    metadata = TableMetadata.parse(document(0).encode())
    check_integrity(metadata)
    assert metadata.current_snapshot_id == 0
    assert metadata.refs["main"].snapshot_id == 0


def test_the_same_state_gives_the_same_bytes():
    assert document(0, 1, 2).encode() == document(0, 1, 2).encode()
    again = TableDocument.parse(document(0, 1, 2).encode())
    assert again.encode() == document(0, 1, 2).encode()


def test_versions_that_come_later_take_their_place_in_the_chain():
    made = document(0, 5)
    made.add(snapshot(3))
    fields = msgspec.json.decode(made.encode())
    parents = {entry["snapshot-id"]: entry.get("parent-snapshot-id") for entry in fields["snapshots"]}
    assert parents == {0: None, 3: 0, 5: 3}
    assert [entry["snapshot-id"] for entry in fields["snapshot-log"]] == [0, 3, 5]
    assert fields["current-snapshot-id"] == 5


def test_versions_that_go_leave_no_trace():
    made = document(0, 1, 2)
    made.remove([0, 1])
    fields = msgspec.json.decode(made.encode())
    assert [entry["snapshot-id"] for entry in fields["snapshots"]] == [2]
    assert "parent-snapshot-id" not in fields["snapshots"][0]
    check_integrity(TableMetadata.parse(made.encode()))


def test_equal_schemas_and_specs_are_one():
    made = document(0)
    assert made.schema(schema("a")) == 0
    assert made.schema(schema("a", "b")) == 1
    assert made.schema(schema("a").with_schema_id(9)) == 0
    field = PartitionField("a", "identity", source_id=1, field_id=1000)
    assert made.spec(()) == 0
    assert made.spec((field,)) == 1
    assert made.spec((field,)) == 1
    fields = msgspec.json.decode(made.encode())
    assert fields["last-column-id"] == 2
    assert fields["last-partition-id"] == 1000


def test_files_fall_out_of_the_metadata_log():
    made = document(0)
    fallen = [made.follow(f"{LOCATION}/metadata/{number}.metadata.json") for number in range(12)]
    assert fallen[:10] == [[]] * 10
    assert fallen[10:] == [[f"{LOCATION}/metadata/0.metadata.json"], [f"{LOCATION}/metadata/1.metadata.json"]]
    assert len(TableMetadata.parse(made.encode()).metadata_log) == 10
