"""PyIceberg's command line, configured by a file as its users do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from tests.clients.connections import Connections
from tests.clients.warehouses import Warehouse, unique


class Command:
    """The command, with the configuration of one warehouse."""

    def __init__(self, warehouse: Warehouse, folder: Path) -> None:
        lines = ["catalog:", "  lake:", "    type: rest", f"    uri: {warehouse.uri}"]
        lines += [f"    warehouse: {warehouse.name}"]
        lines += [f"    {key}: {value}" for key, value in warehouse.access_keys.items()]
        (folder / ".pyiceberg.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYICEBERG_")}
        self._environ = inherited | {"PYICEBERG_HOME": str(folder), "COLUMNS": "400"}

    def __call__(self, *arguments: str, fails: bool = False) -> str:
        """Runs it and returns what it prints; errors too if it is to fail."""
        done = subprocess.run(
            [str(Path(sys.executable).with_name("pyiceberg")), "--catalog", "lake", *arguments],
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr if fails else done.stdout


def table_with_one_row(catalog: RestCatalog) -> Table:
    namespace = unique("cli")
    catalog.create_namespace(namespace)
    rows = pa.table({"id": pa.array([1], pa.int64())})
    table = catalog.create_table(f"{namespace}.t", rows.schema)
    table.append(rows)
    return table


def test_reads(connections: Connections, warehouse: Warehouse, tmp_path: Path) -> None:
    table = table_with_one_row(connections.pyiceberg(warehouse))
    name = ".".join(table.name())
    run = Command(warehouse, tmp_path)
    described = json.loads(run("--output", "json", "describe", name))
    assert described["metadata_location"] == table.metadata_location
    assert described["metadata"]["table-uuid"] == str(table.metadata.table_uuid)
    assert f"{table.location()}/data/" in run("files", name)


@pytest.mark.parametrize("warehouse", ["disk"], indirect=True)
def test_changes(connections: Connections, warehouse: Warehouse, tmp_path: Path) -> None:
    catalog = connections.pyiceberg(warehouse)
    namespace, name = table_with_one_row(catalog).name()
    run = Command(warehouse, tmp_path)
    assert run("list", namespace).split() == [f"{namespace}.{name}"]
    run("create", "namespace", f"{namespace}.child")
    run("properties", "set", "namespace", namespace, "owner", "me")
    assert catalog.load_namespace_properties(namespace)["owner"] == "me"
    run("rename", f"{namespace}.{name}", f"{namespace}.renamed")
    assert catalog.list_tables(namespace) == [(namespace, "renamed")]
    run("drop", "table", f"{namespace}.renamed")
    run("drop", "namespace", f"{namespace}.child")
    run("drop", "namespace", namespace)
    assert not catalog.namespace_exists(namespace)
    assert "does not exist" in run("describe", f"{namespace}.{name}", fails=True)
