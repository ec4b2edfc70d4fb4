from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.errors import IllegalArgumentError
from floecat.iceberg.values.json_checks import check_json
from floecat.iceberg.values.json_keys import has_repeated_keys

_PARTS = ["a", "b", "é", "\\u0061", '\\"', "\\\\", "\\n", "\\ud800", ":", ",", "{", "}", "[", "x" * 20]
_BLANKS = st.sampled_from(["", "", " ", "\n "])
_TEXTS = st.lists(st.sampled_from(_PARTS), max_size=3).map(lambda parts: f'"{"".join(parts)}"')


def _joined(values: list[str]) -> str:
    return ",".join(values)


@st.composite
def _members(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    return f"{draw(_TEXTS)}{draw(_BLANKS)}:{draw(_BLANKS)}{draw(values)}{draw(_BLANKS)}"


_DOCUMENTS = st.recursive(
    _TEXTS | st.sampled_from(["1", "null", "-1.5e3"]),
    lambda values: (
        st.lists(values, max_size=4).map(lambda found: f"[ {_joined(found)} ]")
        | st.lists(_members(values), max_size=4).map(lambda found: f"{{{_joined(found)}}}")
    ),
)


def _repeats(data: bytes) -> bool:
    """As the standard library reads it."""
    found = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        found.append(len(dict(pairs)) != len(pairs))

    json.loads(data, object_pairs_hook=look)
    return any(found)


@given(st.lists(_DOCUMENTS, max_size=4), st.sampled_from([1, 2, 5, 13, 40, 1000]))
def test_keys_are_those_of_the_standard_library(documents: list[str], block_bytes: int) -> None:
    data = f"[{_joined(documents)}]".encode()
    assert has_repeated_keys(data, block_bytes=block_bytes) == _repeats(data)


@pytest.mark.parametrize("size", [10, 20_000, 300_000])
def test_keys_of_objects_that_are_open_for_long(size: int) -> None:
    filler = b",".join(b'{"a": {"b": [1, 2]}}' for _ in range(size // 20))
    whole = b'{"a": {"b": [%b], "c": 1}, "b": 2, "%b": 3}'
    assert not has_repeated_keys(whole % (filler, b"c"))
    assert has_repeated_keys(whole % (filler, b"a"))
    assert has_repeated_keys(whole % (filler, b"\\u0062"))
    with pytest.raises(IllegalArgumentError, match="key more than once"):
        check_json(whole % (filler, b"a"))
