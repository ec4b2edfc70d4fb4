"""Actions of Delta commits that `DeltaWriter` does not write by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

__all__ = ["column", "metadata", "protocol"]


def metadata(fields: Sequence[dict[str, Any]], **configuration: str) -> dict[str, Any]:
    """A change of schema and configuration."""
    schema = {"type": "struct", "fields": list(fields)}
    return {
        "metaData": {
            "id": "x",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": [],
            "configuration": configuration,
        }
    }


def column(name: str, type_: str, field_id: int | None = None) -> dict[str, Any]:
    """A column of `metadata`, mapped if it has an id."""
    mapped = {"delta.columnMapping.id": field_id, "delta.columnMapping.physicalName": name}
    return {"name": name, "type": type_, "nullable": True, "metadata": mapped if field_id else {}}


def protocol(*features: str) -> dict[str, Any]:
    """Table features of readers and writers."""
    both = {"readerFeatures": list(features), "writerFeatures": list(features)}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | both}
