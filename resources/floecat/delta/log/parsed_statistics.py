"""Struct statistics of several files of a log as one column.

Each part of a checkpoint, and each sidecar, may have been written under another schema of the table, and by
another writer. Statistics are hints: those of a column whose types do not go together are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["common_type", "with_type"]

_NAME = "stats_parsed"


def common_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """A type that holds what all of these hold, but for fields whose types contradict each other.

    Args:
        types: of struct statistics.

    Returns:
        None if nothing is left, or nothing was given.
    """
    return _merged(types) if types else None


def with_type(table: pa.Table, type: pa.DataType | None) -> pa.Table:
    """The table with its struct statistics in another type.

    Args:
        table: one with such statistics, or without.
        type: what `common_type` made of their type and others; None to leave them out.
    """
    place = table.schema.get_field_index(_NAME)
    if place < 0 or table.schema.field(place).type == type:
        return table
    if type is None:
        return table.remove_column(place)
    chunks = [_as_type(chunk, type) for chunk in table.column(place).chunks]
    return table.set_column(place, _NAME, pa.chunked_array(chunks, type))


def _merged(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """All at once: of a field that was left out for two types, a third would know nothing."""
    distinct = list(dict.fromkeys(type for type in types if not pa.types.is_null(type)))
    if len(distinct) < 2:
        return distinct[0] if distinct else types[0]
    if all(map(pa.types.is_struct, distinct)):
        return _merged_structs(distinct)
    for is_kind in (pa.types.is_signed_integer, pa.types.is_floating):
        if all(map(is_kind, distinct)):
            return max(distinct, key=lambda type: type.bit_width)
    if all(map(pa.types.is_decimal, distinct)) and len({type.scale for type in distinct}) == 1:
        return max(distinct, key=lambda type: type.precision)
    return pa.large_string() if all(map(_is_text, distinct)) else None


def _merged_structs(types: Sequence[pa.DataType]) -> pa.DataType:
    fields = []
    for name in dict.fromkeys(field.name for type in types for field in type):
        found = [[field.type for field in type if field.name == name] for type in types]
        # a name that is there twice means nothing
        type = _merged([each for some in found for each in some]) if max(map(len, found)) == 1 else None
        if type is not None:
            fields.append(pa.field(name, type))
    return pa.struct(fields)


def _as_type(values: pa.Array, type: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(type) or not pa.types.is_struct(values.type):
        return values.cast(type)
    places = [values.type.get_field_index(field.name) for field in type]
    fields = [
        _as_type(pc.struct_field(values, [place]), field.type)
        if place >= 0
        else pa.nulls(len(values), field.type)
        for place, field in zip(places, type, strict=True)
    ]
    return pa.StructArray.from_arrays(fields, fields=list(type), mask=values.is_null())


def _is_text(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))
