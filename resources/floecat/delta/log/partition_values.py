"""Partition columns of a log and their values (Delta protocol, "Column Mapping", "Checkpoints").

The log keeps partition values under the physical names of the columns. In Parquet checkpoints they are a map
from these names to texts and, if the table asks for it, also a struct of typed values. The map is read; where
it is left out, the typed values become the texts that it would hold ("Partition Value Serialization").
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.log.file_tables import struct_array
from floecat.delta.protocol.actions import Metadata
from floecat.errors import InvalidDeltaTableError

__all__ = ["physical_partition_names", "texts_of_map", "texts_of_struct"]


class _Field(msgspec.Struct):
    name: str
    metadata: dict[str, Any] = {}


class _Schema(msgspec.Struct):
    fields: list[_Field] = []


def physical_partition_names(metadata: Metadata) -> tuple[str, ...]:
    """Physical names of the partition columns, in their order.

    Raises:
        InvalidDeltaTableError: the schema cannot be parsed or lacks one of them, or one is named twice.
    """
    if not metadata.partition_columns:
        return ()
    try:
        schema = msgspec.json.decode(metadata.schema_string, type=_Schema)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise InvalidDeltaTableError("The schema of the table is not valid JSON of a schema") from None
    mapped = metadata.configuration.get("delta.columnMapping.mode", "none").lower() != "none"
    fields = {field.name: field for field in schema.fields}
    names = [_physical_name(fields.get(name), name, mapped=mapped) for name in metadata.partition_columns]
    if len(set(names)) < len(names):
        raise InvalidDeltaTableError("The table is partitioned by one column twice")
    return tuple(names)


def _physical_name(field: _Field | None, name: str, *, mapped: bool) -> str:
    if field is None:
        raise InvalidDeltaTableError(f"Partition column {name!r} is not in the schema of the table")
    if not mapped:
        return name
    physical_name = field.metadata.get("delta.columnMapping.physicalName")
    if not isinstance(physical_name, str):
        raise InvalidDeltaTableError(f"Partition column {name!r} of a mapped table has no physical name")
    return physical_name


def texts_of_map(values: pa.ChunkedArray, names: Sequence[str]) -> pa.ChunkedArray:
    """Values of a map column as a struct.

    Args:
        values: maps from texts to texts.
        names: keys that become fields; other keys are left out, missing ones are null.

    Returns:
        A struct without nulls, with a text for each name.
    """
    chunks = [struct_array(_of_maps(chunk, names), names, len(chunk)) for chunk in values.chunks]
    return pa.chunked_array(chunks, pa.struct([(name, pa.string()) for name in names]))


def texts_of_struct(
    values: pa.ChunkedArray, names: Sequence[str], *, utc: Collection[str] = ()
) -> pa.ChunkedArray:
    """Typed values as the texts of a map.

    Args:
        values: structs of typed values.
        names: fields to return; missing ones are null.
        utc: fields whose times are in UTC although their type has no zone.

    Returns:
        A struct without nulls, with a text for each name.

    Raises:
        pyarrow.ArrowInvalid: binary values are not UTF-8.
    """
    present = {field.name for field in values.type}
    columns = [
        _text(pc.struct_field(values, [name]), utc=name in utc)
        if name in present
        else pa.chunked_array([pa.nulls(len(chunk), pa.string()) for chunk in values.chunks], pa.string())
        for name in names
    ]
    chunks = [
        struct_array([column.chunk(number) for column in columns], names, len(chunk))
        for number, chunk in enumerate(values.chunks)
    ]
    return pa.chunked_array(chunks, pa.struct([(name, pa.string()) for name in names]))


def _of_maps(maps: pa.MapArray, names: Sequence[str]) -> list[pa.Array]:
    offsets = maps.offsets.to_numpy()
    rows = np.repeat(np.arange(len(maps)), np.diff(offsets))
    held = slice(int(offsets[0]), int(offsets[-1]))
    keys = maps.keys[held].cast(pa.string()).dictionary_encode()
    items = maps.items[held].cast(pa.string())
    codes = keys.indices.to_numpy(zero_copy_only=False)
    known = {key: code for code, key in enumerate(keys.dictionary.to_pylist())}
    return [_of_key(codes == known.get(name, -1), rows, items, len(maps)) for name in names]


def _of_key(
    found: np.ndarray[Any, Any], rows: np.ndarray[Any, Any], items: pa.Array, length: int
) -> pa.Array:
    places = np.full(length, -1, np.int64)
    places[rows[found]] = np.flatnonzero(found)
    return items.take(pa.array(places, mask=places < 0))


def _text(values: pa.ChunkedArray, *, utc: bool) -> pa.ChunkedArray:
    if pa.types.is_timestamp(values.type):
        if utc or values.type.tz is not None:
            return pc.strftime(values.cast(pa.timestamp("us")), format="%Y-%m-%dT%H:%M:%SZ")
        return pc.strftime(values.cast(pa.timestamp("us")), format="%Y-%m-%d %H:%M:%S")
    text = values.cast(pa.string())
    if pa.types.is_floating(values.type):
        # In the spelling of Java.
        text = pc.replace_substring(pc.replace_substring(text, "inf", "Infinity"), "nan", "NaN")
    return text
