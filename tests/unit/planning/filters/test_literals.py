"""Values of literals."""

from __future__ import annotations

from fractions import Fraction
from uuid import UUID

import msgspec
import pytest

from floecat.iceberg.schemas.types import parse_primitive
from floecat.planning.filters.literals import EXAMPLES, canonical

_UUID = "F79C3E09-677C-4BBD-A479-3F349CB785E7"


@pytest.mark.parametrize(
    ("type", "json", "value"),
    [
        ("boolean", True, 1),
        ("boolean", "false", 0),
        ("int", -3, -3),
        ("long", 2**70, 2**70),
        ("double", 3, 3.0),
        ("double", -1.5, -1.5),
        ("float", 0.1, 0.10000000149011612),
        ("float", 1e300, Fraction(10**300)),
        ("double", "-Infinity", float("-inf")),
        ("double", "-1e5", -1e5),
        ("double", "1e999", Fraction(10**999)),
        ("double", 10**400, Fraction(10**400)),
        ("float", "0.1", 0.10000000149011612),
        ("int", "0.5", Fraction(1, 2)),
        ("int", 1.5, Fraction(3, 2)),
        ("long", "1e3", 1000),
        ("date", "1970-01-02", 1),
        ("date", "1969-12-31", -1),
        ("date", 17, 17),
        ("time", "01:02:03.000004", 3_723_000_004),
        ("time", "01:02", 3_720_000_000),
        ("timestamp", "1970-01-01T00:00:01.5", 1_500_000),
        ("timestamp", "1969-12-31T23:59:59.999999", -1),
        ("timestamp", 12, 12),
        ("timestamp", "1970-01-01T00:00:00.0000005", Fraction(1, 2)),
        ("timestamptz", "1970-01-01T01:00:00+01:00", 0),
        ("timestamptz", "1970-01-01T00:00:00Z", 0),
        # as PyIceberg writes it
        ("timestamptz", "1970-01-01T00:00:01", 1_000_000),
        ("timestamp_ns", "1970-01-01T00:00:00.000000005", 5),
        ("timestamp_ns", 12, 12_000),
        ("timestamptz_ns", "1970-01-01T00:00:00.000000005+00:00", 5),
        ("decimal(9, 2)", "1.25", 125),
        ("decimal(9, 2)", "-1.2", -120),
        ("decimal(9, 2)", 1.25, 125),
        ("decimal(9, 2)", 3, 300),
        ("decimal(9, 2)", "1.255", Fraction(251, 2)),
        ("decimal(38, 0)", "99999999999999999999999999999999999999", 10**38 - 1),
        ("string", "é", "é".encode()),
        ("uuid", _UUID, UUID(_UUID).bytes),
        ("binary", "0aFF", b"\x0a\xff"),
        ("binary", "", b""),
        ("fixed[2]", "0AFF", b"\x0a\xff"),
    ],
)
def test_values(type: str, json: object, value: object) -> None:
    assert canonical(json, parse_primitive(type)) == value


@pytest.mark.parametrize(
    ("type", "json"),
    [
        ("boolean", 1),
        ("int", True),
        ("int", ""),
        ("int", "Infinity"),
        ("long", "0x1"),
        ("double", "inf"),
        ("double", True),
        ("double", "1e9999"),
        ("decimal(9, 2)", "NaN"),
        ("date", "1970-01-01T00:00:00"),
        ("date", "1970-02-30"),
        ("date", 1.5),
        ("time", "25:00:00"),
        ("timestamp", "1970-01-01"),
        ("timestamp", "1970-01-01T00:00:00Z"),
        ("decimal(9, 2)", "x"),
        ("decimal(9, 2)", True),
        ("string", 1),
        ("uuid", "x"),
        ("binary", "0"),
        ("binary", "zz"),
        ("binary", "0a 0b"),
        ("fixed[2]", "0a"),
        ("variant", 1),
    ],
)
def test_what_is_no_value_of_a_type(type: str, json: object) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        canonical(json, parse_primitive(type))


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_are_values_of_their_types(name: str) -> None:
    type = parse_primitive({"decimal": "decimal(9, 2)", "fixed": "fixed[2]"}.get(name, name))
    example = EXAMPLES[name]
    canonical(example.strip("'") if "'" in example else msgspec.json.decode(example), type)
