from __future__ import annotations

import json
from random import Random

import pytest

from floecat.delta.log import lone_surrogates
from floecat.delta.log.lone_surrogates import without_lone_surrogates

_PARTS = (
    r"\ud800", r"\uDBff", r"\udc00", r"\uDFFF", r"\ud83d\ude00", r"\ufffd", r"\ud7ff", r"\ue000",
    r"\\", r"\\\\", r"\"", r"\n", "ud800", "u", "d8", "\U0001f600", " ", "",
)  # fmt: skip


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_halves_of_pairs_become_the_replacement_character(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lone_surrogates, "_BLOCK_BYTES", block)
    source = Random(1)
    for _ in range(300):
        text = '"' + "".join(source.choices(_PARTS, k=12)) + '"'
        made = without_lone_surrogates(text.encode()).decode()
        assert len(made) == len(text)
        expected = "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in json.loads(text))
        assert json.loads(made) == expected


def test_other_bytes_stay() -> None:
    for text in (b"", b"\\", b"\\u", b"\\ud", b"\0\\ud800", rb"\ud83d\ude00"):
        assert without_lone_surrogates(text) == text
