"""Partition values of manifest entries as Arrow columns, typed as the file or the table says.

(Table specification, "Partitioning" and appendix A.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from floecat.iceberg.avro.container import Header
from floecat.iceberg.avro.cursors import DamagedRecordsError
from floecat.iceberg.avro.decoding import Column, Numbers, Spans
from floecat.iceberg.avro.writer_schema import Encoding, SchemaField, SchemaNode
from floecat.iceberg.manifests.partition_columns import arrow_type
from floecat.iceberg.schemas.types import PrimitiveType

__all__ = ["partition_column", "partition_names"]

_LOGICAL_TYPES = {
    "date": pa.date32(),
    "time-micros": pa.time64("us"),
    "timestamp-micros": pa.timestamp("us"),
    "timestamp-nanos": pa.timestamp("ns"),
    "timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}


class _SpecField(msgspec.Struct, rename="kebab"):
    name: str
    field_id: int | None = None


def partition_names(header: Header, fields: Sequence[SchemaField]) -> list[str]:
    """Names of partition fields as the spec has them: Avro admits fewer characters.

    Args:
        header: of the manifest; its `partition-spec` need not be there.
        fields: the partition fields in the file.
    """
    try:
        spec = msgspec.json.decode(header.metadata.get("partition-spec", b"[]"), type=list[_SpecField])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        spec = []
    names = {field.field_id: field.name for field in spec if field.field_id is not None}
    return [names.get(field.id or -1) or _own_name(field) for field in fields]


def _own_name(field: SchemaField) -> str:
    return str(field.attributes.get("iceberg-field-name", field.name))


def partition_column(column: Column, field: SchemaField, type: PrimitiveType | None) -> pa.Array:
    """A partition field of some entries.

    Args:
        column: as it was decoded.
        field: its field in the file.
        type: its type in the table, which may be wider; None for the one of the file.

    Raises:
        DamagedRecordsError: the file has a type that no partition value has.
        ArrowInvalid: a value does not fit the type.
    """
    node = _value_node(field.node)
    array = _decimals(column, node) if node.attributes.get("logicalType") == "decimal" else None
    if array is None:
        if not isinstance(column, Numbers | Spans):
            raise DamagedRecordsError
        array = _typed(column.to_arrow(), node)
    return array if type is None else _cast(array, arrow_type(type))


def _value_node(node: SchemaNode) -> SchemaNode:
    if node.encoding is not Encoding.UNION:
        return node
    return next((part for part in node.parts if part.encoding is not Encoding.NULL), node)


def _typed(array: pa.Array, node: SchemaNode) -> pa.Array:
    attributes = node.attributes
    logical = _LOGICAL_TYPES.get(str(attributes.get("logicalType")))
    if node.encoding is Encoding.VARINT:
        if logical is None:
            return array.cast(pa.int32() if attributes.get("type") == "int" else pa.int64())
        if attributes.get("adjust-to-utc") in (True, "true") and pa.types.is_timestamp(logical):
            logical = pa.timestamp(logical.unit, "UTC")
        return _cast(array, logical)
    if node.encoding is Encoding.FIXED:
        return array.cast(pa.binary(node.size)) if node.size else array
    if node.encoding is Encoding.BYTES and attributes.get("type") == "string":
        return array.cast(pa.string())
    return array


def _cast(array: pa.Array, type: pa.DataType) -> pa.Array:
    if array.type == type:
        return array
    if pa.types.is_integer(array.type) and pa.types.is_date32(type):
        array = array.cast(pa.int32())
    elif pa.types.is_temporal(array.type) and pa.types.is_integer(type):
        array = array.cast(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    return array.cast(type)


def _decimals(column: Column, node: SchemaNode) -> pa.Array | None:
    """Decimals out of their big-endian bytes, which may be fewer or more than the precision needs."""
    precision, scale = node.attributes.get("precision"), node.attributes.get("scale", 0)
    if not isinstance(column, Spans) or not isinstance(precision, int) or not isinstance(scale, int):
        return None
    if not (0 < precision <= 38 and 0 <= scale <= precision):
        return None
    lengths = column.lengths if column.valid is None else np.where(column.valid, column.lengths, 0)
    if lengths.max(initial=0) > 16:
        raise DamagedRecordsError
    # Arrow: 16 bytes, the least significant first
    places = np.arange(16)
    at = column.starts[:, np.newaxis] + lengths[:, np.newaxis] - 1 - places
    has = places < lengths[:, np.newaxis]
    data: Any = np.where(has, column.chunk.data.take(at, mode="clip"), 0).astype(np.uint8)
    first = column.chunk.data.take(column.starts, mode="clip")
    negative = (first >= 0x80) & (lengths > 0)
    data[negative[:, np.newaxis] & ~has] = 0xFF
    valid = None
    if column.valid is not None:
        valid = pa.py_buffer(np.packbits(column.valid, bitorder="little"))
    type = pa.decimal128(precision, scale)
    return pa.Decimal128Array.from_buffers(
        type, len(lengths), [valid, pa.py_buffer(np.ascontiguousarray(data))]
    )
