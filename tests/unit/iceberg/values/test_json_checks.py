from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floecat.errors import IllegalArgumentError
from floecat.iceberg.values.bounds import process_bounds
from floecat.iceberg.values.json_checks import (
    check_elements,
    check_json,
    has_keys,
    has_more_elements,
    is_nested_deeper,
)

TEXTS = st.text(st.sampled_from('a:"\\[]{} ,\n'), max_size=4)
VALUES = st.recursive(
    st.none() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=30,
)
STYLES: list[dict[str, Any]] = [{"separators": (",", ":")}, {"separators": (", ", " : ")}, {"indent": 1}]


def keys_of(value: object) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(keys_of, value.values()))
    return sum(map(keys_of, value)) if isinstance(value, list) else 0


def levels_of(value: object) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if parts is None else 1 + max(map(levels_of, parts), default=0)


@given(VALUES, st.sampled_from(STYLES))
def test_levels(value: object, style: dict[str, Any]) -> None:
    data = json.dumps(value, **style).encode()
    found = [levels for levels in range(12) if is_nested_deeper(data, levels)]
    assert found == list(range(min(levels_of(value), 12)))
    check_json(data)


@settings(max_examples=30)
@given(VALUES, st.integers(0, 40))
def test_levels_of_large_documents(value: object, before_the_end_of_a_block: int) -> None:
    data = b" " * ((256 << 10) - before_the_end_of_a_block) + json.dumps(value).encode()
    levels = levels_of(value)
    assert not is_nested_deeper(data, levels)
    assert levels == 0 or is_nested_deeper(data, levels - 1)


@pytest.mark.parametrize("backslashes", range(6))
def test_what_is_escaped_at_the_end_of_a_block_belongs_to_it(backslashes: int) -> None:
    text = "x" * ((256 << 10) - 5) + "\\" * backslashes + '"[[[['
    data = json.dumps([text]).encode()
    for shift in range(8):
        assert not is_nested_deeper(b" " * shift + data, 1)
        assert is_nested_deeper(b" " * shift + data, 0)


def longest_in(value: object) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max([len(parts), *map(longest_in, parts)])


@given(VALUES, st.sampled_from(STYLES))
def test_the_longest_array_or_object(value: object, style: dict[str, Any]) -> None:
    data = json.dumps(value, **style).encode()
    found = [elements for elements in range(1, 12) if has_more_elements(data, elements, 1000)]
    assert found == list(range(1, min(longest_in(value), 12)))


@settings(max_examples=30)
@given(VALUES, st.integers(0, 40))
def test_the_longest_array_of_a_large_document(value: object, before_the_end_of_a_block: int) -> None:
    blanks = b" " * ((256 << 10) - before_the_end_of_a_block)
    elements = max(longest_in(value), 2)
    data = b"[1," + blanks + json.dumps(value).encode() + b"]"
    assert not has_more_elements(data, elements, 1000)
    assert elements != longest_in(value) or has_more_elements(data, elements - 1, 1000)


@pytest.mark.parametrize("data", [b"]],,", b"[[[,," * 10_000, b"}" + b"," * 10, b",,,,", b'"a,,,,', b""])
def test_elements_of_what_is_no_json_are_left_to_the_parser(data: bytes) -> None:
    has_more_elements(data, 2, 1000)


@pytest.mark.parametrize("element", [b'{"a":[1,2]}', b'"[,"', b"[]"])
def test_more_elements_than_the_default_are_refused(element: bytes) -> None:
    elements = [element] * 100_000
    check_elements(b'{"x":[%b],"y":[%b]}' % (b",".join(elements), b",".join(elements)))
    with pytest.raises(IllegalArgumentError, match=r"more than 100000 .*floecat\.limits\.elements"):
        check_elements(b'{"x":[%b]}' % b",".join([*elements, element]))


def test_more_elements_in_all_are_refused() -> None:
    array = b"[" + b",".join([b"1"] * 100_000) + b"]"
    check_elements(b"[" + b",".join([array] * 10) + b"]")
    with pytest.raises(IllegalArgumentError, match=r"1000000 in all .*floecat\.limits\.elements"):
        check_elements(b"[" + b",".join([array] * 11) + b"]")


@given(VALUES, st.sampled_from(STYLES))
def test_keys_are_counted_or_left_to_the_parser(value: object, style: dict[str, Any]) -> None:
    data = json.dumps(value, **style).encode()
    assert not any(has_keys(data, number) for number in range(keys_of(value)))


@pytest.mark.parametrize("style", STYLES)
def test_keys_of_large_documents_are_counted(style: dict[str, Any]) -> None:
    value = [{"id": number, "path": f"s3://b/{number}", "more": {"a": 1}} for number in range(100_000)]
    data = json.dumps(value, **style).encode()
    assert len(data) > 4 << 20
    assert has_keys(data, 4 * 100_000)
    assert not has_keys(data, 4 * 100_000 - 1)


@pytest.mark.parametrize("colon", [b":", b" :", b"  :", b"\n:", b"\t:", b"\r:", b" \n :"])
def test_a_key_that_comes_twice_is_found_in_any_spelling(colon: bytes) -> None:
    data = b'{"x":[{"a":1,"a"' + colon + b"2}]}"
    assert not has_keys(data, 2)
    with pytest.raises(IllegalArgumentError, match="a key more than once"):
        check_json(data)


def test_the_bound_on_nesting() -> None:
    assert process_bounds.limits.nesting == 400
    check_json(b'{"a":' * 400 + b"1" + b"}" * 400)
    with pytest.raises(IllegalArgumentError, match=r"more than 400 levels \(floecat\.limits\.nesting\)"):
        check_json(b'{"a":' * 401 + b"1" + b"}" * 401)


@pytest.mark.parametrize(
    "data", [b"[" * (1 << 20) + b"]" * (1 << 20), b'{"a":"' + b'[\\"' * (1 << 20) + b'"}', b"9" * (1 << 20)]
)
def test_time_is_linear(data: bytes) -> None:
    began = time.process_time()
    try:
        check_json(data)
    except IllegalArgumentError:
        assert data[:1] == b"["
    assert time.process_time() - began < 30
