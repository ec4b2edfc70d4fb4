from __future__ import annotations

import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.errors import BadRequestError
from floecat.identifiers.encoding import (
    MAX_PHYSICAL_NAME_LENGTH,
    SegmentReading,
    decode_segment,
    encode_segment,
    parse_physical_name,
    physical_name,
    safe_path_segment,
)

UNICODE = st.characters(exclude_categories=["Cs"])
LEVEL = st.text(UNICODE, min_size=1, max_size=12)
AWKWARD = st.text("aAb.~%-_+:/ é表\U0001f600\x1f2E", min_size=1, max_size=8)
NAMESPACE = st.lists(LEVEL | AWKWARD, min_size=1, max_size=6).map(tuple)


@pytest.mark.parametrize(
    ("raw", "literal", "form"),
    [
        ("plain", "plain", None),
        ("", "", None),
        ("a%20b", "a b", None),
        ("a%2Bb", "a+b", None),
        ("a%2bb", "a+b", None),
        ("a+b", "a+b", "a b"),
        ("a+b%2Bc", "a+b+c", "a b+c"),
        ("a%2520b", "a%20b", None),
        ("a%252Bb", "a%2Bb", None),
        ("a%2Fb", "a/b", None),
        ("%C3%BC", "ü", None),
        ("%F0%9F%98%80", "\U0001f600", None),
        ("a%1Fb", "a\x1fb", None),
        ("100%25", "100%", None),
    ],
)
def test_a_segment_is_decoded_once(raw: str, literal: str, form: str | None) -> None:
    assert decode_segment(raw) == SegmentReading(literal, form)


@pytest.mark.parametrize(
    "raw", ["%", "a%2", "a%zz", "%%20", "%FF", "%C3", "%ED%A0%80", "%C0%AF", "ü", "a%2 5"]
)
def test_a_malformed_segment_is_refused(raw: str) -> None:
    with pytest.raises(BadRequestError, match="Invalid path"):
        decode_segment(raw)


@given(st.text(UNICODE))
def test_each_encoding_of_clients_is_among_the_readings(name: str) -> None:
    assert decode_segment(encode_segment(name)) == (name, None)
    assert decode_segment(quote(name, safe="")).literal == name
    reading = decode_segment(quote_plus(name))
    assert (reading.literal if reading.form is None else reading.form) == name


@given(st.text(UNICODE))
def test_an_encoded_segment_holds_no_delimiter(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._~%-]*", encode_segment(name))


@pytest.mark.parametrize(
    ("namespace", "text"),
    [
        (("accounting",), "accounting"),
        (("accounting", "tax"), "accounting.tax"),
        (("accounting.tax",), "accounting~2Etax"),
        (("a~2Eb",), "a~7E2Eb"),
        (("a-b", "c d"), "a~2Db.c~20d"),
        (("Ü", "表"), "Ü.表"),
    ],
)
def test_physical_names_are_readable(namespace: tuple[str, ...], text: str) -> None:
    assert physical_name(namespace) == text
    assert parse_physical_name(text) == namespace


@given(NAMESPACE)
def test_physical_names_are_reversible(namespace: tuple[str, ...]) -> None:
    assert parse_physical_name(physical_name(namespace)) == namespace


@given(NAMESPACE, NAMESPACE)
def test_distinct_namespaces_have_distinct_physical_names(
    one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    assert (physical_name(one) == physical_name(other)) == (one == other)


@given(st.lists(NAMESPACE, min_size=3, max_size=12, unique=True))
def test_what_is_in_a_namespace_sorts_right_after_it(namespaces: list[tuple[str, ...]]) -> None:
    root = namespaces[0]
    family = {root, *((*root, *rest) for rest in namespaces[1:])}
    ordered = sorted({*family, *namespaces}, key=physical_name)
    start = ordered.index(root)
    inside = [name for name in ordered if name[: len(root)] == root]
    assert ordered[start : start + len(inside)] == inside


@given(st.lists(NAMESPACE, max_size=8))
def test_physical_names_sort_level_by_level(namespaces: list[tuple[str, ...]]) -> None:
    by_text = sorted(namespaces, key=physical_name)
    assert by_text == sorted(namespaces, key=lambda levels: [physical_name((level,)) for level in levels])


@given(st.text("ab~.27DE41%-_", max_size=10))
def test_only_what_is_written_is_read(text: str) -> None:
    try:
        namespace = parse_physical_name(text)
    except BadRequestError:
        return
    assert physical_name(namespace) == text


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a..b", "a~2", "a~2e", "~41", "~5F", "a b", "a-b", "a%20b", "~FF"]
)
def test_what_is_never_written_is_refused(text: str) -> None:
    with pytest.raises(BadRequestError):
        parse_physical_name(text)


def test_a_physical_name_fits_an_index_entry() -> None:
    longest = ("a" * 250,) * 7 + ("b" * 243,)
    assert len(physical_name(longest)) == MAX_PHYSICAL_NAME_LENGTH
    with pytest.raises(BadRequestError, match="too long"):
        physical_name((*longest, "c"))


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(BadRequestError, match="Unicode"):
        physical_name(("\ud800",))


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("orders", "orders"),
        ("Orders 2026", "Orders_2026"),
        ("Müller & Söhne", "Muller_Sohne"),
        ("a/../b", "a_.._b"),
        ("..", "unnamed"),
        ("_hidden", "hidden"),
        ("表", "unnamed"),
        ("x" * 300, "x" * 64),
    ],
)
def test_safe_path_segments_are_readable(name: str, segment: str) -> None:
    assert safe_path_segment(name) == segment


@given(st.text())
def test_safe_path_segments_are_safe(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?", safe_path_segment(name))
