"""A small writer of Delta tables for tests, which remembers the rows of every version.

It writes what the Delta protocol describes and Spark does: statistics with timestamps cut to milliseconds and
long strings cut with a tie-breaker, partition values by physical names, deletion vectors of all kinds.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = [
    "DataFile",
    "DeltaWriter",
    "WriteFile",
    "deletion_vector_payload",
    "delta_schema",
    "statistics",
    "z85_encode",
]

_MAGIC = 1681511377
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_STRING_PREFIX = 32
_TIE_BREAKER = "\U0010ffff"
_JSON = msgspec.json.Encoder(decimal_format="number")
_TYPES = {
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
_FIELD_ID = b"PARQUET:field_id"

WriteFile = Callable[[pa.Table, Path], Any]
"""Writes rows to a Parquet file."""


@dataclass
class DataFile:
    """A live data file."""

    path: str
    """Below the table, not encoded."""
    rows: pa.Table
    """What is in it, with the partition columns, deleted rows too."""
    add: dict[str, Any]
    """The action that added it last."""
    deleted: set[int] = field(default_factory=set)
    """Positions of deleted rows."""

    @property
    def live_rows(self) -> pa.Table:
        """What is left of it."""
        return self.rows.take(pa.array(sorted(set(range(self.rows.num_rows)) - self.deleted), pa.int64()))


class DeltaWriter:
    """A Delta table that is written commit by commit."""

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        *,
        partitions: Sequence[str] = (),
        mapping: str | None = None,
        configuration: Mapping[str, str] | None = None,
        reader_features: Sequence[str] = (),
    ) -> None:
        """Creates a table with version 0.

        Args:
            folder: the folder of the table; it is made.
            schema: its columns, logical names.
            partitions: names of partition columns.
            mapping: mode of column mapping, `name` or `id`.
            configuration: further properties.
            reader_features: features beside those that the table needs.
        """
        self.folder = folder
        (folder / "_delta_log").mkdir(parents=True)
        self.files: list[DataFile] = []
        self.rows: dict[int, pa.Table] = {}
        self.version = -1
        self.mapping = mapping
        self._partitions = tuple(partitions)
        self._configuration = dict(configuration or {})
        self._last_id = 0
        self._features = ["deletionVectors", *reader_features]
        self.set_schema(schema)

    def set_schema(self, schema: pa.Schema, *, partitions: Sequence[str] | None = None) -> int:
        """Commits another schema; new columns get new ids and physical names, under column mapping.

        A field keeps those that it brings in its metadata, as `id` and `physical`.
        """
        return self.commit(self._schema_actions(schema, partitions))

    def replace(self, rows: pa.Table, partitions: Sequence[str]) -> int:
        """Commits other columns, partitions and rows in place of all that there are, in one version."""
        actions: list[dict[str, Any]] = [{"remove": self._removal(file)} for file in self.files]
        actions += self._schema_actions(rows.schema, partitions)
        self.files = [self._write(part, None, {}) for part in self._parts(rows)]
        return self.commit([*actions, *({"add": file.add} for file in self.files)])

    def _schema_actions(self, schema: pa.Schema, partitions: Sequence[str] | None) -> list[dict[str, Any]]:
        if partitions is not None:
            self._partitions = tuple(partitions)
        self.schema = pa.schema([self._with_mapping(each) for each in schema])
        configuration = dict(self._configuration)
        features = list(self._features)
        if self.mapping:
            features.append("columnMapping")
            configuration["delta.columnMapping.mode"] = self.mapping
            configuration["delta.columnMapping.maxColumnId"] = str(self._last_id)
        if any(_has_ntz(each.type) for each in self.schema):
            features.append("timestampNtz")
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": features,
        }
        metadata = {
            "id": str(uuid.uuid5(uuid.NAMESPACE_URL, str(self.folder))),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": msgspec.json.encode(delta_schema(self.schema)).decode(),
            "partitionColumns": list(self._partitions),
            "configuration": configuration,
            "createdTime": 0,
        }
        return [{"protocol": protocol}, {"metaData": metadata}]

    def append(
        self, rows: pa.Table, *, path: str | None = None, write: WriteFile = pq.write_table, **of_add: Any
    ) -> int:
        """Commits rows as one data file per partition, in one version.

        Args:
            rows: with all columns of the schema.
            path: the only data file's, below the table.
            write: writes a data file.
            of_add: fields of the actions to put in place of what would be written, e.g. `stats`.
        """
        rows = rows.select(self.schema.names).cast(pa.schema([_bare(each) for each in self.schema]))
        files = [self._write(part, path, of_add, write) for part in self._parts(rows)]
        self.files += files
        return self.commit([{"add": file.add} for file in files])

    def delete(self, positions: Mapping[int, Iterable[int]], *, storage: str = "u") -> int:
        """Commits a deletion vector for each of some files, by their place in `files`.

        Args:
            positions: the rows to delete, by the place of their file.
            storage: where vectors go: `u`, `p` or `i`.
        """
        actions: list[dict[str, Any]] = []
        for place, deleted in positions.items():
            file = self.files[place]
            actions.append({"remove": self._removal(file)})
            file.deleted |= set(deleted)
            stats = (
                msgspec.json.decode(file.add["stats"], type=dict[str, Any]) if file.add.get("stats") else {}
            )
            if stats:
                # Text, so that numbers stay as they are.
                stats_text = file.add["stats"].replace(',"tightBounds":true', "")
                file.add = file.add | {"stats": stats_text[:-1] + ',"tightBounds":false}'}
            file.add = file.add | {"deletionVector": self.store_vector(sorted(file.deleted), storage)}
            actions.append({"add": file.add})
        return self.commit(actions)

    def remove(self, places: Iterable[int]) -> int:
        """Commits that some files are gone, by their place in `files`."""
        gone = sorted(places, reverse=True)
        actions = [{"remove": self._removal(self.files[place])} for place in gone]
        for place in gone:
            del self.files[place]
        return self.commit(actions)

    def commit(self, actions: Sequence[Mapping[str, Any]]) -> int:
        """Writes the next version from actions and remembers the live rows.

        Returns:
            The version.
        """
        self.version += 1
        at_ms = 1_700_000_000_000 + 1000 * self.version
        info = {"commitInfo": {"timestamp": at_ms, "operation": "WRITE", "operationParameters": {}}}
        lines = [_JSON.encode(action) for action in (info, *actions)]
        log = self.folder / "_delta_log" / f"{self.version:020}.json"
        # Readers see a commit whole or not at all.
        partial = self.folder / f".{log.name}"
        partial.write_bytes(b"\n".join(lines) + b"\n")
        self.rows[self.version] = self._live_rows()
        partial.rename(log)
        return self.version

    def store_vector(self, positions: Sequence[int], storage: str) -> dict[str, Any]:
        """Stores a deletion vector and returns its descriptor."""
        payload = deletion_vector_payload(positions)
        described = {"sizeInBytes": len(payload), "cardinality": len(positions)}
        if storage == "i":
            padded = payload + b"\0" * (-len(payload) % 4)
            return {"storageType": "i", "pathOrInlineDv": z85_encode(padded)} | described
        name = uuid.uuid4()
        folder = "ab" if storage == "u" else ""
        file = self.folder / folder / f"deletion_vector_{name}.bin"
        file.parent.mkdir(exist_ok=True)
        frame = struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
        file.write_bytes(b"\x01" + frame)
        place = folder + z85_encode(name.bytes) if storage == "u" else file.as_uri()
        return {"storageType": storage, "pathOrInlineDv": place, "offset": 1} | described

    def _live_rows(self) -> pa.Table:
        empty = pa.schema([_bare(each) for each in self.schema]).empty_table()
        parts = [self._as_of_now(file.live_rows) for file in self.files]
        return pa.concat_tables([empty, *parts]) if parts else empty

    def _as_of_now(self, rows: pa.Table) -> pa.Table:
        """The rows of an older file under the schema of now: columns go by their physical names."""
        by_physical = {
            _physical(each): name for each, name in zip(rows.schema, rows.column_names, strict=True)
        }
        columns = []
        for each in self.schema:
            name = by_physical.get(_physical(each))
            wanted = _bare(each).type
            columns.append(rows[name].cast(wanted) if name else pa.nulls(rows.num_rows, wanted))
        return pa.table(columns, schema=pa.schema([_bare(each) for each in self.schema]))

    def _parts(self, rows: pa.Table) -> list[pa.Table]:
        if not self._partitions:
            return [rows]
        keys = list(zip(*(map(repr, rows[name].to_pylist()) for name in self._partitions), strict=True))
        places = {key: [at for at, other in enumerate(keys) if other == key] for key in dict.fromkeys(keys)}
        return [rows.take(pa.array(chosen, pa.int64())) for chosen in places.values()]

    def _write(
        self,
        rows: pa.Table,
        path: str | None,
        of_add: Mapping[str, Any],
        write: WriteFile = pq.write_table,
    ) -> DataFile:
        fields = [each for each in self.schema if each.name not in self._partitions]
        values = {
            _physical(each): partition_text(rows[each.name][0])
            for name in self._partitions
            for each in [self.schema.field(name)]
        }
        folder = "".join(f"{key}={_escaped(value)}/" for key, value in values.items())
        where = path or f"{'' if self.mapping else folder}part-{uuid.uuid4()}.parquet"
        target = self.folder / where
        target.parent.mkdir(parents=True, exist_ok=True)
        stored = pa.schema([_stored(each, with_ids=self.mapping is not None) for each in fields])
        columns = [
            _renamed(rows[each.name].combine_chunks(), _stored(each, with_ids=False).type) for each in fields
        ]
        physical = pa.table(columns, schema=stored)
        write(physical, target)
        add = {
            "path": quote(where),
            "partitionValues": values,
            "size": target.stat().st_size,
            "modificationTime": 1_700_000_000_000,
            "dataChange": True,
            "stats": _JSON.encode(statistics(physical)).decode(),
        }
        with_fields = pa.table(rows.columns, schema=pa.schema(list(self.schema)))
        return DataFile(where, with_fields, add | dict(of_add))

    def _removal(self, file: DataFile) -> dict[str, Any]:
        kept = ("path", "partitionValues", "size", "deletionVector")
        removal = {key: file.add[key] for key in kept if key in file.add}
        return removal | {"deletionTimestamp": 0, "dataChange": True, "extendedFileMetadata": True}

    def _with_mapping(self, each: pa.Field) -> pa.Field:
        if not self.mapping:
            return each
        known = each.metadata or {}
        if b"id" in known:
            self._last_id = max(self._last_id, int(known[b"id"]))
        else:
            self._last_id += 1
            known = {b"id": str(self._last_id).encode(), b"physical": f"col-{uuid.uuid4()}".encode()}
        return pa.field(each.name, _with_fields(each.type, self._with_mapping), each.nullable, known)


def delta_schema(schema: pa.Schema) -> dict[str, Any]:
    """A schema as Delta writes it."""
    return {"type": "struct", "fields": [_delta_field(each) for each in schema]}


def partition_text(value: pa.Scalar) -> str | None:
    """A partition value as it stands in the log."""
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(value.type):
        return str(np.datetime64(value.cast(pa.int64()).as_py(), "us")).replace("T", " ")
    if pa.types.is_boolean(value.type):
        return str(value.as_py()).lower()
    if pa.types.is_binary(value.type):
        return str(value.as_py().decode())
    return str(value.as_py())


def statistics(rows: pa.Table) -> dict[str, Any]:
    """The statistics of a file with these rows, as Spark would write them."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for name in rows.column_names:
        _add_statistics(rows[name].combine_chunks(), name, low, high, nulls)
    return {
        "numRecords": rows.num_rows,
        "minValues": low,
        "maxValues": high,
        "nullCount": nulls,
        "tightBounds": True,
    }


def deletion_vector_payload(positions: Sequence[int]) -> bytes:
    """The bitmap of some positions, in the form that all kinds of storage hold."""
    from pyroaring import BitMap64

    return struct.pack("<i", _MAGIC) + bytes(BitMap64(positions).serialize())


def z85_encode(data: bytes) -> str:
    """Bytes, a multiple of four, as Z85."""
    text = ""
    for start in range(0, len(data), 4):
        value, word = int.from_bytes(data[start : start + 4], "big"), ""
        for _ in range(5):
            value, digit = divmod(value, 85)
            word = _Z85[digit] + word
        text += word
    return text


def _add_statistics(
    array: pa.Array, name: str, low: dict[str, Any], high: dict[str, Any], nulls: dict[str, Any]
) -> None:
    if pa.types.is_struct(array.type):
        of_children: tuple[dict[str, Any], ...] = ({}, {}, {})
        for child, column in zip(array.type, array.flatten(), strict=True):
            _add_statistics(column, child.name, *of_children)
        low[name], high[name], nulls[name] = of_children
        return
    nulls[name] = array.null_count
    if pa.types.is_nested(array.type) or pa.types.is_binary(array.type):
        return
    if pa.types.is_timestamp(array.type):
        counts = array.cast(pa.int64())
    elif pa.types.is_date(array.type):
        counts = array.cast(pa.int32())
    else:
        counts = array
    # Delta leaves out what JSON has no numbers for.
    values = [value for value in counts.to_pylist() if value is not None]
    if not values or any(value != value or value in (float("inf"), float("-inf")) for value in values):
        return
    low[name] = _written(min(values), array.type)
    high[name] = _written(max(values), array.type, upper=True)


def _written(value: Any, type_: pa.DataType, *, upper: bool = False) -> Any:
    if pa.types.is_timestamp(type_):
        return f"{np.datetime64(value // 1000, 'ms')}" + ("Z" if type_.tz else "")
    if pa.types.is_date(type_):
        return str(np.datetime64(value, "D"))
    if pa.types.is_string(type_) and len(value) > _STRING_PREFIX:
        return _cut_above(value) if upper else value[:_STRING_PREFIX]
    return value


def _cut_above(value: str) -> str:
    """A shorter string that is greater, where there is one."""
    for length in range(_STRING_PREFIX, len(value)):
        if value[length] < _TIE_BREAKER:
            return value[:length] + _TIE_BREAKER
    return value


def _delta_field(each: pa.Field) -> dict[str, Any]:
    known = each.metadata or {}
    metadata: dict[str, Any] = {}
    if b"id" in known:
        metadata["delta.columnMapping.id"] = int(known[b"id"])
        metadata["delta.columnMapping.physicalName"] = known[b"physical"].decode()
    return {
        "name": each.name,
        "type": _delta_type(each.type),
        "nullable": each.nullable,
        "metadata": metadata,
    }


def _delta_type(type_: pa.DataType) -> Any:
    if pa.types.is_struct(type_):
        return delta_schema(pa.schema(list(type_)))
    if pa.types.is_list(type_):
        return {"type": "array", "elementType": _delta_type(type_.value_type), "containsNull": True}
    if pa.types.is_map(type_):
        kinds = {"keyType": _delta_type(type_.key_type), "valueType": _delta_type(type_.item_type)}
        return {"type": "map", "valueContainsNull": True} | kinds
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return _TYPES[type_]


def _has_ntz(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return any(_has_ntz(child.type) for child in type_)
    if pa.types.is_list(type_):
        return _has_ntz(type_.value_type)
    return bool(pa.types.is_timestamp(type_) and type_.tz is None)


def _physical(each: pa.Field) -> str:
    return (each.metadata or {}).get(b"physical", each.name.encode()).decode()


def _bare(each: pa.Field) -> pa.Field:
    """A field without what belongs to Delta."""
    return pa.field(each.name, _with_fields(each.type, _bare), each.nullable)


def _stored(each: pa.Field, *, with_ids: bool) -> pa.Field:
    """A field as it stands in data files."""
    type_ = _with_fields(each.type, lambda child: _stored(child, with_ids=with_ids))
    ids = {_FIELD_ID: (each.metadata or {})[b"id"]} if with_ids else None
    return pa.field(_physical(each), type_, each.nullable, ids)


def _renamed(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The same values under other names of struct fields."""
    if pa.types.is_list(array.type) or pa.types.is_map(array.type):
        return pa.array([_renamed_value(value, type_) for value in array.to_pylist()], type_)
    if not pa.types.is_struct(array.type):
        return array
    columns = [_renamed(array.field(at), child.type) for at, child in enumerate(type_)]
    mask = array.is_null()
    return pa.StructArray.from_arrays(columns, fields=list(type_), mask=mask)


def _renamed_value(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {
            child.name: _renamed_value(inner, child.type)
            for child, inner in zip(type_, value.values(), strict=True)
        }
    if pa.types.is_list(type_):
        return [_renamed_value(inner, type_.value_type) for inner in value]
    if pa.types.is_map(type_):
        return [
            (_renamed_value(key, type_.key_type), _renamed_value(inner, type_.item_type))
            for key, inner in value
        ]
    return value


def _with_fields(type_: pa.DataType, change: Callable[[pa.Field], pa.Field]) -> pa.DataType:
    """A type with other fields in its structs, those in its lists and maps too."""
    if pa.types.is_struct(type_):
        return pa.struct([change(child) for child in type_])
    if pa.types.is_list(type_):
        return pa.list_(_with_fields(type_.value_type, change))
    if pa.types.is_map(type_):
        return pa.map_(_with_fields(type_.key_type, change), _with_fields(type_.item_type, change))
    return type_


def _escaped(value: str | None) -> str:
    return "__HIVE_DEFAULT_PARTITION__" if value is None else quote(value, safe=" ")
