"""Arrow tables of the actions about files, one row per action.

Parts of a checkpoint and sidecars may have been written by different writers, under different schemas of the
table. Struct statistics are hints: those of a column whose types are incompatible are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.errors import InvalidDeltaTableError

__all__ = [
    "DELETION_VECTOR",
    "DESCRIPTOR",
    "REMOVES_SCHEMA",
    "Rows",
    "common_type",
    "files_schema",
    "files_table",
    "struct_array",
    "take_column",
    "take_rows",
    "vector_ids",
    "vector_total",
    "with_type",
]

Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
"""Row numbers."""

DESCRIPTOR: Final = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
"""A descriptor of a deletion vector with the field names of the log."""

DELETION_VECTOR: Final = pa.struct(
    [
        ("storage_type", pa.string()),
        ("path_or_inline_dv", pa.string()),
        ("offset", pa.int32()),
        ("size_bytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
"""A descriptor of a deletion vector."""

REMOVES_SCHEMA: Final = pa.schema([("path", pa.string()), ("dv_id", pa.string())])
"""Removed files; both columns as in `files_schema`."""

_REQUIRED: Final = ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")

_LARGE_BYTES: Final = 64 * 1024 * 1024
"""A larger column is reordered in pieces of about this size."""


def files_schema(partition_names: Sequence[str], stats_parsed: pa.DataType | None = None) -> pa.Schema:
    """Columns of added or live files.

    - ``path``: percent-decoded; relative to the root of the table, or an absolute URI.
    - ``partition_values``: a struct with a text for each partition column, named by its physical name, in the
      order of the partition columns. Null if the value is null or absent; an empty text stays empty.
    - ``size_bytes``, ``modified_at_ms``.
    - ``stats``: statistics as JSON text, or null.
    - ``stats_parsed``: statistics as a struct, for files without a statistics text. Only there if a
      checkpoint has such statistics.
    - ``deletion_vector``: see `DELETION_VECTOR`; null if the file has none.
    - ``dv_id``: storage type and path or inline text, and ``@`` and the offset if there is one; null if the
      file has no deletion vector. Path and ``dv_id`` together are the key of a file.

    Args:
        partition_names: physical names of the partition columns.
        stats_parsed: the type of struct statistics, None without them.
    """
    fields = [
        pa.field("path", pa.string()),
        pa.field("partition_values", pa.struct([(name, pa.string()) for name in partition_names])),
        pa.field("size_bytes", pa.int64()),
        pa.field("modified_at_ms", pa.int64()),
        pa.field("stats", pa.string()),
    ]
    if stats_parsed is not None:
        fields.append(pa.field("stats_parsed", stats_parsed))
    fields += [pa.field("deletion_vector", DELETION_VECTOR), pa.field("dv_id", pa.string())]
    return pa.schema(fields)


def struct_array(arrays: Sequence[pa.Array], names: Sequence[str], length: int) -> pa.StructArray:
    """A struct without nulls; it may have no fields.

    Args:
        arrays: one for each field.
        names: of the fields.
        length: of every array.
    """
    if not arrays:
        return pa.Array.from_buffers(pa.struct([]), length, [None])
    return pa.StructArray.from_arrays(list(arrays), names=list(names))


def files_table(
    *,
    path: pa.ChunkedArray,
    partition_values: pa.ChunkedArray,
    size: pa.ChunkedArray,
    modification_time: pa.ChunkedArray,
    stats: pa.ChunkedArray,
    descriptors: pa.ChunkedArray,
    location: str,
    stats_parsed: pa.ChunkedArray | None = None,
) -> pa.Table:
    """A table of `files_schema`.

    Args:
        path: decoded paths.
        partition_values: a struct without nulls.
        size: in bytes.
        modification_time: in milliseconds since the epoch.
        stats: JSON text.
        descriptors: of type `DESCRIPTOR`.
        location: of their file, for messages.
        stats_parsed: struct statistics; None without them.

    Raises:
        InvalidDeltaTableError: the size of a file is missing or negative, or a part of a descriptor is
            missing.
    """
    if size.null_count:
        raise InvalidDeltaTableError(f"{location} lacks the size of a file")
    if len(size) and pc.min(size).as_py() < 0:
        raise InvalidDeltaTableError(f"{location} has a file of negative size")
    columns = [path, partition_values, size, modification_time, stats]
    if stats_parsed is not None:
        columns.append(stats_parsed)
    columns += [_renamed(descriptors), vector_ids(descriptors, location=location)]
    names = [field.name for field in partition_values.type]
    schema = files_schema(names, stats_parsed.type if stats_parsed is not None else None)
    return pa.Table.from_arrays(columns, schema=schema)


def vector_ids(descriptors: pa.ChunkedArray, *, location: str) -> pa.ChunkedArray:
    """Column ``dv_id`` of `files_schema`.

    Args:
        descriptors: of type `DESCRIPTOR`.
        location: of their file, for messages.

    Raises:
        InvalidDeltaTableError: a part of a descriptor is missing.
    """
    if descriptors.null_count == len(descriptors):
        return pa.chunked_array([pa.nulls(len(descriptors), pa.string())])
    parts = {name: pc.struct_field(descriptors, name) for name in _REQUIRED}
    missing = [pc.and_(descriptors.is_valid(), part.is_null()) for part in parts.values()]
    if any(pc.any(mask).as_py() for mask in missing):
        raise InvalidDeltaTableError(f"A deletion vector in {location} is described incompletely")
    offset = pc.cast(pc.struct_field(descriptors, "offset"), pa.string())
    unplaced = pc.binary_join_element_wise(parts["storageType"], parts["pathOrInlineDv"], "")
    return pc.coalesce(pc.binary_join_element_wise(unplaced, offset, "@"), unplaced)


def vector_total(files: pa.Table, field: str) -> int:
    """The sum of a field of the deletion vectors of files; negative values count as zero.

    Args:
        files: columns of `files_schema`.
        field: `cardinality` or `size_bytes`.
    """
    vectors = files["deletion_vector"]
    if vectors.null_count == len(vectors):
        return 0
    values = pc.max_element_wise(pc.struct_field(vectors, field), 0)
    # a sum of longs could wrap around
    return int(pc.sum(values.cast(pa.float64(), safe=False)).as_py() or 0)


def _renamed(descriptors: pa.ChunkedArray) -> pa.ChunkedArray:
    fields = list(DELETION_VECTOR)
    chunks = []
    for chunk in descriptors.chunks:
        children = [chunk.field(number) for number in range(len(fields))]
        chunks.append(pa.StructArray.from_arrays(children, fields=fields, mask=chunk.is_null()))
    return pa.chunked_array(chunks, DELETION_VECTOR)


def take_rows(table: pa.Table, order: Rows) -> pa.Table:
    """Rows in another order.

    Args:
        table: any table.
        order: numbers of the rows to take; none twice.
    """
    columns = [take_column(column, order) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def take_column(column: pa.ChunkedArray, order: Rows, *, large_bytes: int = _LARGE_BYTES) -> pa.ChunkedArray:
    """Rows of a column in another order.

    Args:
        column: any column.
        order: numbers of the rows to take; none twice.
        large_bytes: a larger column is reordered in pieces of about this size.
    """
    if column.nbytes < large_bytes or not len(order):
        return column.take(pa.array(order))
    # `take` first combines the column into one array, which doubles its memory and fails if one array cannot
    # hold its text. So the result is made in pieces, each from its own rows only.
    rows = max(1, len(order) * large_bytes // column.nbytes)
    pieces = [_take_piece(column, order[start : start + rows]) for start in range(0, len(order), rows)]
    return pa.chunked_array(pieces, column.type)


def _take_piece(column: pa.ChunkedArray, order: Rows) -> pa.Array:
    wanted = np.zeros(len(column), bool)
    wanted[order] = True
    found = column.filter(pa.array(wanted)).combine_chunks()
    # Positions among the wanted rows, which are in the order of the column.
    places = np.empty(len(order), np.int64)
    places[np.argsort(order)] = np.arange(len(order))
    return found.take(pa.array(places))


_NAME = "stats_parsed"


def common_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """A type that holds the values of all types, without fields whose types are incompatible.

    Args:
        types: of struct statistics.

    Returns:
        None if no field is left, or no type was given.
    """
    return _merged(types) if types else None


def with_type(table: pa.Table, type: pa.DataType | None) -> pa.Table:
    """The table with its struct statistics cast to another type.

    Args:
        table: with or without such statistics.
        type: the result of `common_type`; None to remove the column.
    """
    place = table.schema.get_field_index(_NAME)
    if place < 0 or table.schema.field(place).type == type:
        return table
    if type is None:
        return table.remove_column(place)
    chunks = [_as_type(chunk, type) for chunk in table.column(place).chunks]
    return table.set_column(place, _NAME, pa.chunked_array(chunks, type))


def _merged(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """Merges all at once: pairwise, a third type would bring back a field that was left out."""
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
        # a name that occurs twice is ambiguous
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
