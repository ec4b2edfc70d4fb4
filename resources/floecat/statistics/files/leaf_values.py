"""Values of columns as files have them, as values of the columns' types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.manifests.partition_tuples import arrow_type
from floecat.iceberg.schemas.types import PrimitiveType

__all__ = ["arrow_type_of", "has_single_values", "leaf_values", "one_value", "value_bytes"]

_WITHOUT_SINGLE_VALUES = frozenset({"unknown", "variant", "geometry", "geography"})


_WIDTHS: Final = {
    "boolean": 1,
    **dict.fromkeys(("int", "float", "date"), 4),
    **dict.fromkeys(
        ("long", "double", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), 8
    ),
}
_DECIMAL_WIDTHS: Final = ((9, 4), (18, 8), (38, 16))


def has_single_values(type: PrimitiveType) -> bool:
    """Whether values of a type have a binary form (table specification, Appendix D)."""
    return type.name not in _WITHOUT_SINGLE_VALUES


def arrow_type_of(type: PrimitiveType) -> pa.DataType:
    """The Arrow type of the values; plain bytes for fixed-width ones and those without single values."""
    if not has_single_values(type) or type.name in ("uuid", "fixed"):
        return pa.binary()
    return arrow_type(type)


def leaf_values(rows: pa.Array, type: PrimitiveType, struct_path: Sequence[int] = ()) -> pa.Array:
    """The values of a leaf column, promoted to the column's type (table specification, "Schema Evolution").

    Args:
        rows: a slot per row. Null structs are null values; null lists have no values.
        type: the type of the column.
        struct_path: positions of the children that lead to it, in each struct; 0 where it ends.

    Returns:
        An array of `arrow_type_of`; strings and bytes may be in a dictionary.

    Raises:
        pyarrow.ArrowException: the file has values of another type.
    """
    places = iter(struct_path)
    while pa.types.is_nested(rows.type):
        if pa.types.is_map(rows.type):
            entries = pa.struct([rows.type.key_field, rows.type.item_field])
            rows = rows.cast(pa.list_(entries))
        rows = rows.flatten()[next(places, 0)] if pa.types.is_struct(rows.type) else rows.flatten()
    if isinstance(rows, pa.ExtensionArray):
        rows = rows.storage
    wanted = arrow_type_of(type)
    if not pa.types.is_dictionary(rows.type):
        return _cast(rows, wanted)
    if wanted not in (pa.string(), pa.binary()):
        return _cast(rows.dictionary_decode(), wanted)
    return pa.DictionaryArray.from_arrays(rows.indices, _cast(rows.dictionary, wanted))


def value_bytes(values: pa.Array, type: PrimitiveType) -> int:
    """Bytes of values, neither encoded nor compressed: of texts and binary the content, of decimals as words.

    Args:
        values: as `leaf_values` gives them; nulls have no bytes.
        type: of the values.
    """
    width = _width(type)
    if pa.types.is_dictionary(values.type):
        lengths = pc.binary_length(values.dictionary).take(values.indices)
    elif width is None and (pa.types.is_binary(values.type) or pa.types.is_string(values.type)):
        lengths = pc.binary_length(values)
    else:
        return (width or 0) * int(len(values) - values.null_count)
    return int(pc.sum(lengths).as_py() or 0)


def _width(type: PrimitiveType) -> int | None:
    """Bytes of each value; None where they differ."""
    if type.name == "decimal":
        return next(width for digits, width in _DECIMAL_WIDTHS if int(type.parameters[0]) <= digits)
    return _WIDTHS.get(type.name)


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if values.type == wanted:
        return values
    if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(wanted):
        # Values count from the same epoch with a time zone and without one.
        values = values.cast(pa.timestamp(values.type.unit))
        if values.type.unit == "ns" and wanted.unit == "us":
            # Readers of such files cut off nanoseconds.
            micros = pc.floor_temporal(values, unit="microsecond")
            return micros.cast(pa.timestamp("us")).cast(wanted)
        return values.cast(pa.timestamp(wanted.unit)).cast(wanted)
    return values.cast(wanted)


def one_value(value: bytes, type: PrimitiveType) -> pa.Array:
    """An array of one single value."""
    kind = arrow_type_of(type)
    if type.name == "boolean":
        return pa.array([value != b"\x00"])
    if pa.types.is_binary(kind) or type.name == "string":
        return pa.array([value], pa.binary()).cast(kind)
    if type.name == "decimal":
        value = int.from_bytes(value, "big", signed=True).to_bytes(16, "little", signed=True)
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(value)])
