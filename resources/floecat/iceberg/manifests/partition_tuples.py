"""Partition values of manifest entries: encoded, decoded, and what they span.

(Iceberg table specification, "Partitioning", "Manifest Lists" and appendices A and D.)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.avro.columns import Cells, optional, strings, varints
from floecat.iceberg.avro.container import AvroHeader
from floecat.iceberg.avro.cursors import DamagedRecordsError
from floecat.iceberg.avro.decoding import Column, Numbers, Spans
from floecat.iceberg.avro.string_columns import StringColumn
from floecat.iceberg.avro.writer_schema import Encoding, SchemaField, WriterNode
from floecat.iceberg.schemas.partitioning import PartitionSpec
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.values.floats import extremes

__all__ = [
    "PartitionSummary",
    "arrow_type",
    "decimal_length",
    "partition_cells",
    "partition_column",
    "partition_names",
    "partition_struct",
    "summarize_partitions",
]

_EXACT = Context(prec=77)

_ARROW_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "uuid": pa.binary(16),
}


class PartitionSummary(msgspec.Struct, frozen=True):
    """The range of the values of one partition field, over all entries of a manifest.

    Attributes:
        contains_null: whether a file has null.
        contains_nan: whether a file has NaN; None if unknown.
        lower_bound: least value that is neither null nor NaN, a single value (appendix D); None without one.
        upper_bound: greatest such value.
    """

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


def decimal_length(precision: int) -> int:
    """Bytes that hold every decimal of a precision."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8


def partition_struct(
    partitions: pa.StructArray | None, spec: PartitionSpec, types: Sequence[PrimitiveType], rows: int
) -> pa.StructArray:
    """Casts partition values to the Arrow type that stands for their Iceberg type.

    Args:
        partitions: Arrow struct array with a field for each of the spec, in its order; or None.
        spec: the partition spec.
        types: result types of its fields.
        rows: number of files.

    Returns:
        An Arrow struct array whose fields are named as in the spec; it has none for an unpartitioned table.

    Raises:
        ValueError: another number of fields or rows, or values that do not fit a type.
    """
    if len(types) != len(spec.fields):
        raise ValueError(f"{len(types)} types for {len(spec.fields)} partition fields")
    if not spec.fields:
        return pa.StructArray.from_buffers(pa.struct([]), rows, [None])
    if partitions is None:
        raise ValueError("Partition values are missing")
    if isinstance(partitions, pa.ChunkedArray):
        partitions = partitions.combine_chunks()
    if partitions.type.num_fields != len(types) or len(partitions) != rows:
        raise ValueError("Partition values do not fit the spec, or the number of files")
    arrays = [
        _plain(array).cast(arrow_type(type)) for array, type in zip(partitions.flatten(), types, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, names=[field.name for field in spec.fields])


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def arrow_type(type: PrimitiveType) -> pa.DataType:
    """The Arrow type of partition values of a type.

    Raises:
        ValueError: partition values never have it.
    """
    if type.name == "decimal":
        return pa.decimal128(*type.parameters)
    if type.name == "fixed":
        return pa.binary(int(type.parameters[0]))
    try:
        return _ARROW_TYPES[type.name]
    except KeyError:
        raise ValueError(f"No partition has type {type}") from None


def partition_cells(partitions: pa.StructArray) -> list[Cells]:
    """The fields of partition tuples, encoded.

    Args:
        partitions: as `partition_struct` makes them.
    """
    return [cell for array in partitions.flatten() for cell in _value_cells(array)]


def _value_cells(array: pa.Array) -> list[Cells]:
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    return optional(_encoder(array.type)(array), valid)


def _encoder(type: pa.DataType) -> Callable[[pa.Array], list[Cells]]:
    if pa.types.is_string(type) or pa.types.is_binary(type):
        return lambda array: strings(StringColumn.of(array))
    if pa.types.is_floating(type):
        return lambda array: [Cells(_numbers(array).reshape(-1, 1).view(np.uint8))]
    if pa.types.is_boolean(type):
        return lambda array: [Cells(_numbers(array).reshape(-1, 1).view(np.uint8))]
    if pa.types.is_fixed_size_binary(type) or pa.types.is_decimal(type):
        return _fixed
    return lambda array: [varints(_integers(array))]


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    if array.null_count:
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    numbers: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers


def _integers(array: pa.Array) -> npt.NDArray[np.integer[Any]]:
    narrow = pa.types.is_date32(array.type) or pa.types.is_int32(array.type)
    return _numbers(array.cast(pa.int32() if narrow else pa.int64()))


def _fixed(array: pa.Array) -> list[Cells]:
    width = array.type.byte_width
    data = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width :][: len(array) * width]
    matrix = data.reshape(len(array), width)
    if pa.types.is_decimal(array.type):
        # Arrow: 16 bytes, the least significant first. Avro: as few as the precision needs, the other way.
        matrix = matrix[:, : decimal_length(array.type.precision)][:, ::-1]
    return [Cells(matrix)]


def summarize_partitions(partitions: pa.StructArray) -> tuple[PartitionSummary, ...]:
    """The ranges of the partition values of a manifest, field by field.

    Args:
        partitions: as `partition_struct` makes them.
    """
    return tuple(_summarize(array) for array in partitions.flatten())


def _summarize(array: pa.Array) -> PartitionSummary:
    values = array.drop_null()
    contains_nan = pa.types.is_floating(array.type) and bool(pc.any(pc.is_nan(values)).as_py())
    if pa.types.is_temporal(values.type):
        values = pa.array(_integers(values))
    lower, upper = (_single_value(end) if end.is_valid else None for end in extremes(values))
    return PartitionSummary(
        contains_null=array.null_count > 0, contains_nan=contains_nan, lower_bound=lower, upper_bound=upper
    )


def _single_value(scalar: pa.Scalar) -> bytes:
    value = scalar.as_py()
    if isinstance(value, bool):
        return bytes([value])
    if isinstance(value, int):
        return struct.pack("<i" if pa.types.is_int32(scalar.type) else "<q", value)
    if isinstance(value, float):
        return struct.pack("<f" if pa.types.is_float32(scalar.type) else "<d", value)
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(scalar.type.scale, _EXACT))
        return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, signed=True)
    return value.encode() if isinstance(value, str) else bytes(value)


_LOGICAL_TYPES = {
    "date": pa.date32(),
    "time-micros": pa.time64("us"),
    "timestamp-micros": pa.timestamp("us"),
    "timestamp-nanos": pa.timestamp("ns"),
    "timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}


_LONGEST_SPEC = 1024 * 1024
"""Bytes of a partition spec; a longer one only costs names."""


class _SpecField(msgspec.Struct, rename="kebab"):
    name: str
    field_id: int | None = None


def partition_names(header: AvroHeader, fields: Sequence[SchemaField]) -> list[str]:
    """Names of partition fields as the spec has them: Avro admits fewer characters.

    Args:
        header: of the manifest; its `partition-spec` need not be there.
        fields: the partition fields in the file.
    """
    found = header.metadata.get("partition-spec", b"[]")
    try:
        spec = msgspec.json.decode(found if len(found) <= _LONGEST_SPEC else b"[]", type=list[_SpecField])
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

    Returns:
        The values; of the null type where the file has none. Writers that rewrite a manifest after the source
        column was dropped do not keep them.

    Raises:
        DamagedRecordsError: partition values cannot have the type in the file.
        ArrowInvalid: a value does not fit the type.
    """
    if not isinstance(column, Numbers | Spans):
        raise DamagedRecordsError
    node = _value_node(field.node)
    if node.encoding is Encoding.NULL:
        return pa.nulls(len(column.to_arrow()))
    array = _decimals(column, node) if node.attributes.get("logicalType") == "decimal" else None
    if array is None:
        array = _typed(column.to_arrow(), node)
    return array if type is None else _cast(array, arrow_type(type))


def _value_node(node: WriterNode) -> WriterNode:
    if node.encoding is not Encoding.UNION:
        return node
    return next((part for part in node.parts if part.encoding is not Encoding.NULL), node)


def _typed(array: pa.Array, node: WriterNode) -> pa.Array:
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


def _decimals(column: Column, node: WriterNode) -> pa.Array | None:
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
