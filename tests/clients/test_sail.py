"""Sail on the local disk, with the setting of its page, in a process of its own as in `delta/sail.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.clients.connections import connect_pyiceberg
from tests.clients.warehouses import Warehouse, unique
from tests.services.catalog import CatalogServer

PAGE = Path(__file__).parents[2] / "docs" / "clients" / "sail-dlt-datafusion.md"

RUNNER = """
import json, sys
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

server = SparkConnectServer(ip="127.0.0.1", port=0)
server.start(background=True)
host, port = server.listening_address
session = SparkSession.builder.remote(f"sc://{host}:{port}").getOrCreate()
answers = [[list(row) for row in session.sql(each).collect()] for each in json.load(sys.stdin)]
print(json.dumps(answers))
session.stop()
server.stop()
"""


def sail(server: CatalogServer, *statements: str) -> list[list[list[object]]]:
    """The rows of each statement, in a session of their own."""
    [setting] = [line for line in PAGE.read_text().splitlines() if line.startswith("SAIL_CATALOG__LIST=")]
    name, _, value = setting.partition("=")
    value = value.strip("'").replace("http://127.0.0.1:9200", server.base_url)
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        env=os.environ | {name: value},
        input=json.dumps(statements),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answers: list[list[list[object]]] = json.loads(done.stdout)
    return answers


def test_sail(catalog_server: CatalogServer) -> None:
    namespace = unique("sail")
    tables = {"plain": "", "parted": "PARTITIONED BY (region)"}
    answers = sail(
        catalog_server,
        f"CREATE DATABASE floecat.{namespace}",
        *(
            statement.format(name=f"floecat.{namespace}.{table}", partitions=partitions)
            for table, partitions in tables.items()
            for statement in (
                "CREATE TABLE {name} (id BIGINT, region STRING) USING iceberg {partitions}",
                "INSERT INTO {name} VALUES (1, 'east'), (2, 'west'), (3, NULL)",
                "SELECT * FROM {name} ORDER BY id",
                "SELECT id FROM {name} WHERE region = 'west'",
                "DELETE FROM {name} WHERE id = 1",
                "SELECT * FROM {name} ORDER BY id",
            )
        ),
    )
    left = [[2, "west"], [3, None]]
    for first in (1, 7):
        _, _, read, filtered, _, after = answers[first : first + 6]
        assert (read, filtered, after) == ([[1, "east"], *left], [[2]], left)
    catalog = connect_pyiceberg(Warehouse(catalog_server))
    for table, partitions in tables.items():
        found = catalog.load_table(f"{namespace}.{table}")
        rows = found.scan().to_arrow().sort_by("id").to_pylist()
        assert [list(row.values()) for row in rows] == left
        assert bool(found.spec().fields) == bool(partitions)
    sail(catalog_server, *(f"DROP TABLE floecat.{namespace}.{table}" for table in tables))
    assert catalog.list_tables(namespace) == []
