"""One tree of nested namespaces under Gravitino's client, Spark, PyIceberg and DuckDB at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import duckdb
import pytest
from gravitino import GravitinoClient

from tests.clients.connections import Connections, connect_duckdb, connect_pyiceberg
from tests.clients.warehouses import Warehouse, unique

ACCOUNT = "5eaa9cd5-7d08-3750-9457-cfe800b0b9d2"
CLIENTS = ("gravitino", "pyiceberg", "spark", "duckdb")
MADE = ("n0", "n1", "n2")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:Missing value of non-optional type:RuntimeWarning"),
]


class _Tree:
    """What a client does with namespaces, by all their levels."""

    def __init__(
        self,
        create: Callable[[tuple[str, ...]], object],
        drop: Callable[[tuple[str, ...]], object],
        children: Callable[[tuple[str, ...]], set[str]],
    ) -> None:
        self.create = create
        self.drop = drop
        self.children = children


def _gravitino(warehouse: Warehouse) -> _Tree:
    client = GravitinoClient(warehouse.uri, metalake_name=ACCOUNT)
    schemas = client.load_catalog(warehouse.name).as_schemas()
    return _Tree(
        lambda levels: schemas.create_schema(":".join(levels), None, {}),
        lambda levels: schemas.drop_schema(":".join(levels), cascade=False),
        lambda levels: {name.split(":")[-1] for name in schemas.list_schemas(":".join(levels))},
    )


def _pyiceberg(warehouse: Warehouse) -> _Tree:
    catalog = connect_pyiceberg(warehouse)
    return _Tree(
        catalog.create_namespace,
        catalog.drop_namespace,
        lambda levels: {found[-1] for found in catalog.list_namespaces(levels)},
    )


def _spark(connections: Connections, warehouse: Warehouse) -> _Tree:
    spark = connections.spark(warehouse)

    def name(levels: tuple[str, ...]) -> str:
        return f"{spark.name}.{'.'.join(levels)}"

    return _Tree(
        lambda levels: spark.sql(f"CREATE NAMESPACE {name(levels)}"),
        lambda levels: spark.sql(f"DROP NAMESPACE {name(levels)}"),
        lambda levels: {found.split(".")[-1] for (found,) in spark.sql(f"SHOW NAMESPACES IN {name(levels)}")},
    )


def _duckdb(connections: Connections, warehouse: Warehouse) -> _Tree:
    connection = connections.duckdb(warehouse)

    def children(levels: tuple[str, ...]) -> set[str]:
        """DuckDB lists the top level alone; of tables it tells whether their schema is there."""
        found = set()
        with connect_duckdb(warehouse) as fresh:
            for name in (*CLIENTS, *MADE):
                with pytest.raises(duckdb.CatalogException) as missing:
                    fresh.execute(f'SELECT * FROM lake."{".".join((*levels, name))}".nothing')
                if "because schema" not in str(missing.value):
                    found.add(name)
        return found

    return _Tree(
        lambda levels: connection.execute(f'CREATE SCHEMA lake."{".".join(levels)}"'),
        lambda levels: connection.execute(f'DROP SCHEMA lake."{".".join(levels)}"'),
        children,
    )


def test_four_clients_make_see_and_drop_one_tree_at_the_same_time(
    connections: Connections, disk_warehouse: Warehouse
) -> None:
    trees: Mapping[str, _Tree] = {
        "gravitino": _gravitino(disk_warehouse),
        "pyiceberg": _pyiceberg(disk_warehouse),
        "spark": _spark(connections, disk_warehouse),
        "duckdb": _duckdb(connections, disk_warehouse),
    }
    assert tuple(trees) == CLIENTS
    top = unique("tree")
    begin = Barrier(len(trees))

    def grow(client: str) -> None:
        begin.wait(60)
        for name in MADE:
            trees[client].create((top, client, name))
            assert client in trees[client].children((top,))

    whose = dict(zip(trees, (*CLIENTS[1:], CLIENTS[0]), strict=True))

    def cut(client: str) -> None:
        begin.wait(60)
        for name in MADE:
            trees[client].drop((top, whose[client], name))
        trees[client].drop((top, whose[client]))

    def at_once(work: Callable[[str], None]) -> None:
        with ThreadPoolExecutor(len(trees)) as pool:
            others = [pool.submit(work, client) for client in trees if client != "spark"]
            work("spark")  # whose session belongs to this thread
            for each in others:
                each.result()

    at_once(grow)
    grown = {(top,): set(CLIENTS)} | {(top, client): set(MADE) for client in CLIENTS}
    seen = {client: {levels: tree.children(levels) for levels in grown} for client, tree in trees.items()}
    assert seen == dict.fromkeys(CLIENTS, grown)
    at_once(cut)
    assert {client: tree.children((top,)) for client, tree in trees.items()} == {
        client: set() for client in CLIENTS
    }
    trees["spark"].drop((top,))
    assert (top,) not in connect_pyiceberg(disk_warehouse).list_namespaces()
