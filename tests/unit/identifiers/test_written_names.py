"""Names on the command line: what is read, and that what is written is read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.errors import BadRequestError
from floecat.identifiers.namespace import TableIdentifier
from floecat.identifiers.written_names import parse_identifier, parse_namespace, rewritten, written


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("ns.t", ("ns", "t")),
        ("a.b.c", ("a", "b", "c")),
        ('lake."x.y".dotted', ("lake", "x.y", "dotted")),
        ('"a""b"."."', ('a"b', ".")),
        ("ü.a b", ("ü", "a b")),
    ],
)
def test_levels(text: str, levels: tuple[str, ...]) -> None:
    assert parse_identifier(text) == TableIdentifier(levels[:-1], levels[-1])
    assert parse_namespace(text) == levels


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a..b", '"a', 'a"b.c', '"a"b.c', 'a."', 'a.""', '"a".', 'a.b"c"']
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(BadRequestError, match="expected NAMESPACE"):
        parse_identifier(text)
    with pytest.raises(BadRequestError, match="expected OUTER"):
        parse_namespace(text)


def test_a_table_has_a_namespace() -> None:
    with pytest.raises(BadRequestError, match="Invalid table name: 't', expected"):
        parse_identifier("t")
    assert parse_namespace("t") == ("t",)


@given(st.lists(st.text(min_size=1), min_size=2).map(tuple))
def test_what_is_written_is_read_back(levels: tuple[str, ...]) -> None:
    identifier = TableIdentifier(levels[:-1], levels[-1])
    assert parse_identifier(written(identifier)) == identifier
    assert parse_namespace(written(levels)) == levels


def test_a_name_that_was_typed_gets_the_separator() -> None:
    assert rewritten("a.b.t", ":") == rewritten("a:b.t", ":") == "a:b.t"
    assert rewritten('a."x.y".t', ":") == '"a:x.y".t'
    assert (rewritten("a.b.t", None), rewritten("my lake", ":"), rewritten("a..b", ":")) == (
        "a.b.t",
        "my lake",
        "a..b",
    )


def test_plain_names_stay_plain() -> None:
    assert written(("sales", "eu-1", "ü")) == "sales.eu-1.ü"
    assert written(("sales.db", 'a"b', "a b")) == '"sales.db"."a""b"."a b"'


@given(
    st.lists(st.text(min_size=1).filter(lambda level: ":" not in level), min_size=1).map(tuple),
    st.text(min_size=1),
)
def test_a_namespace_is_one_name_where_a_separator_joins_it(levels: tuple[str, ...], name: str) -> None:
    assert parse_namespace(written(levels, ":")) == (":".join(levels),)
    assert parse_identifier(written(TableIdentifier(levels, name), ":")) == ((":".join(levels),), name)


def test_a_path_of_a_schema() -> None:
    assert written(("A", "B", "C"), ":") == "A:B:C"
    assert written(TableIdentifier(("A", "B"), "orders"), ":") == "A:B.orders"
    assert written((), ":") == ""
