from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floecat.delta.translation.statistics_longs import LEAD, parse_longs

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


@settings(deadline=None)
@given(data=st.data(), columns=st.integers(1, 5))
def test_columns_of_any_tokens_are_read_as_one_by_one(data: st.DataObject, columns: int) -> None:
    row = st.lists(TOKENS, min_size=columns, max_size=columns)
    rows = data.draw(st.lists(row, min_size=1, max_size=8))
    assert read(rows) == [[expected(token) for token in row] for row in rows]
