"""Tables with a few files, written as a test says."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import msgspec

from floecat.iceberg.manifests.avro_schemas import manifest_list_schema, manifest_schema
from floecat.iceberg.manifests.lists import ManifestFile
from floecat.iceberg.manifests.partition_tuples import PartitionSummary
from floecat.iceberg.schemas.partitioning import PartitionField, PartitionSpec
from floecat.iceberg.schemas.types import parse_primitive

__all__ = ["SmallTable", "data_file", "spec", "without_partition_values"]


def spec(spec_id: int, *fields: tuple[str, str, int]) -> PartitionSpec:
    """A partition spec of name, transform and source id of each field."""
    return PartitionSpec(
        spec_id,
        tuple(
            PartitionField(name, transform, source_id, 1000 + 10 * spec_id + place)
            for place, (name, transform, source_id) in enumerate(fields)
        ),
    )


def data_file(path: str, *, status: int = 1, snapshot_id: int | None = None, **fields: Any) -> dict[str, Any]:
    """An entry of a manifest; maps are given as dicts."""
    maps = {
        name: [{"key": key, "value": item} for key, item in value.items()] if name in _MAPS else value
        for name, value in fields.items()
    }
    file = {
        "content": 0,
        "file_path": path,
        "file_format": "PARQUET",
        "partition": {},
        "record_count": 5,
        "file_size_in_bytes": 100,
    }
    return {"status": status, "snapshot_id": snapshot_id, "data_file": file | maps}


def without_partition_values(schema: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The schema of a manifest, rewritten by Iceberg's library after source columns were dropped.

    Args:
        schema: of the manifest; it is changed.
        names: of the partition fields of these columns.
    """
    [file] = [field["type"] for field in schema["fields"] if field["name"] == "data_file"]
    [partition] = [field["type"] for field in file["fields"] if field["name"] == "partition"]
    for each in partition["fields"]:
        if each["name"] in names:
            each["type"] = "null"
    return schema


_MAPS = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)


@dataclass
class SmallTable:
    """A table that grows; each snapshot has the manifests of the one before and its own.

    Attributes:
        folder: where it is.
        columns: of each schema: id, name and type.
        specs: partition specs.
        version: of the format.
    """

    folder: Path
    columns: Sequence[Mapping[int, tuple[str, str]]]
    specs: Sequence[PartitionSpec] = (PartitionSpec(0, ()),)
    version: int = 2
    required: Sequence[int] = ()
    snapshots: list[dict[str, Any]] = field(default_factory=list)
    manifests: list[ManifestFile] = field(default_factory=list)

    def add(
        self,
        *entries: dict[str, Any],
        spec_id: int = 0,
        types: Sequence[str] = (),
        content: int = 0,
        operation: str = "append",
        schema_id: int = 0,
        lost: Collection[str] = (),
        summaries: Sequence[PartitionSummary] | None = None,
    ) -> int:
        """A snapshot with one more manifest; its id, which is its sequence number too.

        Partition fields in `lost` have the null type.
        """
        number = len(self.snapshots) + 1
        used = next(each for each in self.specs if each.spec_id == spec_id)
        schema = manifest_schema(used, [parse_primitive(type) for type in types], max(self.version, 2))
        without_partition_values(schema, lost)
        records = [entry | {"snapshot_id": entry["snapshot_id"] or number} for entry in entries]
        target = BytesIO()
        metadata = {
            "partition-spec-id": str(spec_id),
            "format-version": str(self.version),
            "content": "deletes" if content else "data",
        }
        fastavro.writer(target, schema, records, codec="deflate", metadata=metadata)
        path = self._write(f"m{number}.avro", target.getvalue())
        added = sum(entry["status"] == 1 for entry in entries)
        self.manifests.append(
            ManifestFile(
                path, len(target.getvalue()), spec_id, content, number, number, number, added,
                len(entries) - added, 0, 5 * added, 0, 0, None if summaries is None else tuple(summaries),
            )
        )  # fmt: skip
        self.snapshots.append(
            {
                "snapshot-id": number,
                "parent-snapshot-id": number - 1 or None,
                "sequence-number": number,
                "timestamp-ms": number,
                "manifest-list": self._list(number),
                "schema-id": schema_id,
                "summary": {"operation": operation},
            }
        )
        return number

    def metadata(self) -> bytes:
        """The metadata document."""
        schemas = [
            {
                "type": "struct",
                "schema-id": place,
                "fields": [
                    {"id": id, "name": name, "type": type, "required": id in self.required}
                    for id, (name, type) in columns.items()
                ],
            }
            for place, columns in enumerate(self.columns)
        ]
        last = len(self.snapshots)
        for each in self.snapshots if self.version == 1 else ():
            each["sequence-number"] = None
        snapshots = [
            {key: value for key, value in each.items() if value is not None} for each in self.snapshots
        ]
        document = {
            "format-version": self.version,
            "table-uuid": "c9b1f1c3-25a1-4a5c-8f6b-3f1d5d3b2a10",
            "location": f"file://{self.folder}",
            "last-sequence-number": last if self.version > 1 else 0,
            "last-updated-ms": 1,
            "last-column-id": 100,
            "schemas": schemas,
            "current-schema-id": len(schemas) - 1,
            "partition-specs": [msgspec.to_builtins(each) for each in self.specs],
            "default-spec-id": self.specs[-1].spec_id,
            "last-partition-id": 1999,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "current-snapshot-id": last or -1,
            "snapshots": snapshots,
        }
        if self.version == 1:
            document |= {"schema": schemas[-1], "partition-spec": []}
        if self.version == 3:
            document["next-row-id"] = 0
        return json.dumps(document).encode()

    def _list(self, number: int) -> str:
        target = BytesIO()
        records = []
        for manifest in self.manifests:
            record = msgspec.to_builtins(manifest, builtin_types=(bytes,))
            if manifest.partitions is not None:
                record["partitions"] = [dict(each) for each in record["partitions"]]
            records.append(record)
        fastavro.writer(target, manifest_list_schema(2), records)
        return self._write(f"list-{number}.avro", target.getvalue())

    def _write(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.write_bytes(data)
        return f"file://{path}"
