from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_namespace.errors import InvalidInputError

from floecat.clients.lance.names import NamespaceName, TableName, namespace_name, table_location, table_name

ODD = ["b c/d", "a%1Fb", "100%", "ü", "a.b", "x~y", "~2F", "+", "日本"]


def test_levels_are_encoded_once():
    namespace = namespace_name(["w", "a", "b c/d", "100%"], None, 1)
    assert namespace.path == "namespaces/a%1Fb%20c%2Fd%1F100%25"
    assert namespace.parameter == "a\x1fb c/d\x1f100%"
    assert table_name(["w", "a", "b/c"], None).path == "namespaces/a/tables/b%2Fc"


@pytest.mark.parametrize("name", ODD)
def test_odd_names_survive_one_decoding(name: str):
    assert unquote(table_name(["w", "a", name], None).path) == f"namespaces/a/tables/{name}"


@pytest.mark.parametrize(
    ("id", "message"),
    [
        (None, "at least: warehouse, namespace, table"),
        ([], "at least: warehouse, namespace, table"),
        (["w", "a"], "at least: warehouse, namespace, table"),
        (["", "a", "t"], "at least: warehouse, namespace, table"),
        (["w", "", "t"], "must not be empty"),
        (["w", "a", ".."], "must not be '.' or '..'"),
        (["w", ".", "t"], "must not be '.' or '..'"),
        (["w", "a\x1fb", "t"], "control character"),
        (["w", "a", "\ud800"], "not valid Unicode"),
        (["\ud800", "a", "t"], "not valid Unicode"),
        (["other", "a", "t"], "for the warehouse 'w', not 'other'"),
    ],
)
def test_refused(id: list[str] | None, message: str):
    with pytest.raises(InvalidInputError, match=message):
        table_name(id, None if id and id[0] == "\ud800" else "w")


def test_location_of_plain_names_is_that_of_the_specification():
    assert table_location("s3://lake/", table_name(["w", "a", "b-1", "t_2"], None)) == "s3://lake/w/a/b-1/t_2"


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc",)), min_size=1, max_size=40)


@given(st.lists(names, min_size=3, max_size=4), st.lists(names, min_size=3, max_size=4))
def test_tables_share_no_location(first: list[str], second: list[str]):
    def location(id: list[str]) -> str:
        return table_location("/root", TableName(NamespaceName(id[0], tuple(id[1:-1])), id[-1]))

    assert (location(first) == location(second)) == (first == second)
    segments = location(first).removeprefix("/root/").split("/")
    assert len(segments) == len(first)
    for segment in segments:
        assert segment not in (".", "..")
        assert len(segment) <= 255
        assert "%" not in segment


def test_long_names_are_cut_and_stay_apart():
    longest = [TableName(NamespaceName("w", ("a",)), "ü" * 126 + last) for last in "xy"]
    first, second = (table_location("/root", each).rpartition("/")[2] for each in longest)
    assert first != second
    assert max(len(first), len(second)) <= 255
