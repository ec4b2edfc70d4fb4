"""PyIceberg's command line, configured by a file as its users do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.clients.connections import Connections
from tests.clients.warehouses import Warehouse, unique

Run = Callable[..., Any]


@pytest.fixture
def run(warehouse: Warehouse, tmp_path: Path) -> Run:
    """Runs the command and returns what it prints, parsed."""
    lines = ["catalog:", "  lake:", "    type: rest", f"    uri: {warehouse.uri}"]
    lines += [f"    warehouse: {warehouse.name}"]
    lines += [f"    {key}: {value}" for key, value in warehouse.access_keys.items()]
    (tmp_path / ".pyiceberg.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYICEBERG_")}

    def call(*arguments: str, fails: bool = False) -> Any:
        command = [str(Path(sys.executable).with_name("pyiceberg")), "--catalog", "lake", "--output", "json"]
        done = subprocess.run(
            [*command, *arguments],
            env=environ | {"PYICEBERG_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError:
            return done.stdout

    return call


@pytest.fixture
def name(connections: Connections, warehouse: Warehouse) -> str:
    """A table with one row."""
    catalog = connections.pyiceberg(warehouse)
    namespace = unique("cli")
    catalog.create_namespace(namespace)
    rows = pa.table({"id": pa.array([1], pa.int64())})
    catalog.create_table(f"{namespace}.t", rows.schema).append(rows)
    return f"{namespace}.t"


def test_namespaces(run: Run) -> None:
    name = unique("cli")
    run("create", "namespace", name)
    assert name in str(run("list"))
    run("properties", "set", "namespace", name, "owner", "me")
    assert run("properties", "get", "namespace", name, "owner") == "me"
    run("drop", "namespace", name)
    assert name not in str(run("list"))


def test_table(run: Run, connections: Connections, warehouse: Warehouse, name: str) -> None:
    table = connections.pyiceberg(warehouse).load_table(name)
    assert name in str(run("list", name.split(".")[0]))
    described = run("describe", name)
    assert described["metadata_location"] == table.metadata_location
    assert described["metadata"]["table-uuid"] == str(table.metadata.table_uuid)
    assert run("uuid", name) == {"uuid": str(table.metadata.table_uuid)}
    assert run("location", name) == table.location()
    assert run("schema", name)["fields"][0]["name"] == "id"
    assert "file" in str(run("files", name))


def test_rename_and_drop(run: Run, connections: Connections, warehouse: Warehouse, name: str) -> None:
    catalog = connections.pyiceberg(warehouse)
    run("rename", name, f"{name}_renamed")
    assert catalog.table_exists(f"{name}_renamed")
    run("drop", "table", f"{name}_renamed")
    assert not catalog.table_exists(f"{name}_renamed")
    assert "does not exist" in str(run("describe", name, fails=True))
