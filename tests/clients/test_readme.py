"""The quick starts of the README, run as they are printed there; only the URL is of the test's service."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from tests.services.catalog import CatalogServer

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")

DUCKDB_RUNNER = """
import sys, duckdb
connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
for path in sys.argv[2:]:
    connection.execute(f"LOAD '{path}'")
print(connection.execute(sys.argv[1]).fetchall())
"""


def quick_start(client: str, language: str, server: CatalogServer) -> str:
    """The last block of that language in the section of the client."""
    [section] = re.findall(rf"^### {client}\n(.*?)(?=^##)", README, re.MULTILINE | re.DOTALL)
    block: str = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)[-1]
    assert "http://127.0.0.1:9200" in block
    return block.replace("http://127.0.0.1:9200", server.base_url).replace(
        "'floecat' AS", f"'{server.warehouse}' AS"
    )


def output_of(folder: Path, *arguments: str) -> str:
    environ = {
        key: value for key, value in os.environ.items() if not key.startswith(("FLOECAT_", "PYICEBERG_"))
    }
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_pyiceberg(catalog_server: CatalogServer, tmp_path: Path) -> None:
    output = output_of(tmp_path, "-c", quick_start("PyIceberg", "python", catalog_server))
    assert '["east","west","east"]' in output


def test_duckdb(catalog_server: CatalogServer, tmp_path: Path) -> None:
    sql = quick_start("DuckDB", "sql", catalog_server)
    # Here the extensions come from packages rather than from DuckDB's site.
    sql = sql.replace("INSTALL iceberg; LOAD iceberg;", "")
    extensions = [
        next(Path(str(files(f"duckdb_extension_{name}"))).rglob("*.duckdb_extension"))
        for name in ("httpfs", "aws", "avro", "iceberg")
    ]
    output = output_of(tmp_path, "-c", DUCKDB_RUNNER, sql, *map(str, extensions))
    assert output.strip() == "[(1, 'home'), (2, 'cart')]"


@pytest.mark.spark
def test_spark(catalog_server: CatalogServer, tmp_path: Path) -> None:
    output = output_of(tmp_path, "-c", quick_start("Spark", "python", catalog_server))
    assert re.search(r"\|\s*1\|click\|", output)
    assert re.search(r"\|\s*2\| view\|", output)
