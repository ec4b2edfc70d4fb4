from __future__ import annotations

import pytest

from floecat_assets.tables.view_sql import named_tables


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("select 1", ""),
        ("select * from orders", "orders"),
        ('SELECT * FROM sales.orders o JOIN "Sales EU"."o.x" ON o.a = b.a', "sales.orders Sales EU.o|x"),
        ("select * from c.n.a, n.b as x, (select * from n.d) where a in (1, e)", "c.n.a n.b n.d"),
        ("select a, b from t group by a, b", "t"),
        ("select * from `a``b`.t left outer join (u cross join v)", "a`b.t u v"),
        ("select * from ((a join b using (x)))", "a b"),
        ("with x as (select * from a), y (p, q) as materialized (select 1) select * from x, y, b", "a b"),
        ("with x (p, q) as (select * from a) select * from X union all select * from b", "a b"),
        ("select extract(year from ts), trim(both 'x' from name) from t", "t"),
        ("select a is distinct from b from t", "t"),
        ("select 'from x' -- from y\n/* from z */ from t", "t"),
        ("select * from unnest(a), table(f(c)), t lateral view explode(b) x as p, q", "t"),
        ("select * from t where exists (select 1 from u where u.id = t.id)", "t u"),
        ("select * from t for version as of 3 order by a, b", "t"),
        ("select * from t, t u, t", "t"),
        ("values (1, 2)", ""),
        ("select * from", ""),
        ("select * from a.", "a"),
        (")))) from t", ""),
        (r"select 'it\\'s from x' from t", ""),
    ],
)
def test_names_in_sql(sql, names):
    expected = [tuple(part.replace("|", ".") for part in name.split(".")) for name in _split(names)]
    assert named_tables(sql) == expected


def _split(names: str) -> list[str]:
    return [name.replace("\0", " ") for name in names.replace("Sales EU", "Sales\0EU").split()]


def test_long_sql_is_read_in_no_time():
    sql = "select * from " + "(" * 20_000 + "t" + ")" * 20_000 + " join u on 1 = 1" * 20_000
    assert named_tables(sql) == [("t",), ("u",)]


@pytest.mark.parametrize("part", ["/* ", "join.", "as not "])
def test_the_time_is_in_proportion_to_the_length(part):
    # it takes minutes if each part is searched to the end
    assert named_tables("select * from t " + part * 40_000)[:1] == [("t",)]


def test_a_name_has_as_many_parts_as_a_namespace_can_have():
    name = [f"n{number}" for number in range(34)]
    assert named_tables(f"select * from {'.'.join(name)}") == [tuple(name)]
    assert named_tables(f"select * from {'.'.join(name)}.t") == []
