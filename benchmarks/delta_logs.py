"""Delta tables for the benchmark: many files that exist in the log only, and many with deletion vectors."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import struct
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.delta_tables import large_table

__all__ = ["VECTOR_ROWS", "add_version", "link_large_table", "write_checkpointed", "write_with_vectors"]

_COLUMNS = 100
_BATCH = 10_000
_VECTORS_IN_FILE = 500
VECTOR_ROWS = 1_000
"""Rows in each file of the table with deletion vectors; one in ten is deleted."""


def link_large_table(table: Path) -> None:
    """The table of 300,000 files by its log of five commits, which has no statistics."""
    shutil.copytree(large_table(), table, copy_function=os.link)


def write_checkpointed(table: Path, files: int) -> None:
    """The same columns, all files in one checkpoint as Spark writes it, with statistics of 100 columns.

    Args:
        table: the folder that is made.
        files: how many; no data is written.
    """
    log = table / "_delta_log"
    log.mkdir(parents=True)
    protocol, metadata = (json.loads(line) for line in _lines(large_table(), 0))
    metadata["metaData"].setdefault("configuration", {})
    add = pa.struct(
        [
            ("path", pa.string()),
            ("partitionValues", pa.map_(pa.string(), pa.string())),
            ("size", pa.int64()),
            ("modificationTime", pa.int64()),
            ("dataChange", pa.bool_()),
            ("stats", pa.string()),
        ]
    )
    schema = pa.schema([("protocol", _PROTOCOL), ("metaData", _METADATA), ("add", add)])
    with pq.ParquetWriter(
        log / f"{1:020}.checkpoint.parquet", schema, compression="snappy", use_dictionary=False
    ) as writer:
        head = [protocol | {"metaData": None, "add": None}, metadata | {"protocol": None, "add": None}]
        for row in head:
            details = row["metaData"]
            if details:
                row["metaData"] = {name: details.get(name) for name in _METADATA_NAMES}
        writer.write_table(pa.Table.from_pylist(head, schema))
        for start in range(0, files, _BATCH):
            adds = [_checkpoint_add(number) for number in range(start, min(start + _BATCH, files))]
            writer.write_table(pa.table({**_nulls(schema, len(adds)), "add": pa.array(adds, add)}, schema))
    (log / "_last_checkpoint").write_text(json.dumps({"version": 1, "size": files + 2}))
    (log / f"{1:020}.json").write_text(json.dumps({"commitInfo": {"timestamp": 1, "operation": "OPTIMIZE"}}))


_PROTOCOL = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", pa.map_(pa.string(), pa.string()))])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", pa.map_(pa.string(), pa.string())),
        ("createdTime", pa.int64()),
    ]
)
_METADATA_NAMES = [field.name for field in _METADATA]


def _nulls(schema: pa.Schema, count: int) -> dict[str, pa.Array]:
    return {field.name: pa.nulls(count, field.type) for field in schema if field.name != "add"}


def _checkpoint_add(number: int) -> dict[str, Any]:
    partition = f"part_{number % 100}"
    return {
        "path": f"{partition}/file_{number}.parquet",
        "partitionValues": [("partition_col", partition)],
        "size": 1 << 20,
        "modificationTime": 1_700_000_000_000 + number,
        "dataChange": False,
        "stats": statistics(number),
    }


_NAMES = [f"col_{column}" for column in range(_COLUMNS)]
_TEMPLATE = (
    '{"numRecords":%d,"minValues":{'
    + ",".join(f'"{name}":%d' for name in _NAMES)
    + '},"maxValues":{'
    + ",".join(f'"{name}":%d' for name in _NAMES)
    + '},"nullCount":{'
    + ",".join(f'"{name}":%d' for name in _NAMES)
    + "}}"
)


def statistics(number: int) -> str:
    """Statistics of a file: bounds and null counts of 100 columns of whole numbers; about 5 KB."""
    values = random.Random(number).choices(range(1 << 40), k=_COLUMNS)
    upper = [value + 1_000_000 for value in values]
    return _TEMPLATE % (10_000, *values, *upper, *(value % 100 for value in values))


def add_version(table: Path, *, with_statistics: bool, changed: int = 100) -> int:
    """Adds a version that removes files of many partitions and adds as many others; returns its number.

    Args:
        table: the table.
        with_statistics: whether the new files have some.
        changed: removed and added files together.
    """
    log = table / "_delta_log"
    version = max(int(file.name[:20]) for file in log.glob("*.json")) + 1
    added = [f"part_{number % 100}/new_{version}_{number}.parquet" for number in range(changed // 2)]
    actions: list[dict[str, Any]] = [
        {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}}
        for path in _some_paths(table, changed // 2, version)
    ]
    for number, path in enumerate(added):
        add = {
            "path": path,
            "partitionValues": {"partition_col": path.partition("/")[0]},
            "size": 1 << 20,
            "modificationTime": 1_800_000_000_000,
            "dataChange": True,
        }
        actions.append({"add": add | ({"stats": statistics(number)} if with_statistics else {})})
    _write_commit(log, version, actions)
    return version


def _some_paths(table: Path, count: int, version: int) -> list[str]:
    """Paths of files all over the table, others for each of eight versions."""
    log = table / "_delta_log"
    checkpoint = log / f"{1:020}.checkpoint.parquet"
    if checkpoint.exists():
        adds = pq.ParquetFile(checkpoint).read(["add.path"])["add"].combine_chunks().field("path")
        paths = [path for path in adds.to_pylist() if path]
    else:
        paths = [add["path"] for number in (2, 3, 4) for add in _adds(table, number)]
    scattered = random.Random(0).sample(paths, 8 * count)
    return scattered[version % 8 * count :][:count]


def _adds(table: Path, version: int) -> Iterator[dict[str, Any]]:
    for line in _lines(table, version):
        action = json.loads(line)
        if "add" in action:
            yield action["add"]


def write_with_vectors(table: Path, files: int) -> None:
    """A table of which each file has a deletion vector.

    Its files are links to one Parquet file. Version 0 adds them, version 1 gives each its vector.
    """
    log = table / "_delta_log"
    log.mkdir(parents=True)
    first = table / "part-00000.parquet"
    pq.write_table(pa.table({"id": range(VECTOR_ROWS), "value": [0.5] * VECTOR_ROWS}), first)
    size = first.stat().st_size
    names = [first.name, *(f"part-{number:05}.parquet" for number in range(1, files))]
    for name in names[1:]:
        os.link(first, table / name)
    stats = json.dumps(
        {
            "numRecords": VECTOR_ROWS,
            "minValues": {"id": 0, "value": 0.5},
            "maxValues": {"id": VECTOR_ROWS - 1, "value": 0.5},
            "nullCount": {"id": 0, "value": 0},
        }
    )
    columns = [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "value", "type": "double", "nullable": True, "metadata": {}},
    ]
    metadata = {
        "id": str(uuid.UUID(int=4)),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": [],
        "configuration": {"delta.enableDeletionVectors": "true"},
        "createdTime": 1_700_000_000_000,
    }
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}
    protocol["writerFeatures"] = features
    adds = [
        {
            "path": name,
            "partitionValues": {},
            "size": size,
            "modificationTime": 1_700_000_000_000,
            "dataChange": True,
            "stats": stats,
        }
        for name in names
    ]
    head: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": metadata}]
    _write_commit(log, 0, [*head, *({"add": add} for add in adds)])
    vectors = _write_vectors(table, files)
    removes = [
        {"remove": {"path": name, "deletionTimestamp": 1, "dataChange": True, "size": size}} for name in names
    ]
    with_vectors = [
        {"add": add | {"deletionVector": vector}} for add, vector in zip(adds, vectors, strict=True)
    ]
    _write_commit(log, 1, [*removes, *with_vectors])


def _write_vectors(table: Path, files: int) -> Iterator[dict[str, Any]]:
    from pyroaring import BitMap

    for start in range(0, files, _VECTORS_IN_FILE):
        name = uuid.UUID(int=start + 1)
        file = bytearray(b"\x01")
        for number in range(start, min(start + _VECTORS_IN_FILE, files)):
            deleted = BitMap(random.Random(number).sample(range(VECTOR_ROWS), VECTOR_ROWS // 10))
            payload = _MAGIC + struct.pack("<QI", 1, 0) + deleted.serialize()
            offset = len(file)
            file += struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
            yield {
                "storageType": "u",
                "pathOrInlineDv": _z85(name.bytes),
                "offset": offset,
                "sizeInBytes": len(payload),
                "cardinality": len(deleted),
            }
        (table / f"deletion_vector_{name}.bin").write_bytes(file)


_MAGIC = struct.pack("<I", 1681511377)
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _z85(data: bytes) -> str:
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(_Z85[word // 85**power % 85] for word in words for power in range(4, -1, -1))


def _write_commit(log: Path, version: int, actions: list[dict[str, Any]]) -> None:
    info = {"commitInfo": {"timestamp": 1_700_000_000_000 + version, "operation": "WRITE"}}
    lines = (json.dumps(action, separators=(",", ":")) for action in itertools.chain([info], actions))
    (log / f"{version:020}.json").write_text("\n".join(lines))


def _lines(table: Path, version: int) -> list[str]:
    return (table / "_delta_log" / f"{version:020}.json").read_text().splitlines()
