"""Columns of content files as JSON: a text for each file, made column by column.

(Iceberg REST specification, `ContentFile`; single values as in the table specification, Appendix D.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.file_metrics import ColumnMetrics
from floecat.iceberg.schemas.types import PrimitiveType

__all__ = [
    "concat",
    "field",
    "hex_texts",
    "integers",
    "lists",
    "metrics_maps",
    "partitions",
    "separated",
    "single_values",
    "texts",
]

_TEXT: Final = pa.string()
_NEEDS_ESCAPE: Final = r'["\\\x00-\x1f]'
_encode = msgspec.json.encode


def concat(*parts: pa.Array | str) -> pa.StringArray:
    """Joins texts row by row; a null stands for an empty text."""
    return pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="")


def field(name: str, values: pa.StringArray) -> pa.StringArray:
    """A field of an object with the comma before it; null where the value is null."""
    return pc.binary_join_element_wise(f',"{name}":', values, "")


def separated(columns: Sequence[pa.StringArray]) -> pa.StringArray:
    """Texts row by row with commas between them, without the nulls."""
    return pc.utf8_slice_codeunits(
        concat(*(pc.binary_join_element_wise(",", column, "") for column in columns)), 1
    )


def integers(values: pa.Array) -> pa.StringArray:
    """Integers."""
    return values.cast(_TEXT)


def texts(values: pa.StringArray) -> pa.StringArray:
    """Strings, quoted and escaped."""
    if pc.any(pc.match_substring_regex(values, _NEEDS_ESCAPE)).as_py():
        encoded = [None if value is None else _encode(value).decode() for value in values.to_pylist()]
        return pa.array(encoded, _TEXT)
    return pc.binary_join_element_wise('"', values, '"', "")


def hex_texts(values: pa.BinaryArray) -> pa.StringArray:
    """Bytes as upper-case hexadecimal digits, as Java's parsers take them."""
    return pa.array(
        [None if value is None else f'"{value.hex().upper()}"' for value in values.to_pylist()], _TEXT
    )


def lists(values: pa.ListArray) -> pa.StringArray:
    """Lists of integers."""
    return pa.array(
        [None if value is None else _encode(value).decode() for value in values.to_pylist()], _TEXT
    )


def partitions(values: pa.StructArray, types: Sequence[PrimitiveType | None]) -> pa.StringArray | str:
    """Partition tuples as arrays of single values, in the order of the fields of their spec.

    Args:
        values: a field for each of the spec, of the Arrow type of its Iceberg type.
        types: the result types of the fields of the spec; None where only files know it.
    """
    if not types:
        return "[]"
    columns = [single_values(column, type) for column, type in zip(values.flatten(), types, strict=True)]
    return pc.binary_join_element_wise("[", pc.binary_join_element_wise(*columns, ","), "]", "")


def single_values(values: pa.Array, type: PrimitiveType | None) -> pa.StringArray:
    """Single values of one type; nulls are `null`. Each distinct value is rendered once."""
    name = _ARROW_NAMES.get(values.type.id, "") if type is None else type.name
    if pa.types.is_null(values.type) or name == "unknown":
        return pa.repeat("null", len(values))
    distinct = values.dictionary_encode()
    if name in _TIMES:
        rendered = _TIMES[name](distinct.dictionary)
    else:
        render = _RENDERERS.get(name, _encode_plain)
        rendered = [render(value) for value in distinct.dictionary.to_pylist()]
    return pc.fill_null(pa.array(rendered, _TEXT).take(distinct.indices), "null")


def metrics_maps(columns: Sequence[ColumnMetrics]) -> list[pa.StringArray]:
    """The maps of a data file from column id to count or bound, each as a field with its comma.

    Bounds are binary single values in hexadecimal digits, as the reference implementation writes and reads
    them. A file without a value of any column has no such map.
    """
    made = []
    for name, attribute, encode in _MAPS:
        found = [
            (column.field_id, values)
            for column in columns
            if (values := getattr(column, attribute)) is not None
        ]
        if found:
            made.append(field(name, _map([id for id, _ in found], [encode(values) for _, values in found])))
    return made


def _map(ids: Sequence[int], values: Sequence[pa.StringArray]) -> pa.StringArray:
    null = pa.scalar(None, _TEXT)
    keys = [pc.if_else(pc.is_valid(column), str(id), null) for id, column in zip(ids, values, strict=True)]
    joined = separated(keys)
    whole = concat('{"keys":[', joined, '],"values":[', separated(values), "]}")
    return pc.if_else(pc.equal(joined, ""), null, whole)


_MAPS: Final[Sequence[tuple[str, str, Callable[[Any], pa.StringArray]]]] = (
    ("column-sizes", "column_sizes", integers),
    ("value-counts", "value_counts", integers),
    ("null-value-counts", "null_value_counts", integers),
    ("nan-value-counts", "nan_value_counts", integers),
    ("lower-bounds", "lower_bounds", hex_texts),
    ("upper-bounds", "upper_bounds", hex_texts),
)


def _encode_plain(value: object) -> str:
    return _encode(value).decode()


def _encode_float(value: float) -> str:
    # Readers take a number beyond all for infinity, and no name. JSON has no number for NaN.
    if np.isfinite(value):
        return repr(value)
    return {"inf": "1e999", "-inf": "-1e999"}.get(str(value), '"NaN"')


def _encode_decimal(value: Decimal) -> str:
    return f'"{value:f}"'


def _encode_bytes(value: bytes) -> str:
    return f'"{value.hex().upper()}"'


def _encode_uuid(value: bytes) -> str:
    return f'"{UUID(bytes=value)}"'


_ARROW_NAMES: Final = {
    pa.float32().id: "float",
    pa.float64().id: "double",
    pa.date32().id: "date",
    pa.time64("us").id: "time",
    pa.timestamp("us").id: "timestamp",
    pa.decimal128(1).id: "decimal",
    pa.binary().id: "binary",
    pa.binary(1).id: "fixed",
}
"""Iceberg types that files alone tell of."""

_RENDERERS: Final[dict[str, Callable[[Any], str]]] = {
    "float": lambda value: _encode_float(float(str(np.float32(value)))),
    "double": _encode_float,
    "decimal": _encode_decimal,
    "binary": _encode_bytes,
    "fixed": _encode_bytes,
    "uuid": _encode_uuid,
}


def _dates(values: pa.Array) -> list[str]:
    return [f'"{_with_sign(text)}"' for text in _iso(values, pa.int32(), "D")]


def _timestamps(unit: str, offset: str) -> Callable[[pa.Array], list[str]]:
    def render(values: pa.Array) -> list[str]:
        return [f'"{_with_sign(text)}{offset}"' for text in _iso(values, pa.int64(), unit)]

    return render


def _clock_times(values: pa.Array) -> list[str]:
    # a time of day is one of the first day
    return [f'"{text.partition("T")[2]}"' for text in _iso(values, pa.int64(), "us")]


def _iso(values: pa.Array, integer: pa.DataType, unit: str) -> list[str]:
    # not by Python's own types, which end with the year 9999
    numbers = values.cast(integer).to_numpy(zero_copy_only=False).astype(np.int64)
    iso: list[str] = np.datetime_as_string(numbers.view(f"datetime64[{unit}]")).tolist()
    return iso


def _with_sign(text: str) -> str:
    """A year of more than four digits has a sign (ISO 8601)."""
    return f"+{text}" if text.index("-", 1) > 4 and text[0] != "-" else text


_TIMES: Final[dict[str, Callable[[pa.Array], list[str]]]] = {
    "date": _dates,
    "time": _clock_times,
    "timestamp": _timestamps("us", ""),
    "timestamptz": _timestamps("us", "+00:00"),
    "timestamp_ns": _timestamps("ns", ""),
    "timestamptz_ns": _timestamps("ns", "+00:00"),
}
