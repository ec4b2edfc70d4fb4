"""Columns of random tables: their types, values and transforms, and how a schema may change."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

from pyiceberg.schema import Schema as PySchema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import PrimitiveType as PyType

__all__ = ["EPOCH", "OTHER_NAN", "TRANSFORMS", "Column", "Schemas", "json_value", "transformed"]

OTHER_NAN: float = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0000))[0]
"""What arithmetic of some processors makes; Python's own has other bits."""

_POOLS: dict[str, Sequence[Any]] = {
    "boolean": [False, True],
    "int": [-(2**31), -17, -1, 0, 1, 5, 9, 10, 100, 2**31 - 1],
    "long": [-(2**63), -17, -1, 0, 1, 5, 9, 10, 100, 2**40, 2**63 - 1],
    "float": [-1.5, -0.0, 0.0, 0.25, 1.5, 1e10, math.nan, OTHER_NAN],
    "double": [-1.5, -0.0, 0.0, 0.1, 1.5, 1e300, math.nan, OTHER_NAN],
    "date": [-800, -366, -31, -1, 0, 1, 30, 31, 365, 19723, 19724, 20000],
    "time": [0, 1, 3_600_000_000, 86_399_999_999],
    "timestamp": [-86_400_000_001, -1, 0, 1, 86_400_000_000, 1_704_067_200_000_000, 1_704_070_800_000_001],
    "timestamptz": [-3_600_000_001, -1, 0, 1, 86_399_999_999, 1_704_067_200_000_000, 1_706_745_600_000_000],
    "timestamp_ns": [-86_400_000_000_001, -1, 0, 1, 999, 1000, 86_400_000_000_000, 1_704_067_200_000_000_001],
    "timestamptz_ns": [-3_600_000_000_001, -1, 0, 1, 86_399_999_999_999, 1_706_745_600_000_000_000],
    "string": ["", "a", "aa", "aab", "aabb", "ab", "b", "bb", "é", "éa", "日本", "😀x", "\uffee"],
    "uuid": [
        UUID(int=value)
        for value in (0, 1, 2**63, 2**64, 2**127 - 1, 2**127, 2**127 + 2**63, 2**128 - 1, 5 << 64)
    ],
    "binary": [b"", b"\x00", b"a", b"ab", b"a\xff", b"\xff", b"\xff\xff\xff"],
    "fixed[2]": [b"\x00\x00", b"ab", b"a\xff", b"\xff\xff"],
    "decimal(9, 2)": [Decimal(x).scaleb(-2) for x in (-999_999_949, -150, -1, 0, 1, 125, 150, 999_999_999)],
    "decimal(12, 2)": [Decimal(x).scaleb(-2) for x in (-(10**11), -999_999_949, -1, 0, 125, 150, 10**11)],
    "decimal(25, 3)": [Decimal(x).scaleb(-3) for x in (-(10**24), -1500, 0, 1, 1500, 10**19, 10**24)],
}
_TIMES = ("year", "month", "day")
TRANSFORMS: dict[str, Sequence[str]] = {
    "int": ("bucket[3]", "truncate[10]"),
    "long": ("bucket[3]", "truncate[10]"),
    "date": (*_TIMES, "bucket[3]"),
    "time": ("bucket[3]",),
    "timestamp": (*_TIMES, "hour", "bucket[3]"),
    "timestamptz": (*_TIMES, "hour", "bucket[3]"),
    "timestamp_ns": (*_TIMES, "hour", "bucket[3]"),
    "timestamptz_ns": (*_TIMES, "hour", "bucket[3]"),
    "string": ("truncate[1]", "truncate[2]", "bucket[3]"),
    "uuid": ("bucket[3]",),
    "binary": ("truncate[1]", "bucket[3]"),
    "decimal(9, 2)": ("truncate[50]", "bucket[3]"),
    "decimal(12, 2)": ("truncate[50]", "bucket[3]"),
    "decimal(25, 3)": ("truncate[500]", "bucket[3]"),
}
_PROMOTED = {"int": "long", "float": "double", "decimal(9, 2)": "decimal(12, 2)"}
EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Column:
    """A column: its id, name, type and whether it is required."""

    id: int
    name: str
    type: str
    required: bool = False

    @property
    def pool(self) -> Sequence[Any]:
        """Values that rows and filters take."""
        return _POOLS[self.type]

    @property
    def py_type(self) -> PyType:
        """The type of PyIceberg."""
        return (
            PySchema.model_validate(
                {"type": "struct", "fields": [{"id": 1, "name": "x", "type": self.type, "required": False}]}
            )
            .fields[0]
            .field_type
        )  # type: ignore[return-value]


class Schemas:
    """The schemas that a table has had.

    Attributes:
        history: columns of each schema; the last one is the current one.
        known: every column as it was last, by id.
    """

    def __init__(self, source: Random, version: int) -> None:
        """Makes the first schema, for a format version."""
        self._source = source
        self._types = [type for type in _POOLS if version > 2 or not type.endswith("_ns")]
        self.history: list[list[Column]] = []
        self.known: dict[int, Column] = {}
        self._add([self._new(id, source.random() < 0.2) for id in range(1, source.randint(1, 4) + 1)])

    @property
    def current(self) -> Sequence[Column]:
        """Columns of the current schema."""
        return self.history[-1]

    def change(self) -> int | None:
        """Drops, promotes, renames or adds a column.

        Returns:
            The id of a column that was dropped.
        """
        columns = list(self.current)
        place = self._source.randrange(len(columns))
        column = columns[place]
        dropped = None
        kind = self._source.choice(["drop", "drop", "promote", "promote", "rename", "add"])
        if kind == "drop" and len(columns) > 1:
            dropped = columns.pop(place).id
        elif kind == "promote" and column.type in _PROMOTED:
            columns[place] = replace(column, type=_PROMOTED[column.type])
        elif kind == "rename":
            columns[place] = replace(column, name=f"{column.name}r")
        else:
            columns.append(self._new(max(self.known) + 1, required=False))
        self._add(columns)
        return dropped

    def json(self, schema_id: int) -> dict[str, Any]:
        """A schema as metadata has it."""
        fields = [
            {"id": column.id, "name": column.name, "required": column.required, "type": column.type}
            for column in self.history[schema_id]
        ]
        return {"type": "struct", "schema-id": schema_id, "fields": fields}

    def _new(self, id: int, required: bool) -> Column:
        return Column(id, f"c{id}", self._source.choice(self._types), required)

    def _add(self, columns: list[Column]) -> None:
        self.history.append(columns)
        self.known |= {column.id: column for column in columns}


def json_value(value: Any, column: Column, source: Random | None = None) -> Any:
    """A literal as clients send it."""
    kind = column.type
    if kind == "date":
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if kind == "time":
        return (EPOCH + timedelta(microseconds=value)).time().isoformat("microseconds")
    if kind == "timestamp":
        return (EPOCH + timedelta(microseconds=value)).isoformat(timespec="microseconds")
    if kind == "timestamptz":
        moment = EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=value)
        return moment.isoformat(timespec="microseconds")
    if kind.endswith("_ns"):
        seconds, nanos = divmod(value, 10**9)
        text = f"{(EPOCH + timedelta(seconds=seconds)).isoformat()}.{nanos:09}"
        return f"{text}+00:00" if kind == "timestamptz_ns" else text
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes):
        upper = source is not None and source.random() < 0.5
        return value.hex().upper() if upper else value.hex()
    return value


def transformed(column: Column, transform: str, value: Any) -> Any:
    """A value as a transform makes it."""
    return parse_transform(transform).transform(column.py_type)(value)
