from __future__ import annotations

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.types import PrimitiveType, parse_primitive


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("long", "long"),
        ("STRING", "string"),
        ("decimal(9,2)", "decimal(9, 2)"),
        ("decimal( 38 , 10 )", "decimal(38, 10)"),
        ("fixed[16]", "fixed[16]"),
        ("timestamptz_ns", "timestamptz_ns"),
        ("variant", "variant"),
        ("geometry", "geometry(ogc:crs84)"),
        ("geometry(EPSG:4326)", "geometry(epsg:4326)"),
        ("geography(srid:4269, karney)", "geography(srid:4269, karney)"),
    ],
)
def test_reads_primitive_types(text: str, shown: str) -> None:
    assert str(parse_primitive(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "varchar",
        "decimal(39,2)",
        "decimal(9)",
        "fixed[]",
        "fixed[-1]",
        "geography(x, straight)",
        "geometry()",
        "",
    ],
)
def test_refuses_what_is_no_type(text: str) -> None:
    with pytest.raises(IllegalArgumentError):
        parse_primitive(text)


@pytest.mark.parametrize("start", ["geometry(", "geography(", "geography", "geography(a,"])
def test_blanks_take_time_in_proportion(start: str) -> None:
    # hours, if each of them may belong to several parts
    with pytest.raises(IllegalArgumentError):
        parse_primitive(start + " " * 100_000 + "!")


def test_blanks_around_a_coordinate_system_are_no_part_of_it() -> None:
    assert parse_primitive("geometry ( a b )") == parse_primitive("geometry(a b)")
    assert parse_primitive("geography( a b , karney )") == parse_primitive("geography(a b,karney)")
    with pytest.raises(IllegalArgumentError, match="Invalid CRS"):
        parse_primitive("geometry( )")


def test_an_omitted_coordinate_system_is_the_default_one() -> None:
    assert parse_primitive("geometry") == parse_primitive("geometry(OGC:CRS84)")
    assert parse_primitive("geography") == parse_primitive("geography(ogc:crs84, SPHERICAL)")


def test_decimals_of_other_precision_are_other_types() -> None:
    assert parse_primitive("decimal(9,2)") != parse_primitive("decimal(10,2)")


def test_variant_is_not_called_primitive() -> None:
    assert not PrimitiveType("variant").is_primitive
    assert PrimitiveType("int").is_primitive


def test_a_long_unknown_type_is_not_quoted_in_full() -> None:
    with pytest.raises(IllegalArgumentError) as caught:
        parse_primitive("x" * 10_000)
    assert len(caught.value.message) < 200
