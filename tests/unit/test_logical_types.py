from __future__ import annotations

from uuid import UUID

import pytest

from floecat.iceberg.schemas.single_values import encode_one
from floecat.iceberg.schemas.types import ListType, MapType, PrimitiveType, StructType, Type, parse_primitive
from floecat.logical_types import canonical_text, logical_type

_STRING = PrimitiveType("string")


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (parse_primitive("int"), "INT"),
        (parse_primitive("long"), "INT"),
        (parse_primitive("decimal(9, 2)"), "DECIMAL(9,2)"),
        (parse_primitive("timestamp"), "TIMESTAMP"),
        (parse_primitive("timestamptz_ns"), "TIMESTAMPTZ(9)"),
        (parse_primitive("fixed[3]"), "BINARY"),
        (parse_primitive("geometry"), "BINARY"),
        (parse_primitive("variant"), "VARIANT"),
        (StructType(()), "STRUCT"),
        (ListType(1, _STRING, False), "ARRAY"),
        (MapType(1, _STRING, 2, _STRING, False), "MAP"),
    ],
)
def test_iceberg_types_have_a_logical_type(type: Type, text: str) -> None:
    assert str(logical_type(type)) == text


@pytest.mark.parametrize(
    ("type", "value", "text"),
    [
        ("boolean", True, "true"),
        ("boolean", False, "false"),
        ("int", -7, "-7"),
        ("long", 2**62, str(2**62)),
        ("float", 0.1, "0.1"),
        ("double", -0.0, "0"),
        ("double", float("-inf"), "-Infinity"),
        ("date", -1, "1969-12-31"),
        ("time", 3_600_000_000, "01:00:00"),
        ("timestamp", 1_500_000, "1970-01-01T00:00:01.5"),
        ("timestamptz", 0, "1970-01-01T00:00:00Z"),
        ("timestamp_ns", 1, "1970-01-01T00:00:00.000000001"),
        ("string", "żółw", "żółw"),
        ("uuid", UUID(int=1).bytes, "00000000-0000-0000-0000-000000000001"),
        ("fixed[2]", b"\xff\x00", "/wA="),
        ("decimal(9, 2)", -1250, "-12.5"),
        ("decimal(9, 2)", 1000, "10"),
        ("decimal(9, 0)", 1000, "1000"),
        ("decimal(38, 4)", -(10**38) + 1, "-" + "9" * 34 + ".9999"),
    ],
)
def test_values_have_one_text(type: str, value: object, text: str) -> None:
    primitive = parse_primitive(type)
    assert canonical_text(encode_one(value, primitive), primitive) == text
