"""The rows that clients write for each other, and what they become by the statements of every writer."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

__all__ = [
    "APPENDED",
    "CHANGED",
    "COLUMNS",
    "FIRST_BATCH",
    "NEW_ROW",
    "SCHEMA",
    "SECOND_BATCH",
    "Row",
    "table_of",
]

Row = tuple[object, ...]

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("ratio", pa.float64()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("seen_at", pa.timestamp("us")),
        ("tags", pa.list_(pa.string())),
    ]
)
COLUMNS = tuple(SCHEMA.names)

_LEAP_DAY = (date(2024, 2, 29), datetime(2024, 2, 29, 12, 0, 0, 1))
_BEFORE_EPOCH = (date(1969, 12, 31), datetime(1969, 12, 31, 23, 59, 59, 999_999))

FIRST_BATCH: tuple[Row, ...] = (
    (1, "one", Decimal("1.10"), 0.5, True, *_LEAP_DAY, ["a", "b"]),
    (2, "zwölf 十二 🐈", Decimal("-2.00"), -0.25, False, *_BEFORE_EPOCH, []),
)
SECOND_BATCH: tuple[Row, ...] = (
    (3, None, None, None, None, None, None, ["c"]),
    (4, "", Decimal("99999999.99"), float("inf"), True, date(2200, 1, 1), datetime(2200, 1, 1), [""]),
)
NEW_ROW: Row = (5, "five", Decimal("0.05"), 5.0, False, *_LEAP_DAY, ["x"])

APPENDED: list[Row] = [*FIRST_BATCH, *SECOND_BATCH]
"""After the two batches, by id."""

CHANGED: list[Row] = [
    (2, "changed", *FIRST_BATCH[1][2:], None),
    *((*row, None) for row in SECOND_BATCH),
    (*NEW_ROW, "note of five"),
]
"""After: name of 2 set to `changed`, 1 deleted, column `note` added, `NEW_ROW` with a note appended."""


def table_of(rows: tuple[Row, ...] | list[Row], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows as an Arrow table."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
