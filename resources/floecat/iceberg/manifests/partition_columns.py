"""Partition values of manifest entries: their Arrow form, their Avro encoding, and what they span.

(Iceberg table specification, "Partitioning", "Manifest Lists" and appendices A and D.)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.avro.columns import Cells, optional, strings, varints
from floecat.iceberg.avro.string_columns import StringColumn
from floecat.iceberg.manifests.lists import PartitionSummary
from floecat.iceberg.schemas.partitioning import PartitionSpec
from floecat.iceberg.schemas.types import PrimitiveType

__all__ = ["arrow_type", "decimal_length", "partition_cells", "partition_struct", "summarize_partitions"]

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


def decimal_length(precision: int) -> int:
    """Bytes that hold every decimal of a precision."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8


def partition_struct(
    partitions: pa.StructArray | None, spec: PartitionSpec, types: Sequence[PrimitiveType], rows: int
) -> pa.StructArray:
    """Brings partition values to the one Arrow type that each Iceberg type has here.

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
    """What the partition values of a manifest span, field by field.

    Args:
        partitions: as `partition_struct` makes them.
    """
    return tuple(_summarize(array) for array in partitions.flatten())


def _summarize(array: pa.Array) -> PartitionSummary:
    values = array.drop_null()
    contains_nan = False
    if pa.types.is_floating(array.type):
        is_nan = pc.is_nan(values)
        contains_nan = bool(pc.any(is_nan).as_py())
        values = values.filter(pc.invert(is_nan))
    lower = upper = None
    if len(values):
        lower, upper = _bounds(values)
    return PartitionSummary(
        contains_null=array.null_count > 0, contains_nan=contains_nan, lower_bound=lower, upper_bound=upper
    )


def _bounds(values: pa.Array) -> tuple[bytes, bytes]:
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy()
        least, most = numbers.min(), numbers.max()
        # zero has two signs, and only the bytes tell them apart
        if least == 0:
            least = least.dtype.type(-0.0 if np.signbit(numbers[numbers == 0]).any() else 0.0)
        if most == 0:
            most = most.dtype.type(-0.0 if np.signbit(numbers[numbers == 0]).all() else 0.0)
        return least.tobytes(), most.tobytes()
    if pa.types.is_temporal(values.type):
        values = pa.array(_integers(values))
    ends = pc.min_max(values)
    return _single_value(ends["min"]), _single_value(ends["max"])


def _single_value(scalar: pa.Scalar) -> bytes:
    value = scalar.as_py()
    if isinstance(value, bool):
        return bytes([value])
    if isinstance(value, int):
        return struct.pack("<i" if pa.types.is_int32(scalar.type) else "<q", value)
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(scalar.type.scale, _EXACT))
        return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, signed=True)
    return value.encode() if isinstance(value, str) else bytes(value)
