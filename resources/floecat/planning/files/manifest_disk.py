"""Decoded manifests on local disk: Arrow IPC, compressed with a checksum, so that a restart is warm."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa

from floecat.iceberg.file_metrics import ColumnMetrics
from floecat.planning.files.disk_cache import DiskCache
from floecat.planning.files.manifest_files import METRICS, ManifestColumns
from floecat.store.entries.documents import compress, decompress

__all__ = ["FORMAT_VERSION", "ManifestDisk"]

FORMAT_VERSION: Final = 1
"""Grows with each change of `ManifestColumns` or its file: files of other versions are not read."""

_PARTITIONS: Final = "partitions"
_HEADER: Final = b"floecat"


class _Header(msgspec.Struct):
    """The header of a file, with its name, so that it is not taken under another one."""

    name: str
    spec_id: int
    metric_ids: list[int]


class ManifestDisk:
    """Manifests in a folder. Thread-safe.

    A key says all that the decoded form depends on, and how storage is reached. It is no secret and no
    permission: who asks must be allowed to read the manifest.
    """

    def __init__(self, cache: DiskCache) -> None:
        self._cache = cache

    def get(self, key: str) -> ManifestColumns | None:
        """A manifest; a file that is damaged, or is of another key, is deleted."""
        name = _name(key)
        data = self._cache.get(name)
        if data is None:
            return None
        try:
            return _read(data, name)
        except (ValueError, KeyError, msgspec.MsgspecError, pa.ArrowException):
            self._cache.drop(name)
            return None

    def put(self, key: str, files: ManifestColumns) -> None:
        """Keeps a manifest, in the place of one with fewer metrics."""
        name = _name(key)
        self._cache.put(name, _written(files, name))


def _name(key: str) -> str:
    return hashlib.sha256(f"{FORMAT_VERSION} {key}".encode()).hexdigest()


def _written(files: ManifestColumns, name: str) -> bytes:
    columns: dict[str, pa.Array] = {_PARTITIONS: files.partitions}
    for field, column in files.columns.items():
        columns[f"file {field}"] = _repeated(column, len(files)) if isinstance(column, pa.Scalar) else column
    for id, metrics in files.metrics.items():
        arrays = {field: getattr(metrics, field) for field in METRICS}
        columns |= {f"{id} {field}": array for field, array in arrays.items() if array is not None}
    header = msgspec.json.encode(_Header(name, files.spec_id, sorted(files.metric_ids)))
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns)).replace_schema_metadata(
        {_HEADER: header}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return compress(sink.getvalue())


def _repeated(value: pa.Scalar, size: int) -> pa.Array:
    """A value that all files have, which is kept once."""
    return pa.RunEndEncodedArray.from_arrays(pa.array([size], pa.int32()), pa.repeat(value, 1))


def _read(data: bytes, name: str) -> ManifestColumns:
    batch = pa.ipc.open_stream(decompress(data)).read_next_batch()
    header = msgspec.json.decode((batch.schema.metadata or {})[_HEADER], type=_Header)
    if header.name != name:
        raise ValueError("a manifest of another name")
    columns: dict[str, Any] = {}
    metrics: dict[int, dict[str, pa.Array]] = {}
    for title, column in zip(batch.schema.names, batch.columns, strict=True):
        of, _, field = title.partition(" ")
        if of == "file":
            columns[field] = column.values[0] if pa.types.is_run_end_encoded(column.type) else column
        elif field:
            metrics.setdefault(int(of), {})[field] = column
    return ManifestColumns(
        header.spec_id,
        len(batch),
        columns,
        batch.column(_PARTITIONS),
        _metrics(metrics),
        frozenset(header.metric_ids),
    )


def _metrics(found: Mapping[int, Mapping[str, pa.Array]]) -> dict[int, ColumnMetrics]:
    return {id: ColumnMetrics(id, **arrays) for id, arrays in found.items()}
