from __future__ import annotations

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.new_columns import check_new_columns
from floecat.iceberg.schemas.schema import Schema, parse_schema
from tests.unit.iceberg.table_documents import column, encode, schema


def _with_default(type: str, value: object, name: str = "c") -> Schema:
    return parse_schema(encode(schema(column(1, name, type, **{"write-default": value}))))


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("decimal(9, 2)", "-14.20"),
        ("float", 3.4028234663852886e38),
        ("float", -3.4028235e38),
        ("double", 1e300),
        ("date", "2017-11-16"),
        ("time", "22:31:08"),
        ("time", "22:31:08.12"),
        ("timestamp", "2017-11-16T22:31:08.123456"),
        ("timestamptz", "2017-11-16T22:31:08+00:00"),
        ("timestamp_ns", "2017-11-16T22:31:08.123456789"),
        ("timestamptz_ns", "2017-11-16T22:31:08.1234567+00:00"),
        ("uuid", "F79C3E09-677C-4BBD-A479-3F349CB785E7"),
    ],
)
def test_forms_of_the_specification(type: str, value: object) -> None:
    check_new_columns(_with_default(type, value), None)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("float", 1e39),
        ("date", "+12345-01-01"),
        ("time", "22:31"),
        ("time", "22:31:08.1234567"),
        ("timestamp", "2017-11-16T22:31:08.123456789"),
        ("timestamp", "+12345-01-01T00:00:00"),
        ("timestamp", "2017-11-16T22:31"),
        ("timestamptz", "2017-11-16T22:31:08Z"),
        ("timestamptz", "2017-11-16T22:31:08-00:00"),
        ("timestamptz_ns", "2017-11-16T22:31:08Z"),
    ],
)
def test_other_forms_are_refused_and_stay_readable(type: str, value: object) -> None:
    odd = _with_default(type, value)
    with pytest.raises(IllegalArgumentError, match="Invalid default of c"):
        check_new_columns(odd, None)
    check_new_columns(_with_default(type, value, name="renamed"), odd)


def test_a_decimal_that_was_there_stays() -> None:
    odd = parse_schema(encode(schema(column(1, "d", "decimal(0, 0)"))))
    wider = parse_schema(encode(schema(column(1, "d", "decimal(0, 0)"), column(2, "e"))))
    check_new_columns(wider, odd)
    with pytest.raises(IllegalArgumentError, match="Invalid type of d"):
        check_new_columns(wider, None)
