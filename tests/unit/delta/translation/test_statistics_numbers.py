from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from floecat.delta.translation.statistics_layout import LEAD
from floecat.delta.translation.statistics_numbers import (
    decimals_from_tokens,
    decimals_from_values,
    parse_longs,
)

LONGS = st.integers(-(2**63), 2**63 - 1)
EDGES = st.sampled_from([10**digits + more for digits in range(20) for more in (-1, 0, 1)])
TOKENS = st.one_of(
    LONGS.map(str),
    EDGES.map(str),
    EDGES.map(lambda number: str(-number)),
    st.from_regex(re.compile(r"[0-9.\-e\":nx ]{0,22}"), fullmatch=True),
    st.integers(-(10**30), 10**30).map(str),
)


def expected(token: str) -> int | None:
    if re.fullmatch(r"-?[0-9]{1,19}", token, re.ASCII) is None or not -(2**63) <= int(token) < 2**63:
        return None
    return int(token)


def read(rows: Sequence[Sequence[str]]) -> list[list[int | None]]:
    """Reads a table of tokens, which stand one after the other with a comma between them."""
    text, starts, ends = b"", [], []
    for row in rows:
        for token in row:
            starts.append(LEAD + len(text))
            text += token.encode()
            ends.append(LEAD + len(text))
            text += b","
    data = np.frombuffer(bytes(LEAD) + text + bytes(LEAD), dtype=np.uint8)
    shape = (len(rows), -1)
    values, is_long = parse_longs(data, np.array(starts).reshape(shape), np.array(ends).reshape(shape))
    return [
        [value if known else None for value, known in zip(*row, strict=True)]
        for row in zip(values.tolist(), is_long.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    "token",
    ["0", "-0", "7", "-7", "12345678", "123456789", "-1234567812345678", str(2**63 - 1), str(-(2**63))],
)
def test_reads_whole_numbers(token: str) -> None:
    assert read([[token]]) == [[int(token)]]


@pytest.mark.parametrize(
    "token",
    ["", "-", "--1", "1.0", "1e3", "null", "true", '"5"', " 1", str(2**63), str(-(2**63) - 1), "1" * 20],
)
def test_knows_what_is_no_long(token: str) -> None:
    assert read([[token]]) == [[None]]


@given(data=st.data(), columns=st.integers(1, 5))
def test_columns_of_any_tokens_are_read_as_one_by_one(data: st.DataObject, columns: int) -> None:
    row = st.lists(TOKENS, min_size=columns, max_size=columns)
    rows = data.draw(st.lists(row, min_size=1, max_size=8))
    assert read(rows) == [[expected(token) for token in row] for row in rows]


EXACT = Context(prec=100)


def both(precision: int, scale: int, *tokens: str | None) -> list[tuple[Decimal | None, Decimal | None]]:
    """Lower and upper bound of each token."""
    array = pa.array(tokens, pa.string())
    sides = [decimals_from_tokens(array, precision, scale, upper=upper) for upper in (False, True)]
    assert all(side.type == pa.decimal128(precision, scale) for side in sides)
    return list(zip(*(side.to_pylist() for side in sides), strict=True))


def bounds(precision: int, scale: int, token: str) -> tuple[Decimal | None, Decimal | None]:
    alone = both(precision, scale, token)[0]
    # beside others that can, or cannot, be read at once
    assert both(precision, scale, "0", token, None)[1] == alone
    assert both(precision, scale, "x", token)[1] == alone
    return alone


@pytest.mark.parametrize(
    ("precision", "scale", "token", "value"),
    [
        (10, 2, "123.45", "123.45"),
        (10, 2, "-0.5", "-0.50"),
        (10, 2, "7", "7.00"),
        (10, 2, "1.2E+3", "1200.00"),
        (10, 2, "99999999.99", "99999999.99"),
        (38, 0, "12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
        (38, 38, "0.12345678901234567890123456789012345678", "0.12345678901234567890123456789012345678"),
        (38, 18, "1.500000000000000000", "1.500000000000000000"),
        (38, 18, "-12345678901234567890.123456789012345678", "-12345678901234567890.123456789012345678"),
        (18, 2, "9999999999999999.99", "9999999999999999.99"),
        (18, 18, "0E-18", "0"),
    ],
)
def test_numbers_with_all_their_digits_are_exact(precision: int, scale: int, token: str, value: str) -> None:
    assert bounds(precision, scale, token) == (Decimal(value), Decimal(value))


def test_digits_behind_the_scale_move_bounds_outwards() -> None:
    assert bounds(10, 2, "1.239") == (Decimal("1.23"), Decimal("1.24"))
    assert bounds(10, 2, "-1.231") == (Decimal("-1.24"), Decimal("-1.23"))
    assert bounds(10, 0, "1e-999999") == (Decimal(0), Decimal(1))


@pytest.mark.parametrize(
    "token",
    ["", "x", "1_000", '"1.5"', "NaN", "1e999999999", "1e99999999999999999999", "100000000.00", "1" * 400],
)
def test_what_the_column_cannot_hold_is_unknown(token: str) -> None:
    assert bounds(10, 2, token) == (None, None)


@pytest.mark.parametrize(
    ("precision", "scale", "token"),
    [
        (38, 18, "1.5"),  # what a double leaves of 1.500000000000000001
        (38, 0, "1e25"),
        (38, 0, "1234567890123456768"),
        (38, 2, "12345678901234567.0"),
        (17, 17, "0.12345678901234567"),
    ],
)
def test_numbers_that_may_come_from_doubles_are_no_bounds_themselves(
    precision: int, scale: int, token: str
) -> None:
    lower, upper = bounds(precision, scale, token)
    assert lower is not None
    assert upper is not None
    assert lower < Decimal(token) < upper
    assert upper - lower < abs(Decimal(token)) / 10**14


def test_moved_bounds_stay_within_the_type() -> None:
    assert bounds(16, 0, "9999999999999999")[1] == 10**16 - 1
    assert bounds(16, 0, "-9999999999999999")[0] == 1 - 10**16


def test_a_long_that_was_cut_off_is_unknown_on_its_side() -> None:
    assert bounds(38, 0, "9223372036854775807")[1] is None
    assert bounds(38, 0, "-9223372036854775808")[0] is None


@given(data=st.data(), scale=st.integers(0, 38))
def test_bounds_hold_values_however_a_writer_spells_them(data: st.DataObject, scale: int) -> None:
    precision = data.draw(st.integers(max(scale, 1), 38))
    digits = data.draw(st.integers(1, precision))
    unscaled = data.draw(st.integers(1 - 10**digits, 10**digits - 1))
    value = Decimal(unscaled).scaleb(-scale, EXACT)
    exact = str(value)
    assert "e" in exact.lower() or bounds(precision, scale, exact) != (None, None)
    for token in (exact, f"{value:f}", *doubles(unscaled, scale)):
        lower, upper = bounds(precision, scale, token)
        assert lower is None or lower <= value
        assert upper is None or upper >= value


def doubles(unscaled: int, scale: int) -> list[str]:
    """How a writer spells a decimal that passes through a double."""
    power = 1.0
    for _ in range(scale):
        power *= 10.0
    number = float(unscaled) / power
    tokens = [json.dumps(number), json.dumps(float(unscaled) * (1 / power))]
    if not scale:
        tokens.append(str(max(min(round(number), 2**63 - 1), -(2**63))))
    return tokens


@given(data=st.data(), scale=st.integers(0, 20), more=st.integers(0, 10))
def test_values_of_a_smaller_type_are_rescaled(data: st.DataObject, scale: int, more: int) -> None:
    whole = data.draw(st.integers(1, 38 - 20 - 10))
    limit = 10 ** (whole + scale) - 1
    unscaled = data.draw(st.integers(-limit, limit))
    value = Decimal(unscaled).scaleb(-scale, EXACT)
    array = pa.array([value, None], pa.decimal128(whole + scale, scale))
    wide = (whole + scale + more, scale + more)
    lower, upper = (decimals_from_values(array, *wide, upper=upper) for upper in (False, True))
    assert lower is not None
    assert upper is not None
    assert lower.type == upper.type == pa.decimal128(*wide)
    assert lower[0].as_py() <= value <= upper[0].as_py()
    assert lower[1].as_py() is None
    assume(abs(unscaled) * 10**more < 10**15)
    assert lower[0].as_py() == value == upper[0].as_py()


@pytest.mark.parametrize(
    "array",
    [pa.array([1]), pa.array(["1"]), pa.array([Decimal("1.25")]), pa.array([Decimal("123456789.1")])],
)
def test_values_of_another_type_are_unknown(array: Any) -> None:
    assert decimals_from_values(array, 9, 1, upper=True) is None
