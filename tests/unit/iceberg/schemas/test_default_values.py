from __future__ import annotations

import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.default_values import check_default, same_default
from floecat.iceberg.schemas.new_columns import check_new_columns
from floecat.iceberg.schemas.schema import parse_schema
from floecat.iceberg.schemas.types import ListType, StructType, Type, parse_primitive
from tests.services.spark import iceberg_java
from tests.unit.iceberg.table_documents import encode, schema

__all__ = ["iceberg_java"]


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("boolean", False),
        ("int", -(2**31)),
        ("long", 2**63 - 1),
        ("double", 0.5),
        ("decimal(9,2)", "-14.20"),
        ("decimal(2,2)", "0.25"),
        ("decimal(9,8)", "1E-8"),
        ("string", ""),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("date", "2017-11-16"),
        ("date", "+12345-01-31"),
        ("date", "+12344-02-29"),
        ("date", "-0004-02-29"),
        ("time", "22:31"),
        ("time", "22:31:08"),
        ("time", "22:31:08.123456"),
        ("timestamp", "2017-11-16T22:31:08.123456"),
        ("timestamp", "+292000-11-16T22:31:08.123456789"),
        ("timestamptz", "2017-11-16T22:31:08.123456+00:00"),
        ("timestamptz", "2017-11-16T22:31:08Z"),
        ("timestamp_ns", "2017-11-16T22:31:08.123456789"),
        ("timestamp_ns", "1677-09-21T00:12:43.145224192"),
        ("timestamp_ns", "2262-04-11T23:47:16.854775807"),
        ("timestamptz_ns", "2017-11-16T22:31:08.123456789+00:00"),
        ("fixed[2]", "00Ff"),
        ("binary", ""),
    ],
)
def test_accepts_single_values(type: str, value: object) -> None:
    assert check_default(value, parse_primitive(type), "c") == value


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("boolean", 1),
        ("int", 2**31),
        ("int", True),
        ("int", 1.0),
        ("long", 2**63),
        ("double", "0.5"),
        ("double", True),
        ("decimal(9,2)", "14.2"),
        ("decimal(3,2)", "14.20"),
        ("decimal(9,2)", 14.2),
        ("decimal(9,2)", "NaN"),
        ("decimal(9,2)", "many"),
        ("decimal(9,2)", " 1.00"),
        ("decimal(9,2)", "1_0.00"),
        ("decimal(9,2)", "1.0\u0661"),
        ("string", 5),
        ("uuid", "f79c3e09677c4bbda4793f349cb785e7"),
        ("uuid", "g79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("date", "2017-13-01"),
        ("uuid", "f79c3e09677c4bbda4793f349cb785e7----"),
        ("uuid", "f79c3e0-9677c-4bbd-a479-3f349cb785e7"),
        ("date", "20171116"),
        ("date", "+12345-02-30"),
        ("date", "12345-01-01"),
        ("date", 17486),
        ("time", "25:00:00"),
        ("time", "noon"),
        ("time", "22:31.5"),
        ("time", "22:31:08."),
        ("timestamp", "+12345-02-30T00:00:00"),
        ("timestamp", "+999999999-01-01T00:00:00"),
        ("timestamp_ns", "1677-09-21T00:12:43.145224191"),
        ("timestamp_ns", "2262-04-11T23:47:16.854775808"),
        ("timestamp_ns", "1600-01-01T00:00:00"),
        ("timestamptz_ns", "2300-01-01T00:00:00+00:00"),
        ("timestamp", "2017-11-16T22:31:08+00:00"),
        ("timestamp", "2017-11-16"),
        ("timestamptz", "2017-11-16T22:31:08"),
        ("timestamptz", "2017-11-16T22:31:08+01:00"),
        ("fixed[2]", "00"),
        ("binary", "0"),
        ("binary", "zz"),
        ("unknown", 1),
        ("variant", {}),
        ("geometry", "POINT (0 0)"),
    ],
)
def test_refuses_others_without_quoting_them(type: str, value: object) -> None:
    with pytest.raises(IllegalArgumentError) as caught:
        check_default(value, parse_primitive(type), "secret_column")
    assert "secret_column" in caught.value.message
    assert repr(value) not in caught.value.message.replace("secret_column", "")


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (StructType(()), {"1": 5}),
        (StructType(()), []),
        (StructType(()), 0),
        (ListType(1, parse_primitive("int"), element_required=False), {}),
        (ListType(1, parse_primitive("int"), element_required=False), []),
    ],
)
def test_nested_types_default_to_null_but_empty_structs(type: Type, value: object) -> None:
    assert check_default({}, StructType(()), "c") == {}
    with pytest.raises(IllegalArgumentError, match="must be null"):
        check_default(value, type, "c")


@pytest.mark.parametrize(
    ("type", "old", "new", "same"),
    [
        ("int", 5, 5, True),
        ("int", 5, None, False),
        ("double", 1.0, 1, True),
        ("double", 0.0, -0.0, False),
        ("float", -0.0, -0.0, True),
        ("decimal(9,2)", "1.00", "+1.00", True),
        ("decimal(9,2)", "1.00", "1.01", False),
        ("uuid", "F79C3E09-677C-4BBD-A479-3F349CB785E7", "f79c3e09-677c-4bbd-a479-3f349cb785e7", True),
        ("binary", "0A", "0a", True),
        ("string", "A", "a", False),
        ("time", "12:00", "12:00:00.000", True),
        ("time", "12:00", "00:12:00", False),
        ("timestamp", "2020-01-01T12:00:00", "2020-01-01T12:00:00.000000", True),
        ("timestamp", "2020-01-01T12:00:00.1", "2020-01-01T12:00:00.10", True),
        ("timestamp", "2020-01-01T12:00:00.1", "2020-01-01T12:00:00.01", False),
        ("timestamptz", "2020-01-01T12:00:00Z", "2020-01-01T12:00:00+00:00", True),
        # promoted
        ("timestamp", "2020-01-01", "2020-01-01T00:00:00", True),
        ("timestamp_ns", "2020-01-01", "2020-01-01T00:00:01", False),
    ],
)
def test_defaults_are_compared_by_value(type: str, old: object, new: object, same: bool) -> None:
    assert same_default(old, new, parse_primitive(type)) == same


def test_a_whole_number_becomes_a_float_for_floating_point_columns() -> None:
    value = check_default(3, parse_primitive("double"), "c")
    assert isinstance(value, float)
    assert value == 3


def test_a_whole_number_that_no_float_holds_is_refused() -> None:
    with pytest.raises(IllegalArgumentError, match="Cannot parse default of c as a double value"):
        check_default(10**400, parse_primitive("double"), "c")


_WITH_DEFAULTS = [
    ("boolean", False),
    ("int", -(2**31)),
    ("long", 2**63 - 1),
    ("float", 0.5),
    ("float", -0.0),
    ("double", 1e300),
    ("decimal(9,2)", "-14.20"),
    ("decimal(9,8)", "1E-8"),
    ("string", ""),
    ("string", "\U0001f600"),
    ("uuid", "F79c3e09-677c-4bbd-a479-3f349cb785e7"),
    ("date", "2017-11-16"),
    ("time", "22:31:08"),
    ("time", "22:31:08.1"),
    ("timestamp", "0001-01-01T22:31:08.123456"),
    ("timestamp", "9999-12-31T23:59:59.999999"),
    ("timestamptz", "2017-11-16T22:31:08.123456+00:00"),
    ("timestamp_ns", "1677-09-21T00:12:43.145224192"),
    ("timestamptz_ns", "2017-11-16T22:31:08.123456789+00:00"),
    ("fixed[2]", "00Ff"),
    ("binary", ""),
]


def _schema_with(type: object, value: object) -> bytes:
    column = {"id": 1, "name": "c", "required": False, "type": type}
    return encode(schema(column | {"initial-default": value, "write-default": value}))


def test_java_reads_defaults_of_every_type(iceberg_java: JavaGateway) -> None:
    read = iceberg_java.jvm.org.apache.iceberg.SchemaParser.fromJson
    for type, value in _WITH_DEFAULTS:
        written = _schema_with(type, value)
        check_new_columns(parse_schema(written), None)
        assert read(written.decode()).findField("c").initialDefault() is not None, type
    # the table specification allows it, and PyIceberg reads it
    empty = _schema_with({"type": "struct", "fields": []}, {})
    check_new_columns(parse_schema(empty), None)
    with pytest.raises(Py4JJavaError, match="Cannot create expression literal"):
        read(empty.decode())
