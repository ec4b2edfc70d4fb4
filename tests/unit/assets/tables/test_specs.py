from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import dagster as dg
import msgspec
import pytest

from floecat.events.live_entries import LiveEntry
from floecat.events.view_queries import ViewQuery
from floecat.identifiers.encoding import NamespaceSeparator
from floecat.identifiers.namespace import TableIdentifier
from floecat.settings.limits import LimitSettings
from floecat_assets.table_links import TableLinks
from floecat_assets.tables.specs import defined_as, table_specs

LINKS = TableLinks("https://lake.example.com/", NamespaceSeparator())


class Queries:
    def __init__(self, **sql: str) -> None:
        self._sql: Mapping[UUID, str] = {id_of(name): text for name, text in sql.items()}

    def of(self, entry_id: UUID, /) -> ViewQuery | None:
        return ViewQuery((self._sql[entry_id],), "engine", ("sales",)) if entry_id in self._sql else None


def id_of(name: str) -> UUID:
    return UUID(bytes=name.encode().ljust(16, b"\0"))


def entry(name: str, kind: str = "table", **values: Any) -> LiveEntry:
    identifier = TableIdentifier(values.pop("namespace", ("sales",)), name)
    catalog = values.pop("catalog", "floecat")
    table_format = values.pop("format", "iceberg")
    created = (f"s3://lake/{name}", f"s3://lake/{name}/metadata/1.json", 1_790_000_000_000, "ada")
    return LiveEntry(values.pop("id", id_of(name)), catalog, identifier, kind, table_format, *created, ":")


def by_name(specs: list[dg.AssetSpec]) -> dict[str, dg.AssetSpec]:
    assert dg.Definitions(assets=specs).resolve_asset_graph()
    return {spec.key.to_user_string(): spec for spec in specs}


def sources(spec: dg.AssetSpec) -> list[str]:
    return [dep.asset_key.to_user_string() for dep in spec.deps]


def test_what_is_shown_of_a_table():
    found = by_name(table_specs([entry("100% new/old", namespace=("sales", "e u"))], LINKS, Queries()))
    (spec,) = found.values()
    assert spec.key == dg.AssetKey(["floecat", "sales", "e u", "100~25 new~2Fold"])
    assert spec.group_name == "floecat/sales"
    assert spec.kinds == {"iceberg"}
    assert spec.description is not None
    assert "floecat.sales.e u.100% new/old" in spec.description
    assert {key: getattr(value, "value", value) for key, value in spec.metadata.items()} == {
        "dagster/table_name": "floecat.sales.e u.100% new/old",
        "dagster/uri": "s3://lake/100% new/old",
        "floecat/name": '"sales:e u"."100% new/old"',
        "floecat/created_at": 1_790_000_000.0,
        "floecat/created_by": "ada",
        "floecat/load_table": "https://lake.example.com/v1/floecat/namespaces/sales%1Fe%20u/tables/100%25%20new%2Fold",
    }
    assert spec.tags["floecat/table_id"] == str(id_of("100% new/old"))


def test_without_a_url_of_the_catalog_there_are_no_links():
    (spec,) = table_specs([entry("t")], TableLinks(None, NamespaceSeparator()), Queries())
    assert "floecat/load_table" not in spec.metadata


def test_a_delta_table_comes_from_its_log():
    found = by_name(table_specs([entry("t", format="delta")], LINKS, Queries()))
    assert sources(found["floecat/sales/t"]) == ["floecat/sales/t/~delta"]
    assert found["floecat/sales/t"].kinds == {"delta", "iceberg"}
    assert found["floecat/sales/t/~delta"].metadata["dagster/uri"].value == "s3://lake/t"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select * from a join b", ["floecat/sales/a", "floecat/sales/b"]),
        ("select * from sales.a, engine.sales.b", ["floecat/sales/a", "floecat/sales/b"]),
        ("select * from other.eu.c", ["other/eu/c"]),
        ("select * from floecat.sales.a", ["floecat/sales/a"]),
        ("select * from v, missing, eu.c", []),
        ("select * from other.x", []),  # a table of the namespace `other`, or of a catalog of that name
    ],
)
def test_a_view_comes_from_the_tables_that_its_sql_names(sql, expected):
    tables = [entry("a"), entry("b"), entry("c", catalog="other", namespace=("eu",))]
    tables += [
        entry("x", namespace=("other",)),
        entry("x", id=id_of("y"), catalog="engine", namespace=("other",)),
    ]
    found = by_name(table_specs([*tables, entry("v", "view")], LINKS, Queries(v=sql)))
    view = found["floecat/sales/v"]
    assert sources(view) == expected
    assert view.kinds == {"iceberg", "view"}
    assert view.metadata["floecat/load_view"].value.endswith("/views/v")


def test_views_that_name_each_other_are_a_chain():
    views = [entry(name, "view") for name in ("u", "v", "w")]
    queries = Queries(u="select * from v", v="select * from w", w="select * from u, w")
    found = by_name(table_specs(views, LINKS, queries))
    assert {name: sources(spec) for name, spec in found.items()} == {
        "floecat/sales/u": ["floecat/sales/v"],
        "floecat/sales/v": ["floecat/sales/w"],
        "floecat/sales/w": [],
    }


def test_views_that_all_name_each_other_are_put_in_one_order():
    names = [f"v{number}" for number in range(100)]
    query = "select * from " + ", ".join(names)
    found = by_name(
        table_specs([entry(name, "view") for name in names], LINKS, Queries(**dict.fromkeys(names, query)))
    )
    assert [len(sources(found[f"floecat/sales/{name}"])) for name in names] == list(range(99, -1, -1))


def test_lineage_of_a_view_is_bounded():
    limits = LimitSettings()
    tables = [entry(f"t{number}") for number in range(limits.view_sources + 1)]
    query = "select * from " + ", ".join(table.identifier.name for table in tables)
    blank = " " * (limits.view_sql_bytes - len("select * from t0"))
    queries = Queries(many=query, long=f"select * from t0{blank}", longer=f"select * from t0 {blank}")
    views = [entry(name, "view") for name in ("many", "long", "longer")]
    found = by_name(table_specs([*tables, *views], LINKS, queries, limits))
    assert len(sources(found["floecat/sales/many"])) == limits.view_sources
    assert sources(found["floecat/sales/long"]) == ["floecat/sales/t0"]
    assert sources(found["floecat/sales/longer"]) == []


def test_what_makes_definitions_out_of_date():
    table, view = entry("t"), entry("v", "view")
    moved = {"metadata_location": "s3://lake/2.json"}
    assert defined_as(msgspec.structs.replace(table, **moved)) == defined_as(table)
    assert defined_as(msgspec.structs.replace(view, **moved)) != defined_as(view)
    assert defined_as(msgspec.structs.replace(table, format="delta")) != defined_as(table)
