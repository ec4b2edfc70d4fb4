"""Rows of Arrow tables in a form in which two readers' answers can be compared.

What engines are free to choose does not count: the order of rows and columns, the width of offsets, the order
of a map's entries, dictionaries, the unit of a timestamp, trailing zeros of a decimal. All else does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["Row", "canonical_column", "canonical_rows", "check", "difference", "kind"]

Row = tuple[tuple[str, Any], ...]
"""The columns of a row by name, each value in its canonical form."""

_SHOWN_ROWS = 6
_NAN = "NaN"


def canonical_rows(table: pa.Table) -> list[Row]:
    """The rows of a table, each with its columns by name, in the order of the table."""
    names = sorted(table.column_names)
    columns = [canonical_column(table[name]) for name in names]
    if not columns:
        return [()] * table.num_rows
    return [tuple(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def canonical_column(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column: hashable, and equal when they mean the same."""
    return [value for chunk in column.chunks for value in _values(chunk)]


def check(actual: pa.Table, expected: pa.Table, where: str = "") -> None:
    """Asserts that two tables have the same columns and rows; the message says what differs."""
    found = difference(actual, expected)
    if found:
        raise AssertionError(f"{where}: {found}" if where else found)


def difference(actual: pa.Table, expected: pa.Table) -> str:
    """What is different between two tables, in words; the empty string if nothing is."""
    if missing := sorted(set(expected.column_names) - set(actual.column_names)):
        return f"columns missing: {missing}; there are {actual.column_names}"
    if surplus := sorted(set(actual.column_names) - set(expected.column_names)):
        return f"columns too many: {surplus}"
    found, wanted = Counter(canonical_rows(actual)), Counter(canonical_rows(expected))
    if found == wanted:
        return ""
    columns = _differing_columns(actual, expected)
    lines = [f"{actual.num_rows} rows, {expected.num_rows} expected"]
    lines += _listed("missing", wanted - found, columns)
    lines += _listed("too many", found - wanted, columns)
    lines += [
        f"{name} is {kind(actual[name].type)}, expected {kind(expected[name].type)}"
        for name in columns
        if kind(actual[name].type) != kind(expected[name].type)
    ]
    return "\n".join(lines)


def kind(type_: pa.DataType) -> str:
    """The name of a type, without what engines are free to choose."""
    if pa.types.is_timestamp(type_):
        return "timestamp" if type_.tz is None else "timestamptz"
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return "string"
    if pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_):
        return "binary"
    if _is_list(type_):
        return f"list<{kind(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<{kind(type_.key_type)}, {kind(type_.item_type)}>"
    if pa.types.is_struct(type_):
        return f"struct<{', '.join(f'{field.name}: {kind(field.type)}' for field in type_)}>"
    return str(type_)


def _values(array: pa.Array) -> Sequence[Any]:
    type_ = array.type
    if isinstance(array, pa.ExtensionArray):
        return _values(array.storage)
    if pa.types.is_dictionary(type_):
        return _values(array.dictionary_decode())
    if pa.types.is_timestamp(type_):
        return _timestamps(array)
    if pa.types.is_date(type_):
        return _texts(array, pa.date32(), "D", "")
    if pa.types.is_floating(type_):
        return [_NAN if value != value else value for value in array.to_pylist()]
    if _is_list(type_):
        return _lists(array)
    if pa.types.is_map(type_):
        return _maps(array)
    if pa.types.is_struct(type_):
        return _structs(array)
    values: list[Any] = array.to_pylist()
    return values


def _is_list(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)
    )


def _timestamps(array: pa.Array) -> list[str | None]:
    # Nanoseconds only where a type of that unit is left over with zeros: a loss is an error of the cast.
    microseconds = pa.timestamp("us", array.type.tz)
    return _texts(array.cast(microseconds), microseconds, "us", "Z" if array.type.tz else "")


def _texts(array: pa.Array, type_: pa.DataType, unit: str, suffix: str) -> list[str | None]:
    # By numpy: Python's own dates end with the year 9999.
    width = pa.int32() if pa.types.is_date(type_) else pa.int64()
    counts = array.cast(type_).cast(width).to_pylist()
    return [None if n is None else f"{np.datetime64(n, unit)}{suffix}" for n in counts]


def _lists(array: pa.Array) -> list[Any]:
    elements = _values(array.flatten())
    lengths = array.value_lengths().to_pylist() if not pa.types.is_fixed_size_list(array.type) else None
    if lengths is None:
        lengths = [array.type.list_size if scalar.is_valid else None for scalar in array]
    return list(_cut(elements, lengths))


def _maps(array: pa.Array) -> list[Any]:
    entries = [
        None if scalar.as_py() is None else (scalar.values.field(0), scalar.values.field(1))
        for scalar in array
    ]
    return [
        None
        if entry is None
        else tuple(sorted(zip(_values(entry[0]), _values(entry[1]), strict=True), key=repr))
        for entry in entries
    ]


def _structs(array: pa.Array) -> list[Any]:
    names = sorted(field.name for field in array.type)
    columns = [_values(array.field(name)) for name in names]
    valid = array.is_valid().to_pylist()
    rows = zip(*columns, strict=True) if columns else iter([()] * len(array))
    return [
        tuple(zip(names, row, strict=True)) if there else None for row, there in zip(rows, valid, strict=True)
    ]


def _cut(elements: Sequence[Any], lengths: Sequence[int | None]) -> Iterator[tuple[Any, ...] | None]:
    start = 0
    for length in lengths:
        if length is None:
            yield None
            continue
        yield tuple(elements[start : start + length])
        start += length


def _listed(title: str, rows: Mapping[Row, int], columns: Sequence[str]) -> list[str]:
    """Some rows, of which the columns that differ are shown."""
    if not rows:
        return []
    ordered = sorted(rows.items(), key=repr)
    shown = [
        f"  {count} x { ({name: value for name, value in row if name in columns}) }"
        for row, count in ordered[:_SHOWN_ROWS]
    ]
    left = len(ordered) - len(shown)
    return [f"{title}:", *shown, *([f"  and {left} more"] if left else [])]


def _differing_columns(actual: pa.Table, expected: pa.Table) -> list[str]:
    differing = [
        name
        for name in sorted(expected.column_names)
        if Counter(canonical_column(actual[name])) != Counter(canonical_column(expected[name]))
    ]
    return differing or sorted(expected.column_names)
