from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import types as iceberg
from pyiceberg.transforms import parse_transform

from floecat.iceberg.schemas.single_values import encode_one
from floecat.iceberg.schemas.types import parse_primitive
from floecat.statistics.files.transforms import transform_values, transformed_value

_DAY = 86_400_000_000
_LONGS = [0, 1, -1, 17, -17, _DAY, -_DAY, 951_825_600_000_000, -951_825_600_000_001, None, 2**62, -(2**62)]
_DAYS = [0, 1, -1, 11_016, -11_017, None, 40_000]
_TEXTS = ["", "a", "straße", "日本語文字列", None, "a" * 100, "straße"]
_DECIMALS = [
    Decimal("0.00"),
    Decimal("12.34"),
    Decimal("-12.34"),
    None,
    Decimal(10) ** 30,
    Decimal(-(2**63)) / 100,
]
_COLUMNS: dict[str, tuple[Any, pa.Array]] = {
    "int": (iceberg.IntegerType(), pa.array([0, 1, -1, 34, -34, None, 2**31 - 1], pa.int32())),
    "long": (iceberg.LongType(), pa.array(_LONGS, pa.int64())),
    "date": (iceberg.DateType(), pa.array(_DAYS, pa.int32()).view(pa.date32())),
    "time": (iceberg.TimeType(), pa.array([0, None, _DAY - 1], pa.int64()).view(pa.time64("us"))),
    "timestamp": (iceberg.TimestampType(), pa.array(_LONGS[:10], pa.int64()).cast(pa.timestamp("us"))),
    "timestamptz": (
        iceberg.TimestamptzType(),
        pa.array(_LONGS[:10], pa.int64()).cast(pa.timestamp("us", "UTC")),
    ),
    "string": (iceberg.StringType(), pa.array(_TEXTS)),
    "binary": (iceberg.BinaryType(), pa.array([b"", b"\xff\x00\x01\x02\x03", None])),
    "fixed[5]": (iceberg.FixedType(5), pa.array([b"abcde", None, b"\x00" * 5], pa.binary())),
    "decimal(38, 2)": (iceberg.DecimalType(38, 2), pa.array(_DECIMALS, pa.decimal128(38, 2))),
    "decimal(9, 2)": (iceberg.DecimalType(9, 2), pa.array(_DECIMALS[:4], pa.decimal128(9, 2))),
}
_TRANSFORMS = ("bucket[16]", "truncate[4]", "year", "month", "day", "hour")


@pytest.mark.parametrize("transform", _TRANSFORMS)
@pytest.mark.parametrize("name", _COLUMNS)
def test_values_are_transformed_as_by_the_reference_client(name: str, transform: str) -> None:
    kind, values = _COLUMNS[name]
    reference = parse_transform(transform)
    if not reference.can_transform(kind):
        return
    of_one = reference.transform(kind)
    plain = values.cast(pa.int32() if name == "date" else pa.int64()) if name in ("date", "time") else values
    plain = plain.cast(pa.int64()) if name.startswith("timestamp") else plain
    expected = [None if value is None else of_one(value) for value in plain.to_pylist()]
    found = transform_values(values, transform, parse_primitive(name))
    if transform == "day":
        assert found.type == pa.date32()
        found = found.cast(pa.int32())
    assert found.to_pylist() == expected
    sliced = transform_values(values.slice(1), transform, parse_primitive(name))
    assert (sliced.cast(pa.int32()) if transform == "day" else sliced).to_pylist() == expected[1:]
    sliced.validate(full=True)


def test_nanoseconds_are_transformed_as_microseconds_are() -> None:
    micros = pa.array([-1, 0, 951_825_600_000_000, None], pa.int64())
    nanos = pa.array([-1, 999, 951_825_600_000_000_999, None], pa.int64()).cast(pa.timestamp("ns"))
    for transform in ("bucket[16]", "year", "month", "day", "hour"):
        expected = transform_values(micros.cast(pa.timestamp("us")), transform, parse_primitive("timestamp"))
        assert transform_values(nanos, transform, parse_primitive("timestamp_ns")).equals(expected)


def test_dictionaries_and_single_values_are_transformed_too() -> None:
    text = parse_primitive("string")
    values = pa.array(["north", "south", None, "north"]).dictionary_encode()
    assert transform_values(values, "truncate[2]", text).to_pylist() == ["no", "so", None, "no"]
    assert transformed_value(b"north", "truncate[2]", text) == b"no"
    assert transformed_value(None, "truncate[2]", text) is None
    day = encode_one(_DAY, parse_primitive("timestamp"))
    assert transformed_value(day, "day", parse_primitive("timestamp")) == encode_one(
        1, parse_primitive("date")
    )


def test_the_least_integers_overflow_as_in_java() -> None:
    found = transform_values(pa.array([-(2**31)], pa.int32()), "truncate[10]", parse_primitive("int"))
    assert found.to_pylist() == [2**31 - 2]
    found = transform_values(pa.array([-(2**63)], pa.int64()), "truncate[10]", parse_primitive("long"))
    assert found.to_pylist() == [2**63 - 2]
