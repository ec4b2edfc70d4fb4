"""Filters at the edges of every column, with how many rows each must find.

Files are skipped by the bounds of their columns and by their partition. A bound that is too narrow loses rows
where a filter asks for the smallest or the largest value; `count`, `min` and `max` may come from bounds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyiceberg.expressions import (
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotNull,
)

__all__ = ["DUCKDB", "SPARK", "Dialect", "Leaf", "Probe", "leaves", "probes"]

_EXPRESSIONS: dict[str, Any] = {
    "=": EqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}
_JAVA_NAMES = {
    "=": "equal",
    "<": "lessThan",
    "<=": "lessThanOrEqual",
    ">": "greaterThan",
    ">=": "greaterThanOrEqual",
}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SQL_TYPES = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
}


class Dialect(msgspec.Struct, frozen=True):
    """What differs between engines in SQL."""

    quote: str
    timestamp: str
    timestamptz: str
    string: str
    equal: str
    """The comparison in which NULL equals NULL."""

    def name(self, path: tuple[str, ...]) -> str:
        """A column, or a field of it."""
        return ".".join(
            f"{self.quote}{part.replace(self.quote, self.quote * 2)}{self.quote}" for part in path
        )

    def literal(self, value: Any, type_: pa.DataType) -> str:
        """A value of a `Leaf`, of its type."""
        if value is None:
            return "NULL"
        if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_):
            return self._binary(value)
        return f"CAST({self._text(_written(value, type_))} AS {self._type(type_)})"

    def _text(self, text: str) -> str:
        if self.quote == "`":
            return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + text.replace("'", "''") + "'"

    def _binary(self, value: bytes) -> str:
        if self.quote == "`":
            return f"X'{value.hex()}'"
        return f"from_hex('{value.hex()}')"

    def _type(self, type_: pa.DataType) -> str:
        if pa.types.is_timestamp(type_):
            return self.timestamp if type_.tz is None else self.timestamptz
        if pa.types.is_decimal(type_):
            return f"DECIMAL({type_.precision}, {type_.scale})"
        return _SQL_TYPES.get(type_, self.string)


DUCKDB = Dialect('"', "TIMESTAMP", "TIMESTAMPTZ", "VARCHAR", "IS NOT DISTINCT FROM")
SPARK = Dialect("`", "TIMESTAMP_NTZ", "TIMESTAMP", "STRING", "<=>")


class Leaf(msgspec.Struct, frozen=True):
    """A column that has bounds: a primitive one, perhaps within structs."""

    path: tuple[str, ...]
    type: pa.DataType
    values: list[Any]
    """Its values as Python compares them: dates and timestamps as counts of days and microseconds."""

    @property
    def ordered(self) -> list[Any]:
        """Its values without NULL and NaN, ascending."""
        return sorted(value for value in self.values if value is not None and value == value)

    @property
    def nans(self) -> int:
        """How many are NaN, which SQL takes for greater than all others."""
        return sum(value is not None and value != value for value in self.values)

    @property
    def nulls(self) -> int:
        """How many are NULL."""
        return sum(value is None for value in self.values)

    @property
    def largest(self) -> Any:
        """The maximum in SQL."""
        if self.nans:
            return float("nan")
        return self.ordered[-1] if self.ordered else None

    @property
    def smallest(self) -> Any:
        """The minimum in SQL."""
        if self.ordered:
            return self.ordered[0]
        return float("nan") if self.nans else None


class Probe(msgspec.Struct, frozen=True):
    """A filter on a column."""

    leaf: Leaf
    operator: str
    """A comparison; `IS NULL` or `IS NOT NULL` have no value."""
    value: Any
    count: int
    """How many rows it finds by the order of numbers."""
    nans: int
    """How many more it finds where NaN is greater than all."""

    def sql(self, dialect: Dialect) -> str:
        """The condition."""
        name = dialect.name(self.leaf.path)
        if self.operator not in _EXPRESSIONS:
            return f"{name} {self.operator}"
        return f"{name} {self.operator} {dialect.literal(self.value, self.leaf.type)}"

    def expression(self) -> BooleanExpression:
        """The condition for PyIceberg, of a column that is in no struct."""
        [name] = self.leaf.path
        if self.operator == "IS NULL":
            return IsNull(name)
        if self.operator == "IS NOT NULL":
            return NotNull(name)
        made: BooleanExpression = _EXPRESSIONS[self.operator](name, _python(self.value, self.leaf.type))
        return made

    def java(self, expressions: Any, wrap: Any) -> Any:
        """The condition for Iceberg's Java library.

        Args:
            expressions: its class `Expressions`.
            wrap: makes a buffer of bytes.
        """
        name = ".".join(self.leaf.path)
        if self.operator not in _EXPRESSIONS:
            return expressions.isNull(name) if self.operator == "IS NULL" else expressions.notNull(name)
        value = _python(self.value, self.leaf.type)
        if isinstance(value, bytes):
            value = wrap(value)
        elif pa.types.is_decimal(self.leaf.type):
            value = str(value)
        return getattr(expressions, _JAVA_NAMES[self.operator])(name, value)

    def finds(self, value: Any) -> bool:
        """Whether it finds a row with a value of the column, by the order of numbers."""
        if self.operator in ("IS NULL", "IS NOT NULL"):
            return (value is None) == (self.operator == "IS NULL")
        return value is not None and bool(_COMPARISONS[self.operator](value, self.value))

    def __str__(self) -> str:
        return self.sql(DUCKDB)


def leaves(table: pa.Table) -> Iterator[Leaf]:
    """The columns of a table that have bounds."""
    for name in table.column_names:
        yield from _leaves((name,), table[name].combine_chunks())


def probes(leaf: Leaf) -> Iterator[Probe]:
    """The filters of a column."""
    rows, ordered = len(leaf.values), leaf.ordered
    yield Probe(leaf, "IS NULL", None, leaf.nulls, 0)
    yield Probe(leaf, "IS NOT NULL", None, rows - leaf.nulls, 0)
    if not ordered:
        return
    low, high = ordered[0], ordered[-1]
    yield Probe(leaf, "=", low, ordered.count(low), 0)
    yield Probe(leaf, "=", high, ordered.count(high), 0)
    if pa.types.is_boolean(leaf.type):
        return
    yield Probe(leaf, "<", low, 0, 0)
    yield Probe(leaf, "<=", low, ordered.count(low), 0)
    yield Probe(leaf, ">", high, 0, leaf.nans)
    yield Probe(leaf, ">=", high, ordered.count(high), leaf.nans)
    middle = ordered[len(ordered) // 2]
    yield Probe(leaf, ">=", middle, sum(value >= middle for value in ordered), leaf.nans)


def _leaves(path: tuple[str, ...], array: pa.Array) -> Iterator[Leaf]:
    type_ = array.type
    if pa.types.is_struct(type_):
        for index, field in enumerate(type_):
            # Flattened, so that a NULL struct has NULL fields.
            yield from _leaves((*path, field.name), array.flatten()[index])
    elif not pa.types.is_nested(type_) and not pa.types.is_null(type_):
        yield Leaf(path, type_, _sortable(array))


def _sortable(array: pa.Array) -> list[Any]:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    elif pa.types.is_date(array.type):
        array = array.cast(pa.date32()).cast(pa.int32())
    values: list[Any] = array.to_pylist()
    return values


def _written(value: Any, type_: pa.DataType) -> str:
    if pa.types.is_timestamp(type_):
        return f"{np.datetime64(value, 'us')}".replace("T", " ") + ("+00:00" if type_.tz else "")
    if pa.types.is_date(type_):
        return str(np.datetime64(value, "D"))
    return str(value)


def _python(value: Any, type_: pa.DataType) -> Any:
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return _written(value, type_).replace(" ", "T")
    return value
