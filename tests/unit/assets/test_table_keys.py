from __future__ import annotations

import json
from uuid import UUID

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.identifiers.namespace import TableIdentifier
from floecat_assets.table_keys import partition_key, require_table_id, table_asset_key, table_group, table_id

ID = UUID("01a22388-0000-7000-8000-000000000001")
NAMES = st.text(min_size=1, max_size=30)
IDENTIFIERS = st.builds(TableIdentifier, st.lists(NAMES, min_size=1, max_size=4).map(tuple), NAMES)


def test_a_table_has_a_part_for_each_level():
    identifier = TableIdentifier(("sales", "eu"), "orders")
    assert table_asset_key("floecat", identifier) == dg.AssetKey(["floecat", "sales", "eu", "orders"])
    assert partition_key("floecat", identifier, ID) == f"floecat.sales.eu.orders~~{ID}~~orders"


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a/b", "a~2Fb"),
        ("100%", "100~25"),
        ('say "x"', "say ~22x~22"),
        ("a*b\\c", "a~2Ab~5Cc"),
        ("a~2Fb", "a~7E2Fb"),
        ("заказы été 🐈", "заказы été 🐈"),
        ("a#b?c&d [x] (y)", "a#b?c&d [x] (y)"),
    ],
)
def test_what_pages_and_selections_cannot_take_is_escaped(name, part):
    assert table_asset_key("c", TableIdentifier(("n",), name)).path[-1] == part


@given(IDENTIFIERS, IDENTIFIERS)
def test_no_two_tables_share_an_asset(one, other):
    assert (table_asset_key("c", one) == table_asset_key("c", other)) == (one == other)


@given(IDENTIFIERS)
def test_every_table_can_be_named(identifier):
    key = table_asset_key("c", identifier)
    assert len(key.path) >= 3
    assert dg.AssetKey.from_user_string(key.to_user_string()) == key
    partition = partition_key("c", identifier, ID)
    assert table_id(partition) == ID
    assert require_table_id(partition) == ID
    assert "..." not in partition
    assert partition.isprintable() or not "".join((*identifier.namespace, identifier.name)).isprintable()
    assert dg.AssetSpec(key, group_name=table_group("c", identifier)).key == key


def test_the_longest_names_fit_an_index_of_postgresql():
    long = TableIdentifier(tuple(f"{number}" + "я" * 120 for number in range(8)), "з" * 127)
    other = TableIdentifier((*long.namespace[:-1], "7" + "я" * 119 + "ю"), long.name)
    key = table_asset_key("c" * 128, long)
    assert len(json.dumps(key.path)) < 2_000
    assert key.path[-1] == "з" * 127
    assert key != table_asset_key("c" * 128, other)
    partition = partition_key("c" * 128, long, ID)
    assert len(partition.encode()) < 1_000
    assert table_id(partition) == ID


@pytest.mark.parametrize(
    "key",
    [
        *("", "~~", "nonsense", str(ID), f"a~{ID}", f"~~{ID}~~a", f"a~~{ID}", "a~~1~~a"),
        *(f"a~~{str(ID).upper()}~~a", f"a~~{{{ID}}}~~a", f"a~{ID}~~a"),
    ],
)
def test_other_keys_are_no_tables(key):
    assert table_id(key) is None
    with pytest.raises(dg.Failure, match="is not a table") as caught:
        require_table_id(key)
    assert caught.value.allow_retries is False


def test_no_name_reads_as_the_key_of_another_table():
    other = str(UUID(int=7))
    for name in (f"a~~{other}~~a", f'"{other[2:]}', "x" * 199 + '"' + other[2:], "~" * 300):
        assert table_id(partition_key("c", TableIdentifier(("n",), name), ID)) == ID
