"""Python values as SQL."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal

__all__ = ["sql_values"]


def sql_values(rows: Iterable[tuple[object, ...]], *, array: str = "", time: str = "TIMESTAMP") -> str:
    """Rows as the list behind VALUES; `array` is the function that makes one, `time` the type of times."""
    return ", ".join(f"({', '.join(_literal(value, array, time) for value in row)})" for row in rows)


def _literal(value: object, array: str, time: str) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case int() | Decimal():
            return str(value)
        case datetime():
            return f"{time} '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case str():
            quoted = value.replace("'", "''")
            return f"'{quoted}'"
        case list():
            members = ", ".join(_literal(member, array, time) for member in value)
            return f"{array}({members})" if array else f"[{members}]"
    raise TypeError(f"No literal for {type(value).__name__}")
