from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from floecat.store.database.statements import (
    decode_properties,
    decode_texts,
    encode_properties,
    encode_texts,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.lists(text, max_size=5))
def test_texts(texts: list[str]) -> None:
    column = encode_texts(texts)
    assert decode_texts(column) == tuple(texts)
    assert "\x00" not in column  # PostgreSQL takes no such text


@given(st.dictionaries(text, text, max_size=5))
def test_properties(properties: dict[str, str]) -> None:
    column = encode_properties(properties)
    assert list(decode_properties(column).items()) == list(properties.items())
    assert "\x00" not in column
