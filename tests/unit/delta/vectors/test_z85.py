from __future__ import annotations

import contextlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.delta.vectors.z85 import decode_z85
from tests.clients.delta.writer import z85_encode


def test_the_example_of_the_standard() -> None:
    assert decode_z85("HelloWorld") == bytes.fromhex("864fd26fb559f75b")


def test_the_example_of_the_protocol() -> None:
    assert UUID(bytes=decode_z85("^-aqEH.-t@S}K{vb[*k^")) == UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")


@pytest.mark.parametrize(
    ("text", "data"), [("", ""), ("00000", "00000000"), ("%nSc0", "ffffffff"), ("0rr91", "01000000")]
)
def test_words(text: str, data: str) -> None:
    assert decode_z85(text).hex() == data


@given(st.binary(max_size=70))
def test_what_was_written_is_read(data: bytes) -> None:
    padded = data + bytes(-len(data) % 4)
    assert decode_z85(z85_encode(padded)) == padded


@pytest.mark.parametrize(
    ("text", "data"),
    [("##093", "0300"), ("HelloWorld##093", "864fd26fb559f75b0300"), ("###30", "ff"), ("#0rr9", "030303")],
)
def test_fewer_bytes_at_the_end_as_the_rust_library_writes_them(text: str, data: str) -> None:
    assert decode_z85(text).hex() == data


@pytest.mark.parametrize(
    "text",
    [
        "Hello ",
        "Hell",
        "Hell ",
        "Hell~",
        'Hell"',
        "Hell,",
        "Hell\n",
        "Hellé",
        "Hell\ud800",
        "%nSc1",
        "$####",
        "##093World",
        "###31",
        "#%%%%",
        "####0",
        "#####",
    ],
)
def test_refuses_what_is_not_z85(text: str) -> None:
    with pytest.raises(ValueError, match="Z85") as caught:
        decode_z85(text)
    assert text not in str(caught.value)
    assert caught.value.__cause__ is None


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert len(decode_z85(text)) <= len(text)
