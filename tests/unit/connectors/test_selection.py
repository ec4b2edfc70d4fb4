"""Patterns of policies: which namespaces and names they take, and where a search need not look."""

from __future__ import annotations

import pytest

from floecat.connectors.selection import Selection
from floecat.errors import BadRequestError
from floecat.store.catalogs.connector_policies import ConnectorPolicy

NAMES = ["t", "sales.t", "sales.eu.t", "Sales.t", "raw.t", "raw.tmp.t", "raw.a.tmp.t", "rawest.t", "a.b.c.t"]


def selection(namespaces: str = "", tables: str = "") -> Selection:
    return Selection(ConnectorPolicy(namespaces=tuple(namespaces.split()), tables=tuple(tables.split())))


@pytest.mark.parametrize(
    ("namespaces", "taken"),
    [
        ("", NAMES),
        ("*", NAMES),
        ("sales", ["sales.t", "sales.eu.t"]),
        ("sales.*", ["sales.eu.t"]),
        ("[sS]ales !sales.eu", ["sales.t", "Sales.t"]),
        ("raw*", ["raw.t", "raw.tmp.t", "raw.a.tmp.t", "rawest.t"]),
        ("raw !*.tmp", ["raw.t"]),
        ("!raw", ["t", "sales.t", "sales.eu.t", "Sales.t", "rawest.t", "a.b.c.t"]),
        ("a.?", ["a.b.c.t"]),
        ("sales a.b.c", ["sales.t", "sales.eu.t", "a.b.c.t"]),
        ("!*", []),
        ("missing", []),
    ],
)
def test_namespaces(namespaces: str, taken: list[str]) -> None:
    made = selection(namespaces)
    split = [(tuple(each.split(".")[:-1]), each.split(".")[-1]) for each in NAMES]
    assert [
        each for each, (levels, name) in zip(NAMES, split, strict=True) if made.takes(levels, name)
    ] == taken
    # whoever looks only where it may be finds the same
    for levels, name in split:
        if made.takes(levels, name):
            assert all(made.looks_into(levels[:end]) for end in range(len(levels) + 1))


@pytest.mark.parametrize(
    ("namespaces", "looked_into", "left_alone"),
    [
        ("sales", ["", "sales", "sales.eu"], ["raw", "sale"]),
        ("a.b", ["", "a", "a.b", "a.b.c"], ["b", "a.c", "ab"]),
        ("a.*.c", ["", "a", "a.x", "a.x.c"], ["b", "b.c"]),
        ("*.c", ["", "a", "a.b"], []),
        ("!raw", ["", "sales", "rawest"], ["raw", "raw.a"]),
        ("sales !sales.eu", ["sales", "sales.us"], ["sales.eu", "sales.eu.north", "raw"]),
    ],
)
def test_where_a_search_need_not_look(namespaces: str, looked_into: list[str], left_alone: list[str]) -> None:
    made = selection(namespaces)
    for each in looked_into:
        assert made.looks_into(tuple(each.split(".")) if each else ())
    for each in left_alone:
        assert not made.looks_into(tuple(each.split(".")))


@pytest.mark.parametrize(
    ("tables", "taken"),
    [
        ("", ["orders", "orders_tmp", "Orders", "a.b"]),
        ("orders*", ["orders", "orders_tmp"]),
        ("!*_tmp", ["orders", "Orders", "a.b"]),
        ("*.b", ["a.b"]),
        ("[Oo]rders", ["orders", "Orders"]),
    ],
)
def test_tables(tables: str, taken: list[str]) -> None:
    names = ["orders", "orders_tmp", "Orders", "a.b"]
    assert [each for each in names if selection(tables=tables).takes(("n",), each)] == taken


@pytest.mark.parametrize(
    "patterns", [("",), ("!",), (" ",), ("a" * 1001,), ("a\n",), ("\ud800",), ("a",) * 101]
)
def test_bad_patterns(patterns: tuple[str, ...]) -> None:
    with pytest.raises(BadRequestError, match=r"Invalid policy: .*pattern.* of namespaces"):
        Selection(ConnectorPolicy(namespaces=patterns))
    with pytest.raises(BadRequestError, match=r"Invalid policy: .*pattern.* of tables"):
        Selection(ConnectorPolicy(tables=patterns))


def test_long_patterns_end_soon() -> None:
    made = Selection(ConnectorPolicy(tables=("*a" * 500,) * 100))
    assert not made.takes(("n",), "a" * 499 + "b")
