from __future__ import annotations

import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.errors import BadRequestError, SettingsError
from floecat.identifiers.encoding import (
    MAX_PHYSICAL_NAME_LENGTH,
    NamespaceSeparator,
    SegmentReading,
    decode_segment,
    encode_segment,
    physical_name,
    safe_path_segment,
)
from floecat.identifiers.namespace import Namespace, check_namespace

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


SEPARATORS = ["\x1f", ".", ":", ";", "$", "|", "§"]


def levels_for(separator: str) -> st.SearchStrategy[Namespace]:
    level = st.text(
        st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=separator), min_size=1, max_size=10
    ) | st.sampled_from(["a b", "a+b", "%1F", "a%2Bb", "x/y", "ü"])
    return st.lists(level, min_size=1, max_size=5).map(tuple)


SEPARATOR_AND_NAMESPACE = st.sampled_from(SEPARATORS).flatmap(
    lambda separator: st.tuples(st.just(NamespaceSeparator(separator)), levels_for(separator))
)


@pytest.mark.parametrize(
    ("separator", "config_value"),
    [("\x1f", "%1F"), (".", "%2E"), (":", "%3A"), ("$", "%24"), ("§", "%C2%A7")],
)
def test_the_advertised_value_is_url_encoded(separator: str, config_value: str) -> None:
    assert NamespaceSeparator(separator).config_value == config_value


@pytest.mark.parametrize("raw", ["a%2Eb", "a%2eb", "a.b", "a%1Fb", "a%1fb", "a\x1fb"])
def test_a_path_is_split_on_the_advertised_separator_and_on_the_unit_separator(raw: str) -> None:
    assert NamespaceSeparator(".").split_path(raw) == [("a", "b")]


@pytest.mark.parametrize("value", ["a%2Eb", "a.b", "a%1Fb", "a%1fb"])
def test_so_is_a_parameter(value: str) -> None:
    assert NamespaceSeparator(".").split_parameter(value) == ("a", "b")


@pytest.mark.parametrize(
    ("raw", "candidates"),
    [
        ("a", [("a",)]),
        ("a.b", [("a.b",)]),
        ("a%2Eb", [("a.b",)]),
        ("a%1Fb%1Fc", [("a", "b", "c")]),
        ("a%20b%1Fc", [("a b", "c")]),
        ("a+b%1Fc+d", [("a+b", "c+d"), ("a b", "c d")]),
        ("a%2Bb%1Fc+d", [("a+b", "c+d"), ("a+b", "c d")]),
        ("a%2Fb", [("a/b",)]),
        ("a%251Fb", [("a%1Fb",)]),
        ("a%2520b", [("a%20b",)]),
    ],
)
def test_the_readings_of_a_path(raw: str, candidates: list[Namespace]) -> None:
    assert NamespaceSeparator().split_path(raw) == candidates


def test_with_the_unit_separator_present_the_advertised_one_is_text() -> None:
    separator = NamespaceSeparator(".")
    assert separator.split_path("a%1Fb.c") == [("a", "b.c")]
    assert separator.split_parameter("a%1Fb.c") == ("a", "b.c")


@pytest.mark.parametrize("raw", ["", "%1F", "a%1F", "%1Fa", "a%1F%1Fb", "a..b"])
def test_an_empty_level_is_refused(raw: str) -> None:
    with pytest.raises(BadRequestError, match="level is empty"):
        NamespaceSeparator(".").split_path(raw)


@pytest.mark.parametrize("raw", ["a%", "a%1", "a%FF%1Fb"])
def test_malformed_encoding_is_refused(raw: str) -> None:
    with pytest.raises(BadRequestError):
        NamespaceSeparator().split_path(raw)
    with pytest.raises(BadRequestError):
        NamespaceSeparator().split_parameter(raw)


def test_an_empty_parameter_is_no_namespace() -> None:
    assert NamespaceSeparator().split_parameter("") == ()


def test_an_empty_level_of_a_parameter_stays() -> None:
    assert NamespaceSeparator(".").split_parameter("a..b") == ("a", "", "b")
    assert NamespaceSeparator(".").split_parameter("a%1F") == ("a", "")


def test_a_parameter_is_a_query_value() -> None:
    separator = NamespaceSeparator()
    assert separator.split_parameter("a+b%1Fc%2Bd") == ("a b", "c+d")
    assert separator.split_parameter("a%2520b") == ("a%20b",)


@given(SEPARATOR_AND_NAMESPACE)
def test_what_clients_encode_is_read_back(case: tuple[NamespaceSeparator, Namespace]) -> None:
    separator, namespace = case
    assert separator.split_path(separator.join_path(namespace)) == [namespace]
    java = separator.config_value.join(quote_plus(level) for level in namespace)
    assert separator.split_path(java)[-1] == namespace
    python = "%1F".join(quote(level, safe="") for level in namespace)
    if len(namespace) > 1:
        assert separator.split_path(python) == [namespace]
    assert separator.split_parameter(quote_plus(separator.separator.join(namespace))) == namespace
    assert separator.split_parameter(quote(separator.separator.join(namespace), safe="")) == namespace


@pytest.mark.parametrize(
    "separator", ["", "::", "/", "\\", "%", "+", " ", "&", "a", "7", "_", "-", "\x00", "\n", "ü"]
)
def test_ambiguous_separators_are_refused_with_a_way_out(separator: str) -> None:
    with pytest.raises(SettingsError, match=r"not allowed because .* Try ':', ';' or"):
        NamespaceSeparator(separator)


def test_levels_that_could_not_be_addressed_are_refused() -> None:
    separator = NamespaceSeparator(".")
    assert separator.reserved == ".\x1f"
    assert NamespaceSeparator().reserved == "\x1f"
    with pytest.raises(BadRequestError, match="separator"):
        check_namespace(("x.y",), reserved=separator.reserved)
