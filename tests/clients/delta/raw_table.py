"""Delta tables laid out by hand: data files hold whatever a test wants, and the log says something else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["RawTable", "column", "mapped", "with_ids"]

_MAPPING = "delta.columnMapping"


def column(name: str, type_: object, **metadata: Any) -> dict[str, Any]:
    """A column of a schema in the log."""
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def mapped(name: str, id_: int, type_: object, physical: str) -> dict[str, Any]:
    """A column with its id and its physical name."""
    return column(name, type_, **{f"{_MAPPING}.id": id_, f"{_MAPPING}.physicalName": physical})


def with_ids(table: pa.Table, ids: Mapping[str, int]) -> pa.Table:
    """A table whose columns have Parquet field ids; of those that are named."""
    fields = [
        field.with_metadata({"PARQUET:field_id": str(ids[field.name])}) if field.name in ids else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


class RawTable:
    """A Delta table, commit by commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = -1
        (folder / "_delta_log").mkdir(parents=True)

    def commit(self, *actions: Mapping[str, Any]) -> int:
        """Writes the next version, and returns its number."""
        self.version += 1
        lines = [json.dumps(action) for action in actions]
        self._log(self.version).write_text("\n".join(lines) + "\n")
        return self.version

    def define(
        self,
        *columns: Mapping[str, Any],
        partitions: Sequence[str] = (),
        mode: str | None = None,
        **configuration: str,
    ) -> list[dict[str, Any]]:
        """The actions that give a table its schema; `_` in properties is `.`."""
        properties = {f"delta.{key.replace('_', '.')}": value for key, value in configuration.items()}
        if mode:
            properties |= {f"{_MAPPING}.mode": mode, f"{_MAPPING}.maxColumnId": "50"}
        features = ["deletionVectors", "timestampNtz", "columnMapping"]
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": [*features, "materializePartitionColumns", "rowTracking", "domainMetadata"],
        }
        metadata = {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": columns}),
            "partitionColumns": list(partitions),
            "configuration": properties,
            "createdTime": 0,
        }
        return [{"protocol": protocol}, {"metaData": metadata}]

    def add(
        self,
        path: str,
        rows: pa.Table,
        partition: Mapping[str, str | None] | None = None,
        *,
        stats: Mapping[str, Any] | None = None,
        time_ms: int = 1_700_000_000_000,
        **of_write: Any,
    ) -> dict[str, Any]:
        """Writes a data file as it is, and returns the action that adds it."""
        pq.write_table(rows, self.folder / path, **of_write)
        return {
            "add": {
                "path": path,
                "partitionValues": dict(partition or {}),
                "size": (self.folder / path).stat().st_size,
                "modificationTime": time_ms,
                "dataChange": True,
                "stats": json.dumps({"numRecords": rows.num_rows} | dict(stats or {})),
            }
        }

    def remove(self, add: Mapping[str, Any]) -> dict[str, Any]:
        """The action that removes a file."""
        kept = {key: add["add"][key] for key in ("path", "partitionValues", "size")}
        return {"remove": kept | {"deletionTimestamp": 0, "dataChange": True, "extendedFileMetadata": True}}

    def clean_log(self, define: Sequence[Mapping[str, Any]], adds: Sequence[Mapping[str, Any]]) -> None:
        """Writes a checkpoint of the newest version and deletes the commits up to it."""
        entries = pa.map_(pa.string(), pa.string())
        files = {
            "path": pa.string(),
            "partitionValues": entries,
            "size": pa.int64(),
            "modificationTime": pa.int64(),
            "dataChange": pa.bool_(),
            "stats": pa.string(),
        }
        protocol, metadata = define[0]["protocol"], define[1]["metaData"]
        features = pa.list_(pa.string())
        schema = pa.schema(
            {
                "protocol": pa.struct(
                    {
                        "minReaderVersion": pa.int32(),
                        "minWriterVersion": pa.int32(),
                        "readerFeatures": features,
                        "writerFeatures": features,
                    }
                ),
                "metaData": pa.struct(
                    {
                        "id": pa.string(),
                        "format": pa.struct({"provider": pa.string(), "options": entries}),
                        "schemaString": pa.string(),
                        "partitionColumns": pa.list_(pa.string()),
                        "configuration": entries,
                        "createdTime": pa.int64(),
                    }
                ),
                "add": pa.struct(files),
            }
        )
        told = metadata | {
            "format": {"provider": "parquet", "options": []},
            "configuration": list(metadata["configuration"].items()),
        }
        rows: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": told}]
        for action in adds:
            values = list(action["add"]["partitionValues"].items())
            rows.append({"add": action["add"] | {"partitionValues": values}})
        log = self._log(self.version)
        pq.write_table(pa.Table.from_pylist(rows, schema), log.with_suffix(".checkpoint.parquet"))
        for version in range(self.version + 1):
            self._log(version).unlink()

    def _log(self, version: int) -> Path:
        return self.folder / "_delta_log" / f"{version:020}.json"
