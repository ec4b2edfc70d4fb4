"""Manifests and manifest lists that floecat writes, read by the Java client."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from floecat.iceberg.manifests.lists import ManifestFile, assign_row_ids, write_manifest_list
from floecat.iceberg.manifests.reader import FileContent
from floecat.iceberg.manifests.rewriter import OldManifest, rewrite
from floecat.iceberg.manifests.writer import EncodedManifest
from tests.clients.kit.java import Iceberg
from tests.unit.iceberg.manifest_samples import SampleFile, Table

VALUES: dict[str, tuple[Any, Any]] = {
    "boolean": (True, True),
    "int": (-5, -5),
    "long": (2**40, 2**40),
    "float": (1.5, 1.5),
    "double": (-1.5, -1.5),
    "date": (18262, 18262),
    "time": (5, 5),
    "timestamp": (1_600_000_000_000_000, 1_600_000_000_000_000),
    "timestamptz": (1_600_000_000_000_000, 1_600_000_000_000_000),
    "string": ("é/x", "é/x"),
    "decimal(1, 0)": (-9, Decimal(-9)),
    "decimal(9, 2)": (-12345, Decimal("-123.45")),
    "decimal(38, 10)": (10**37, Decimal(10**27)),
    "uuid": (bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
}
"""Partition values, and what Java hands out for them."""


class Files:
    """The metadata of one table in a folder."""

    def __init__(self, folder: Path, table: Table) -> None:
        self.folder = folder
        self.table = table
        self.next_row_id = 0
        self.snapshots: list[dict[str, Any]] = []

    def manifest(self, name: str, made: EncodedManifest, snapshot_id: int) -> ManifestFile:
        """Writes a manifest."""
        path = self.folder / name
        path.write_bytes(made.data)
        return made.manifest_file(str(path), snapshot_id=snapshot_id, sequence_number=snapshot_id + 1)

    def snapshot(self, snapshot_id: int, manifests: Sequence[ManifestFile]) -> Sequence[ManifestFile]:
        """Adds a snapshot; returns its manifests as its list has them."""
        row_ids = {}
        if self.table.format_version >= 3:
            first_row_id = self.next_row_id
            manifests, self.next_row_id = assign_row_ids(manifests, first_row_id)
            row_ids = {"first-row-id": first_row_id, "added-rows": self.next_row_id - first_row_id}
        parent = snapshot_id - 1 if snapshot_id else None
        path = self.folder / f"snap-{snapshot_id}.avro"
        path.write_bytes(
            write_manifest_list(
                manifests,
                snapshot_id=snapshot_id,
                parent_snapshot_id=parent,
                sequence_number=snapshot_id + 1,
                format_version=self.table.format_version,
                first_row_id=row_ids.get("first-row-id"),
            )
        )
        snapshot = {
            "snapshot-id": snapshot_id,
            "sequence-number": snapshot_id + 1,
            "timestamp-ms": 1_700_000_000_000 + snapshot_id,
            "manifest-list": str(path),
            "summary": {"operation": "overwrite"},
            "schema-id": self.table.schema.schema_id,
        }
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent
        self.snapshots.append(snapshot | row_ids)
        return manifests

    def load(self, iceberg: Iceberg) -> Any:
        """The table as Java loads it."""
        table = self.table
        last = self.snapshots[-1]
        document = {
            "format-version": table.format_version,
            "table-uuid": "6e6c0b5e-2d7e-4d2c-9a53-0d8a8f3a1f60",
            "location": str(self.folder),
            "last-sequence-number": last["sequence-number"],
            "last-updated-ms": last["timestamp-ms"],
            "last-column-id": 500,
            "current-schema-id": table.schema.schema_id,
            "schemas": [msgspec.Raw(table.schema.raw)],
            "default-spec-id": table.spec_id,
            "partition-specs": [table.spec],
            "last-partition-id": 1000 + len(table.types),
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {},
            "current-snapshot-id": last["snapshot-id"],
            "refs": {"main": {"snapshot-id": last["snapshot-id"], "type": "branch"}},
            "snapshots": self.snapshots,
            "next-row-id": self.next_row_id,
        }
        path = self.folder / "v1.metadata.json"
        path.write_bytes(msgspec.json.encode(document))
        io = iceberg.api.hadoop.HadoopFileIO(iceberg.jvm.org.apache.hadoop.conf.Configuration())
        operations = iceberg.api.StaticTableOperations(str(path), io)
        return iceberg.api.BaseTable(operations, "kit")


def tasks(scan: Any) -> list[Any]:
    found = []
    iterator = scan.planFiles().iterator()
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def bound(values: Any, field_id: int) -> bytes:
    return bytes(values.get(field_id).array())


@pytest.mark.spark
@pytest.mark.parametrize("format_version", [2, 3])
def test_all_fields(iceberg: Iceberg, tmp_path: Path, format_version: int) -> None:
    names = tuple(f"p {number}/é" for number in range(len(VALUES)))
    table = Table(tuple(VALUES), names, format_version, spec_id=3)
    metrics: Mapping[str, Mapping[int, Any]] = {
        "value_counts": {500: 10},
        "null_value_counts": {500: 0},
        "lower_bounds": {500: struct.pack("<q", 3)},
        "upper_bounds": {500: struct.pack("<q", 300)},
    }
    data = [
        SampleFile(
            "/data/a.parquet", 1, 0, 1, tuple(value for value, _ in VALUES.values()), metrics=metrics, size=99
        ),
        SampleFile("/data/b.parquet", 1, 0, 1, (None,) * len(VALUES), records=7),
    ]
    vector = SampleFile(
        "/data/dv.puffin" if format_version == 3 else "/data/d.parquet",
        1,
        0,
        1,
        data[0].partition,
        records=2,
        referenced="/data/a.parquet",
        content_range=(4, 44) if format_version == 3 else None,
    )
    files = Files(tmp_path, table)
    deletes = table.write(
        [vector], FileContent.POSITION_DELETES, "puffin" if format_version == 3 else "parquet"
    )
    files.snapshot(
        0, [files.manifest("m0.avro", table.write(data), 0), files.manifest("d0.avro", deletes, 0)]
    )
    loaded = files.load(iceberg)
    snapshot = loaded.currentSnapshot()
    assert (snapshot.snapshotId(), snapshot.sequenceNumber(), snapshot.parentId()) == (0, 1, None)
    manifests = snapshot.allManifests(loaded.io())
    assert [manifest.content().name() for manifest in manifests] == ["DATA", "DELETES"]
    first = manifests[0]
    assert (first.addedFilesCount(), first.addedRowsCount(), first.minSequenceNumber()) == (2, 17, 1)
    assert (first.partitionSpecId(), first.snapshotId()) == (3, 0)
    assert first.length() == (tmp_path / "m0.avro").stat().st_size
    summaries = first.partitions()
    assert [summary.containsNull() for summary in summaries] == [True] * len(VALUES)
    assert bytes(summaries[1].lowerBound().array()) == struct.pack("<i", -5)

    found = {str(task.file().location()): task for task in tasks(loaded.newScan().includeColumnStats())}
    assert set(found) == {"/data/a.parquet", "/data/b.parquet"}
    task = found["/data/a.parquet"]
    file = task.file()
    assert (file.format().name(), file.recordCount(), file.fileSizeInBytes()) == ("PARQUET", 10, 99)
    assert (file.dataSequenceNumber(), file.fileSequenceNumber(), file.specId()) == (1, 1, 3)
    assert (file.valueCounts()[500], file.nullValueCounts()[500]) == (10, 0)
    assert bound(file.lowerBounds(), 500) == struct.pack("<q", 3)
    assert bound(file.upperBounds(), 500) == struct.pack("<q", 300)
    java_object = iceberg.jvm.java.lang.Class.forName("java.lang.Object")
    values = [file.partition().get(index, java_object) for index in range(len(VALUES))]
    # of UUIDs Java has a class of its own
    assert [*values[:-1], str(values[-1].toString())] == [value for _, value in VALUES.values()]
    (delete,) = task.deletes()
    assert (delete.content().name(), str(delete.location())) == ("POSITION_DELETES", vector.path)
    assert (str(delete.referencedDataFile()), delete.recordCount()) == ("/data/a.parquet", 2)
    other = found["/data/b.parquet"].file()
    assert other.partition().get(0, java_object) is None
    assert other.valueCounts() is None
    assert len(found["/data/b.parquet"].deletes()) == 0
    if format_version == 3:
        assert (file.firstRowId(), other.firstRowId()) == (0, 10)
        assert (delete.format().name(), delete.contentOffset(), delete.contentSizeInBytes()) == (
            "PUFFIN",
            4,
            44,
        )

    # What bounds and partitions leave out, Java leaves out.
    expressions = iceberg.api.expressions.Expressions
    for expression, wanted in (
        (expressions.equal("v", 1000), {"/data/b.parquet"}),
        (expressions.equal("v", 5), {"/data/a.parquet", "/data/b.parquet"}),
        (expressions.equal(names[1], -5), {"/data/a.parquet"}),
        (expressions.equal(names[1], 12), set()),
        (expressions.isNull(names[9]), {"/data/b.parquet"}),
        (expressions.equal(names[9], "é/x"), {"/data/a.parquet"}),
    ):
        scanned = tasks(loaded.newScan().filter(expression))
        assert {str(task.file().location()) for task in scanned} == wanted, str(expression)


@pytest.mark.spark
@pytest.mark.parametrize("format_version", [2, 3])
def test_rewritten_manifests(iceberg: Iceberg, tmp_path: Path, format_version: int) -> None:
    table = Table(("int",), format_version=format_version)
    data = [
        SampleFile(f"/data/{number}.parquet", 1, 0, 1, (number % 3,), records=number + 1)
        for number in range(2000)
    ]
    files = Files(tmp_path, table)
    (listed,) = files.snapshot(0, [files.manifest("m0.avro", table.write(data), 0)])
    for snapshot_id, gone in ((1, ["/data/5.parquet", "/data/1999.parquet"]), (2, ["/data/6.parquet"])):
        path = Path(listed.manifest_path)
        old = OldManifest(path.read_bytes(), str(path), listed.first_row_id)
        made = rewrite([old], remove=pa.array(gone), snapshot_id=snapshot_id)
        manifest = files.manifest(f"m{snapshot_id}.avro", made, snapshot_id)
        (listed,) = files.snapshot(snapshot_id, [manifest])
    loaded = files.load(iceberg)
    live: dict[int, set[str]] = {}
    row_ids: dict[int, dict[str, int]] = {}
    for snapshot_id in range(3):
        found = [task.file() for task in tasks(loaded.newScan().useSnapshot(snapshot_id))]
        live[snapshot_id] = {str(file.location()) for file in found}
        assert {file.dataSequenceNumber() for file in found} == {1}
        row_ids[snapshot_id] = {str(file.location()): file.firstRowId() for file in found}
    everything = {file.path for file in data}
    assert live[0] == everything
    assert live[1] == everything - {"/data/5.parquet", "/data/1999.parquet"}
    assert live[2] == live[1] - {"/data/6.parquet"}
    if format_version == 3:
        assert row_ids[0]["/data/2.parquet"] == 3
        for snapshot_id in (1, 2):
            assert row_ids[snapshot_id].items() <= row_ids[0].items()
    removed = [
        {str(file.location()) for file in loaded.snapshot(snapshot_id).removedDataFiles(loaded.io())}
        for snapshot_id in range(3)
    ]
    assert removed == [set(), {"/data/5.parquet", "/data/1999.parquet"}, {"/data/6.parquet"}]
    added = [len(list(loaded.snapshot(number).addedDataFiles(loaded.io()))) for number in range(3)]
    assert added == [2000, 0, 0]
