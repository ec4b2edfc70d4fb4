"""Snapshots with many data files, of which only the manifests exist: enough to plan scans."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from floecat.iceberg.file_metrics import ColumnMetrics, FileMetrics
from floecat.iceberg.manifests.entries import ManifestRows
from floecat.iceberg.manifests.lists import ManifestFile, write_manifest_list
from floecat.iceberg.manifests.reader import FileContent, ManifestEntryStatus
from floecat.iceberg.manifests.writer import write_manifest
from floecat.iceberg.schemas.partitioning import PartitionSpec
from floecat.iceberg.schemas.schema import parse_schema

__all__ = ["Appends", "WrittenAppends", "paths_of"]

_SCHEMA = b'{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"id","required":true,"type":"long"}]}'
ROWS_PER_FILE = 10


class Appends:
    """Appends to one unpartitioned table of format version 2 whose first column is the long `id`.

    The files hold ascending ids, ten each, and are named by the first of them.
    """

    def __init__(self, location: str) -> None:
        """Begins with an empty table at a `file://` location."""
        self._folder = Path(location.removeprefix("file://")) / "metadata"
        self.location = location
        self.manifests: list[ManifestFile] = []
        self._snapshots = self._files = 0

    def append(self, *manifests: int) -> list[dict[str, Any]]:
        """Writes a snapshot with manifests of so many files each; returns the updates that commit it."""
        number = self._snapshots + 1
        for count in manifests:
            path = f"{self.location}/metadata/{number}-m{len(self.manifests)}.avro"
            made = self._manifest(count, number)
            self._write(path, made.data)
            self.manifests.append(made.manifest_file(path, snapshot_id=number, sequence_number=number))
        return self._snapshot("append")

    def remove(self, manifest: int) -> list[dict[str, Any]]:
        """The same without one of the manifests."""
        del self.manifests[manifest]
        return self._snapshot("delete")

    def rewrite(self) -> list[dict[str, Any]]:
        """The same with each manifest under another name."""
        for place, (manifest, file) in enumerate(zip(self.manifests, self.manifest_paths, strict=True)):
            path = f"{self.location}/metadata/{self._snapshots}-r{place}.avro"
            self._write(path, file.read_bytes())
            self.manifests[place] = msgspec.structs.replace(manifest, manifest_path=path)
        return self._snapshot("replace")

    def _snapshot(self, operation: str) -> list[dict[str, Any]]:
        number = self._snapshots = self._snapshots + 1
        parent = number - 1 or None
        path = f"{self.location}/metadata/snap-{number}.avro"
        data = write_manifest_list(
            self.manifests,
            snapshot_id=number,
            parent_snapshot_id=parent,
            sequence_number=number,
            format_version=2,
        )
        self._write(path, data)
        snapshot = {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": time.time_ns() // 1_000_000,
            "summary": {"operation": operation, "total-data-files": str(self._files)},
            "manifest-list": path,
            "schema-id": 0,
        }
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent
        ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number}
        return [{"action": "add-snapshot", "snapshot": snapshot}, ref]

    @property
    def paths(self) -> list[str]:
        """All data files, in the order of the manifests."""
        return [self._path(number) for number in range(self._files)]

    @property
    def manifest_paths(self) -> list[Path]:
        """All manifests, in order."""
        return [Path(each.manifest_path.removeprefix("file://")) for each in self.manifests]

    def _path(self, number: int) -> str:
        return f"{self.location}/data/{number * ROWS_PER_FILE}.parquet"

    def _manifest(self, count: int, snapshot_id: int) -> Any:
        numbers = np.arange(self._files, self._files + count, dtype=np.int64)
        self._files += count
        bounds = [
            pa.array([int(bound).to_bytes(8, "little") for bound in column], pa.binary())
            for column in (numbers * ROWS_PER_FILE, numbers * ROWS_PER_FILE + ROWS_PER_FILE - 1)
        ]
        records = pa.array(np.full(count, ROWS_PER_FILE))
        column = ColumnMetrics(1, records, pa.array(np.zeros(count, np.int64)), *bounds)
        schema = parse_schema(_SCHEMA)
        rows = ManifestRows(
            content=FileContent.DATA,
            file_format="parquet",
            statuses=np.full(count, ManifestEntryStatus.ADDED, np.uint8),
            snapshot_ids=np.full(count, snapshot_id, np.int64),
            sequence_numbers=np.full(count, snapshot_id, np.int64),
            file_paths=pa.array([self._path(int(number)) for number in numbers]),
            file_sizes=np.array([self._file_size(int(number)) for number in numbers], np.int64),
            metrics=FileMetrics(records, (column,)),
        )
        return write_manifest(rows, schema=schema, spec=PartitionSpec(), partition_types=[], format_version=2)

    def _file_size(self, _number: int) -> int:
        return 1000

    def _write(self, location: str, data: bytes) -> None:
        path = Path(location.removeprefix("file://"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class WrittenAppends(Appends):
    """The same with the data files, of a table whose second column `text` has the ids modulo 3."""

    def _file_size(self, number: int) -> int:
        path = Path(self._path(number).removeprefix("file://"))
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = np.arange(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        fields = [("id", pa.int64(), 1), ("text", pa.string(), 2)]
        schema = pa.schema(
            [pa.field(name, type, metadata={"PARQUET:field_id": str(id)}) for name, type, id in fields]
        )
        pq.write_table(pa.table([ids, [str(id % 3) for id in ids]], schema=schema), path)
        return path.stat().st_size


def paths_of(answers: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The data files of answers, in order."""
    for answer in answers:
        for task in answer.get("file-scan-tasks", ()):
            yield task["data-file"]["file-path"]
