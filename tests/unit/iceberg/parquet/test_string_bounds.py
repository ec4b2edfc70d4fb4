from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floecat.iceberg.parquet.string_bounds import successor, successors

LAST = "\U0010ffff"
# characters at the edges of what a byte, a sequence of bytes or a code unit can hold
EDGES = st.text(
    st.sampled_from("\x00a~\x7f\x80\u07ff\u0800\ud7ff\ue000\ufffd\uffff\U00010000" + LAST), max_size=4
)


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("abc", "abd"),
        ("ab~", "ab\x7f"),
        ("ab\x7f", "ab\x80"),
        ("ä", "å"),
        ("a\ud7ff", "a\ue000"),
        ("a\uffff", "a\U00010000"),
        ("a" + LAST + LAST, "b"),
        (LAST, None),
        ("", None),
    ],
)
def test_the_successor_is_the_next_prefix(prefix: str, expected: str | None) -> None:
    assert successor(prefix) == expected
    assert successors(pa.array([prefix])).to_pylist() == [expected]


@settings(deadline=None)
@given(prefix=st.text() | EDGES, rest=st.text() | EDGES)
def test_the_successor_is_above_all_that_starts_with_the_prefix(prefix: str, rest: str) -> None:
    found = successor(prefix)
    assert found is None or found.encode() > (prefix + rest).encode()


@settings(deadline=None)
@given(prefixes=st.lists(st.none() | st.text(max_size=5) | EDGES, max_size=20), start=st.integers(0, 3))
def test_an_array_gets_the_same_successors(prefixes: list[str | None], start: int) -> None:
    expected = [None if prefix is None else successor(prefix) for prefix in prefixes]
    array = pa.array(prefixes, pa.string())
    assert successors(array).to_pylist() == expected
    assert successors(array.slice(start)).to_pylist() == expected[start:]
    assert array.to_pylist() == prefixes  # nothing was changed in place
