r"""Partition values of Delta's log as typed values (Delta protocol, "Partition Value Serialization").

- null, the empty string and an absent value are null for every type. `__HIVE_DEFAULT_PARTITION__` and `null`
  are only texts: data in a string column, an error in others.
- A timestamp without a zone is taken as UTC. The protocol means the zone of the writer, which the log does
  not name.
- Binary values are the UTF-8 bytes of the text, as Spark and both kernels read them. Escapes that delta-rs
  spells out, like `\u0001`, are text to those readers, and so they are here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.translation.partition_times import days_since_epoch, micros_since_epoch
from floecat.delta.translation.schema import PartitionColumn, TranslatedSchema
from floecat.errors import InvalidDeltaTableError

__all__ = ["partition_values"]

_ARROW_TYPES: dict[str, Any] = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}


_DECIMAL = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?$"
"""A number as writers spell it; the largest decimal has 38 digits."""


def partition_values(files: pa.Table, schema: TranslatedSchema) -> pa.StructArray:
    """The partition of each file, typed.

    Args:
        files: files with a column `partition_values`, as `floecat.delta.log.file_tables` describes it.
        schema: schema of the version.

    Returns:
        One row per file, with a field for each partition column, named and ordered as in the partition spec.
        Arrow types are int32, int64, float32, float64, bool, string, binary, date32, decimal128, and
        timestamp in microseconds, in UTC or without a zone.

    Raises:
        InvalidDeltaTableError: a value is none of its column's type. The message names the column.
    """
    if not schema.partition_fields:
        return pa.array([{}] * len(files), pa.struct([]))
    values = files["partition_values"].combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    arrays = [_column(values, column) for column in schema.partition_fields]
    return pa.StructArray.from_arrays(arrays, names=[column.name for column in schema.partition_fields])


def _column(values: pa.StructArray, column: PartitionColumn) -> pa.Array:
    position = values.type.get_field_index(column.physical_name)
    if position < 0:
        return pa.nulls(len(values), _parsed(pa.array([], pa.string()), column).type)
    # Rows that are null as a whole hide what their children hold.
    texts = pc.struct_field(values, [position]).cast(pa.string())
    texts = pc.if_else(pc.equal(texts, ""), None, texts)
    encoded = texts.dictionary_encode()
    return _parsed(encoded.dictionary, column).take(encoded.indices)


def _parsed(texts: pa.StringArray, column: PartitionColumn) -> pa.Array:
    parse = _PARSERS.get(column.delta_type.partition("(")[0], _parse_number)
    try:
        return parse(texts, column)
    except (pa.ArrowInvalid, ValueError):
        raise InvalidDeltaTableError(
            f"A partition value of column {column.name} is not of its type {column.delta_type}"
        ) from None


def _parse_number(texts: pa.StringArray, column: PartitionColumn) -> pa.Array:
    numbers = pc.utf8_trim_whitespace(texts).cast(_ARROW_TYPES[column.delta_type])
    # Iceberg has no integers of less than 32 bits.
    return numbers.cast(pa.int32()) if column.type.name == "int" else numbers


def _parse_decimal(texts: pa.StringArray, column: PartitionColumn) -> pa.Array:
    trimmed = pc.utf8_trim_whitespace(texts)
    # the cast crashes on exponents that no decimal has
    if pc.all(pc.match_substring_regex(trimmed, _DECIMAL)).as_py() is False:
        raise ValueError
    return trimmed.cast(pa.decimal128(*column.type.parameters))


def _parse_string(texts: pa.StringArray, _: PartitionColumn) -> pa.Array:
    return texts


def _parse_binary(texts: pa.StringArray, _: PartitionColumn) -> pa.Array:
    return texts.cast(pa.binary())


def _parse_date(texts: pa.StringArray, _: PartitionColumn) -> pa.Array:
    return pa.array(days_since_epoch(texts), pa.int32()).cast(pa.date32())


def _parse_timestamp(texts: pa.StringArray, _: PartitionColumn) -> pa.Array:
    return pa.array(micros_since_epoch(texts, zoned=True), pa.int64()).cast(pa.timestamp("us", "UTC"))


def _parse_timestamp_ntz(texts: pa.StringArray, _: PartitionColumn) -> pa.Array:
    return pa.array(micros_since_epoch(texts, zoned=False), pa.int64()).cast(pa.timestamp("us"))


_PARSERS: dict[str, Callable[[pa.StringArray, PartitionColumn], pa.Array]] = {
    "decimal": _parse_decimal,
    "string": _parse_string,
    "binary": _parse_binary,
    "date": _parse_date,
    "timestamp": _parse_timestamp,
    "timestamp_ntz": _parse_timestamp_ntz,
}
