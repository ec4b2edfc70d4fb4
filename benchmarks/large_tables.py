"""Tables of many small files: real data files, manifests, lists and metadata, as an engine leaves them."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import fastavro

from floecat.iceberg.manifests.avro_schemas import manifest_list_schema, manifest_schema
from floecat.iceberg.schemas.partitioning import PartitionSpec

__all__ = ["LargeTable", "write_local", "write_table"]

Write = Callable[[str, bytes], None]
"""Writes a file to a location that has none."""

_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}
_DATA = b"PAR1"
_FILES_IN_MANIFEST = 1_000
_FILES_IN_FOLDER = 5_000
_THREADS = 16


class LargeTable(NamedTuple):
    """A table in storage that no catalog knows of."""

    location: str
    metadata_location: str
    files: int
    """All of them, metadata included."""


def write_local(location: str, data: bytes) -> None:
    """Writes to the local disk, without waiting for it."""
    path = urlsplit(location).path
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(descriptor, data)
    os.close(descriptor)


def write_table(
    location: str, data_files: int, write: Write = write_local, *, threads: int = 1
) -> LargeTable:
    """Writes a table of two snapshots, of which the second one names all data files.

    Args:
        location: where it is.
        data_files: how many there are, each of four bytes.
        write: writes a file.
        threads: data files written at a time; more than one pays in object storage only.
    """
    paths = [f"{location}/data/{number // _FILES_IN_FOLDER}/{number}.parquet" for number in range(data_files)]
    if threads == 1:
        for path in paths:
            write(path, _DATA)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda path: write(path, _DATA), paths, chunksize=100))
    manifests = list(_manifests(location, paths, write))
    half = max(1, len(manifests) // 2)
    snapshots = [
        _snapshot(location, number, listed, write)
        for number, listed in ((1, manifests[:half]), (2, manifests))
    ]
    metadata_location = f"{location}/metadata/00001-{uuid.uuid4()}.metadata.json"
    first = f"{location}/metadata/00000-{uuid.uuid4()}.metadata.json"
    write(first, _document(location, snapshots[:1], []))
    write(metadata_location, _document(location, snapshots, [first]))
    return LargeTable(location, metadata_location, data_files + len(manifests) + 4)


def _manifests(location: str, paths: Sequence[str], write: Write) -> Iterator[dict[str, Any]]:
    schema = manifest_schema(PartitionSpec(0, ()), [], 2)
    header = {
        "schema": json.dumps(_SCHEMA),
        "schema-id": "0",
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": "2",
        "content": "data",
    }
    for number, start in enumerate(range(0, len(paths), _FILES_IN_MANIFEST)):
        part = paths[start : start + _FILES_IN_MANIFEST]
        file = BytesIO()
        fastavro.writer(file, schema, map(_entry, part), codec="deflate", metadata=header)
        path = f"{location}/metadata/{number}-m0.avro"
        write(path, file.getvalue())
        yield {
            "manifest_path": path,
            "manifest_length": len(file.getvalue()),
            "partition_spec_id": 0,
            "content": 0,
            "sequence_number": 1,
            "min_sequence_number": 1,
            "added_snapshot_id": 1,
            "added_files_count": len(part),
            "existing_files_count": 0,
            "deleted_files_count": 0,
            "added_rows_count": len(part),
            "existing_rows_count": 0,
            "deleted_rows_count": 0,
            "partitions": [],
        }


def _entry(path: str) -> dict[str, Any]:
    data_file = {
        "content": 0,
        "file_path": path,
        "file_format": "PARQUET",
        "partition": {},
        "record_count": 1,
        "file_size_in_bytes": len(_DATA),
    }
    return {"status": 1, "snapshot_id": 1, "data_file": data_file}


def _snapshot(location: str, number: int, listed: Sequence[dict[str, Any]], write: Write) -> dict[str, Any]:
    file = BytesIO()
    header = {"snapshot-id": str(number), "sequence-number": str(number), "format-version": "2"}
    fastavro.writer(file, manifest_list_schema(2), listed, codec="deflate", metadata=header)
    path = f"{location}/metadata/snap-{number}.avro"
    write(path, file.getvalue())
    parent = {"parent-snapshot-id": number - 1} if number > 1 else {}
    return parent | {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": number,
        "manifest-list": path,
        "summary": {"operation": "append"},
        "schema-id": 0,
    }


def _document(location: str, snapshots: Sequence[dict[str, Any]], log: Sequence[str]) -> bytes:
    last = snapshots[-1]["snapshot-id"]
    document = {
        "format-version": 2,
        "table-uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, location)),
        "location": location,
        "last-sequence-number": last,
        "last-updated-ms": last,
        "last-column-id": 1,
        "schemas": [_SCHEMA],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "current-snapshot-id": last,
        "refs": {"main": {"snapshot-id": last, "type": "branch"}},
        "snapshots": list(snapshots),
        "metadata-log": [{"timestamp-ms": 1, "metadata-file": file} for file in log],
    }
    return json.dumps(document).encode()
