from __future__ import annotations

from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.errors import BadRequestError, SettingsError
from floecat.identifiers.namespace import Namespace, check_namespace
from floecat.identifiers.separator import NamespaceSeparator, check_hierarchy_separator

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
    assert separator.split_parameter(quote_plus(separator.join(namespace))) == namespace
    assert separator.split_parameter(quote(separator.join(namespace), safe="")) == namespace


@pytest.mark.parametrize(
    "separator", ["", "::", "/", "\\", "%", "+", " ", "&", "a", "7", "_", "-", "\x00", "\n", "ü"]
)
def test_ambiguous_separators_are_refused_with_a_way_out(separator: str) -> None:
    with pytest.raises(SettingsError, match=r"not allowed because .* Try ':', ';' or"):
        NamespaceSeparator(separator)


def test_physical_names_keep_the_dot_for_themselves() -> None:
    check_hierarchy_separator(":")
    with pytest.raises(SettingsError, match="physical names"):
        check_hierarchy_separator(".")


def test_levels_that_could_not_be_addressed_are_refused() -> None:
    separator = NamespaceSeparator(".")
    assert separator.reserved == ".\x1f"
    assert NamespaceSeparator().reserved == "\x1f"
    with pytest.raises(BadRequestError, match="separator"):
        check_namespace(("x.y",), reserved=separator.reserved)
