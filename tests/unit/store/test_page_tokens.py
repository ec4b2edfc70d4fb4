from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.errors import BadRequestError
from floecat.store.page_tokens import decode, decode_as, encode

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300)


@given(text, text)
def test_round_trip(last: str, scope: str) -> None:
    token = encode(last, scope)
    assert decode(token, scope) == last
    assert token.isascii()
    assert all(char.isalnum() or char in "-_" for char in token)


@given(text, text, text)
def test_a_token_belongs_to_its_listing(last: str, scope: str, other: str) -> None:
    if scope != other:
        with pytest.raises(BadRequestError, match="page token"):
            decode(encode(last, scope), other)


def test_a_key_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadRequestError, match="page token"):
        decode(encode("a\0b", "tables|a"), "tables|a")


def test_a_key_of_another_kind_is_refused() -> None:
    assert decode_as(encode("7", "s"), "s", int) == 7
    with pytest.raises(BadRequestError):
        decode_as(encode("seven", "s"), "s", int)


def test_a_changed_token_is_refused() -> None:
    token = encode("orders", "tables|a")
    for position in range(len(token)):
        for other in "Az0-_":
            changed = token[:position] + other + token[position + 1 :]
            if changed != token:
                with pytest.raises(BadRequestError):
                    decode(changed, "tables|a")


@pytest.mark.parametrize(
    "token", ["", "x", "orders", "é", "\ud800", "====", "a b", "A" * 12, "A" * 100_000, "Zm9v\n", "Zm9v="]
)
def test_nonsense_is_refused(token: str) -> None:
    with pytest.raises(BadRequestError, match="page token") as error:
        decode(token, "tables|a")
    assert "tables|a" not in error.value.message


def test_padding_is_not_part_of_a_token() -> None:
    token = encode("orders", "tables")
    with pytest.raises(BadRequestError):
        decode(token + "=", "tables")
