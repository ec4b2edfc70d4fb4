"""The quick starts of the README, run as they are printed; only URLs, paths and `.venv` are of the test."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from tests.delta_tables import writable_copy
from tests.services.catalog import CatalogServer
from tests.services.s3 import S3Server

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


def environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("FLOECAT_", "PYICEBERG_"))}


def output_of(folder: Path, *arguments: str, **more: str) -> str:
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment() | more,
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


def test_lance(catalog_server: CatalogServer, tmp_path: Path) -> None:
    output = output_of(tmp_path, "-c", quick_start("Lance", "python", catalog_server))
    assert "['items']" in output
    assert "id: [[1,2]]" in output


@contextmanager
def service_in(folder: Path, **more: str) -> Iterator[str]:
    """What `make up` starts, without Dagster and demo data, until the end of the block; gives its URL.

    Args:
        folder: where it is started.
        more: of its environment.
    """
    command = [sys.executable, "-m", "floecat_rest", "up", "--no-dagster", "--no-demo", "--rest-port", "0"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment() | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        lines = []
        for line in process.stdout or ():
            lines.append(line)
            if "Ctrl-C" in line:
                break
        urls = re.findall(r"Iceberg REST +(\S+)", "".join(lines))
        assert urls, lines
        yield urls[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_delta_tables(tmp_path: Path) -> None:
    [section] = re.findall(r"^## Delta tables\n(.*?)(?=^## )", README, re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"```(toml|sh)\n(.*?)```", section, re.DOTALL)
    assert [language for language, _ in blocks] == ["sh", "toml", "sh", "sh"]
    lake = str(tmp_path / "lake")
    demo, settings, start, register = (text.replace("/data/lake", lake) for _, text in blocks)
    (tmp_path / "floecat.toml").write_text(settings, encoding="utf-8")
    writable_copy("kernel-rs/table-with-dv-small", tmp_path / "lake" / "orders")
    assert start == "make up\n"
    with service_in(tmp_path) as url:
        command, *arguments = shlex.split(register)
        assert command == ".venv/bin/floecat"
        output_of(tmp_path, "-m", "floecat_rest", "demo", "--url", url)
        show, snippet = re.findall(r"\.venv/bin/(?:floecat (.*)|python -c '\n([^']*)')", demo)
        assert "delta" in output_of(tmp_path, "-m", "floecat_rest", *shlex.split(show[0]))
        snippet = snippet[1].replace("http://127.0.0.1:9200", url)
        assert "station" in output_of(tmp_path, "-c", snippet)
        assert "version 1" in output_of(tmp_path, "-m", "floecat_rest", *arguments)
        catalog = load_catalog("floecat", type="rest", uri=url, warehouse="floecat")
        assert catalog.load_table("demo.orders").scan().to_arrow().num_rows == 8


@pytest.mark.s3
def test_tables_on_s3(tmp_path: Path, s3_server: S3Server, s3_bucket: str) -> None:
    [section] = re.findall(r"^## Tables on S3\n(.*?)(?=^## )", README, re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"```(toml|sh|python)\n(.*?)```", section, re.DOTALL)
    assert [language for language, _ in blocks] == ["toml", "sh", "sh", "python"]
    names = {"http://127.0.0.1:8333": s3_server.endpoint, "my-bucket": s3_bucket}
    names['"floecat"\n'] = f'"{s3_server.access_key_id}"\n'

    def ours(text: str) -> str:
        for theirs, own in names.items():
            text = text.replace(theirs, own)
        return text

    settings, start, authority, use = (text for _, text in blocks)
    (tmp_path / "floecat.toml").write_text(ours(settings), encoding="utf-8")
    assert start == "export FLOECAT_STORAGE_AWS_S3_SECRET_ACCESS_KEY=...\nmake up\n"
    secret = {"FLOECAT_STORAGE_AWS_S3_SECRET_ACCESS_KEY": s3_server.secret_access_key}
    with service_in(tmp_path, **secret) as url:
        for line in ours(authority).replace("\\\n", "").splitlines():
            program, *arguments = shlex.split(line)
            assert program == ".venv/bin/floecat"
            output_of(tmp_path, "-m", "floecat_rest", *arguments, **secret)
        output = output_of(tmp_path, "-c", use.replace("http://127.0.0.1:9200", url))
        assert output == "[{'id': 1, 'item': 'cup'}, {'id': 2, 'item': 'pot'}]\n"
