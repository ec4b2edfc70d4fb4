from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.errors import BadRequestError, SettingsError
from floecat.identifiers.encoding import physical_name
from floecat.identifiers.schema_names import (
    PREDEFINED_SEPARATORS,
    check_schema_separator,
    may_hold_separator,
    schema_name,
    split_schema,
)

LEVEL = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs"]), min_size=1, max_size=12)


@given(st.lists(LEVEL, min_size=1, max_size=6), st.sampled_from(":;$|→"))
def test_names_are_split_as_they_were_joined(levels: list[str], separator: str):
    namespace = tuple(level.replace(separator, "") or "x" for level in levels)
    assert split_schema(schema_name(namespace, separator), separator) == namespace
    assert all(separator not in level or may_hold_separator(level) for level in levels)


@given(st.lists(LEVEL, min_size=1, max_size=4), st.lists(LEVEL, min_size=1, max_size=4))
def test_names_in_the_store_have_one_reading(first: list[str], second: list[str]):
    assert (physical_name(tuple(first)) == physical_name(tuple(second))) == (first == second)


@given(st.lists(LEVEL, min_size=1, max_size=6))
def test_names_in_the_store_can_be_read_back(levels: list[str]):
    """Nothing reads them back but people and tools: rows have the levels beside."""
    encoded = physical_name(tuple(levels)).split(".")
    assert [re.sub("~(..)", lambda found: chr(int(found[1], 16)), level) for level in encoded] == levels


@pytest.mark.parametrize("name", ["", ":", "a:", ":a", "a::b", "a: :b"])
def test_an_empty_level_is_refused(name: str):
    with pytest.raises(BadRequestError, match="a level is empty"):
        split_schema(name, ":")


def test_in_a_flat_catalog_a_name_is_one_level():
    assert split_schema("a:b", None) == ("a:b",)
    assert schema_name(("a", "b:c"), None) == "a.b:c"


@pytest.mark.parametrize(
    ("separator", "reason"),
    [
        ("/", "it conflicts with path parsing"),
        ("%", "it conflicts with path parsing"),
        ('"', "it conflicts with path parsing"),
        ("", "it is not one character"),
        ("::", "it is not one character"),
        (".", "it separates levels in the store"),
        ("`", "it conflicts with SQL and patterns"),
        ("*", "it conflicts with SQL and patterns"),
        ("a", "names are made of it"),
        ("ß", "names are made of it"),
        ("_", "names are made of it"),
        ("\x01", "it cannot be printed"),
    ],
)
def test_a_separator_is_refused_with_the_reason_and_others_to_try(separator: str, reason: str):
    with pytest.raises(SettingsError) as refused:
        check_schema_separator(separator, predefined=False)
    wanted = f"Delimiter '{separator}' is not allowed because {reason}. Try ':', ';', or '$'."
    assert refused.value.message.startswith(wanted)


def test_the_policy_decides_about_other_characters():
    for separator in PREDEFINED_SEPARATORS:
        check_schema_separator(separator, predefined=True)
    check_schema_separator("→", predefined=False)
    with pytest.raises(SettingsError, match=r"Delimiter '→' is not allowed because floecat\.namespaces"):
        check_schema_separator("→", predefined=True)
