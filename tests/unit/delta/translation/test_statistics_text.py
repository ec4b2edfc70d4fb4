from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from floecat.delta.translation.statistics_layout import Path, learn_layout
from floecat.delta.translation.statistics_text import DocumentReader

LONGS: list[Path] = [
    ("numRecords",),
    ("minValues", "a"),
    ("minValues", "s", "x y"),
    ("minValues", "s", "t", "z.z"),
]
TOKENS: list[Path] = [("tightBounds",), ("minValues", "b"), ("maxValues", 'q"uote'), ("minValues", "s", "c")]


def read(texts: Sequence[str]) -> list[dict[Path, Any]]:
    """The values of each document, tokens decoded."""
    values = DocumentReader(LONGS, TOKENS).read(pa.array(texts, pa.string()))
    columns = [values.tokens.column(slot).to_pylist() for slot in range(len(TOKENS))]
    found: list[dict[Path, Any]] = []
    for row in range(len(texts)):
        document: dict[Path, Any] = {
            path: values.longs[slot, row].item()
            for slot, path in enumerate(LONGS)
            if values.is_long[slot, row]
        }
        for path, column in zip(TOKENS, columns, strict=True):
            if column[row] is not None:
                document[path] = json.loads(column[row])
        found.append(document)
    return found


def expected(text: str) -> dict[Path, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(document, dict):
        return {}
    found: dict[Path, Any] = {}
    for path in LONGS + TOKENS:
        value: Any = document
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None or isinstance(value, dict | list):
            continue
        if path in TOKENS or (type(value) is int and -(2**63) <= value < 2**63):
            found[path] = value
    return found


def check(texts: Sequence[str]) -> None:
    assert read(texts) == [expected(text) for text in texts]


def document(number: int, **more: Any) -> dict[str, Any]:
    return {
        "numRecords": number,
        "minValues": {"a": -number, "b": f"b{number}", "s": {"x y": number, "c": 1.5, "t": {"z.z": 3}}},
        "nullCount": {"a": 0},
        **more,
    }


def test_documents_of_one_layout_are_read() -> None:
    check([json.dumps(document(10**power)) for power in range(18)])
    check([json.dumps(document(number), separators=(",", ":")) for number in range(200)])


def test_documents_of_several_layouts_keep_their_places() -> None:
    texts = []
    for number in range(300):
        one = document(number)
        if number % 3 == 0:
            del one["minValues"]["b"]
        if number % 5 == 0:
            one = dict(reversed(one.items()))
        texts.append(json.dumps(one, indent=number % 7 or None))
    check(texts)


def test_documents_of_many_layouts_are_read() -> None:
    shuffle = random.Random(4).shuffle
    texts = []
    for number in range(500):
        values = list(document(number)["minValues"].items())
        shuffle(values)
        texts.append(json.dumps(document(number, minValues=dict(values), tightBounds=number % 2 == 0)))
    check(texts)


def test_long_names_are_compared_to_their_beginning() -> None:
    paths: list[Path] = [("minValues", "n" * 100 + end) for end in "ab"]
    values = DocumentReader(paths, []).read(
        pa.array([json.dumps({"minValues": {paths[number % 2][1]: number}}) for number in range(100)])
    )
    assert values.is_long.tolist() == [[number % 2 == side for number in range(100)] for side in (0, 1)]


@pytest.mark.parametrize(
    "odd",
    [
        "",
        "{",
        "null",
        "[]",
        '"numRecords"',
        "{}",
        '{"numRecords":1}{"numRecords":2}',
        '{"numRecords":1} x',
        '{"numRecords":1,}',
        '{"numRecords":nul}',
        '{"numRecords":1.0}',
        '{"numRecords":"1"}',
        '{"numRecords":9223372036854775808}',
        '{"numRecords":null,"minValues":null}',
        '{"minValues":{"a":{"a":1}}}',
        '{"minValues":[{"a":1}]}',
        '{"minValues":{"s":3}}',
        '{"minValues":{}, "maxValues":{"q\\"uote":"x"}}',
        '{"minValues":{"b":"\\u00e9\\n\\"\\\\"}}',
        '{"minValues":{"b":"a\\":1,\\"numRecords\\":7"}}',
        '{"minValues":{"b":"null"}, "tightBounds":false}',
        '{"minValues":{"b":"x"},"minValues":{"b":"y"}}',
        '{"minValues":{"a":1,"a":2}}',
    ],
)
def test_a_document_of_another_kind_does_not_disturb_others(odd: str) -> None:
    usual = [json.dumps(document(number)) for number in range(20)]
    check([odd])
    check([*usual, odd, *usual])
    check([odd] * 20 + usual)


def test_texts_with_newlines_are_documents() -> None:
    check([json.dumps(document(number), indent=1).replace(" ", "\t") for number in range(20)])


def test_deep_and_wide_documents_are_no_layout() -> None:
    deep = '{"a":' * 20_000 + "1" + "}" * 20_000
    wide = json.dumps({"x" * 100_000: 1} | {f"k{number}": number for number in range(2000)})
    assert learn_layout(deep.encode()) is None
    assert learn_layout(wide.encode()) is None
    usual = json.dumps(document(5))
    assert read([usual, deep, usual])[::2] == [expected(usual)] * 2
    check([usual, wide, usual])


def test_nothing_is_read_of_nothing() -> None:
    values = DocumentReader(LONGS, TOKENS).read(pa.array([], pa.string()))
    assert values.longs.shape == (len(LONGS), 0)
    assert values.tokens.column(0).to_pylist() == []


def test_a_slice_is_read_as_such() -> None:
    texts = [json.dumps(document(number)) for number in range(40)]
    values = DocumentReader(LONGS, []).read(pa.array(texts).slice(7, 11))
    assert values.longs[0].tolist() == list(range(7, 18))


VALUES = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.sampled_from('ab"\\:,{}[]é\n\U0001f600')),
    st.booleans(),
    st.none(),
    st.lists(st.integers(), max_size=2),
)
NAMES = st.sampled_from(["a", "b", "c", "s", "x y", "z.z", 'q"uote', "t"])
OBJECTS = st.recursive(
    st.dictionaries(NAMES, VALUES, max_size=4),
    lambda inner: st.dictionaries(NAMES, VALUES | inner, max_size=4),
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "numRecords": VALUES,
        "tightBounds": VALUES,
        "minValues": OBJECTS,
        "maxValues": OBJECTS,
        "nullCount": OBJECTS,
    },
)


@settings(max_examples=200)
@given(
    documents=st.lists(DOCUMENTS, min_size=1, max_size=6),
    repeats=st.integers(1, 20),
    compact=st.booleans(),
    ascii=st.booleans(),
)
def test_any_documents_are_read_as_a_parser_reads_them(
    documents: list[dict[str, Any]], repeats: int, compact: bool, ascii: bool
) -> None:
    separators = (",", ":") if compact else None
    check([json.dumps(each, separators=separators, ensure_ascii=ascii) for each in documents] * repeats)


@given(text=st.binary(max_size=30) | st.text(st.sampled_from('{}":,a1 \\[]')).map(str.encode))
@example(text=b'"\x80"')
def test_only_documents_have_a_layout(text: bytes) -> None:
    layout = learn_layout(text)
    assert layout is None or isinstance(json.loads(text), dict)
