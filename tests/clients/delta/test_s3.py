"""Delta tables on S3, read through the catalog by the engines, ClickHouse too, which reads nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.connections import Connections
from tests.clients.delta.clickhouse import read_with_clickhouse
from tests.clients.delta.lake import ENGINES, DeltaLake, DeltaWarehouse, table_name
from tests.clients.delta.odd_files import MISREAD_BY_VECTORS
from tests.clients.delta.oracles import log_versions, oracle_rows
from tests.clients.delta.rows import check
from tests.clients.delta.test_file_names import READ_EVERYWHERE, write_names
from tests.delta_tables import delta_table
from tests.services.catalog import CatalogServer, s3_environment
from tests.services.s3 import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.s3]

_NAMES = [
    "delta/table-with-dv-large",
    "golden/data-reader-escaped-chars/delta",
    "golden/dv-with-columnmapping/delta",
    "kernel-rs/cdf-table-with-dv",
    "kernel-rs/v2-checkpoints-parquet-with-sidecars",
    "made/sail-dv_plain",
]


@pytest.fixture(scope="session")
def s3_delta_lake(
    tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server, connections: Connections
) -> Iterator[DeltaLake]:
    """A service that may read below a prefix of a bucket."""
    bucket = s3_server.create_bucket()
    root = f"s3://{bucket}/delta"
    environment = s3_environment(
        s3_server.endpoint, bucket, s3_server.access_key_id, s3_server.secret_access_key
    )
    environment["FLOECAT_STORAGE_ALLOWED_LOCATIONS"] = root
    server = CatalogServer(tmp_path_factory.mktemp("delta-s3-service"), environment).start()
    lake = DeltaLake(DeltaWarehouse(server, s3_server, bucket), root, connections)
    yield lake
    lake.close()
    server.stop()


@pytest.fixture(scope="session")
def on_s3(s3_delta_lake: DeltaLake) -> Callable[[str], str]:
    """Gives the name under which a table is registered."""
    names = {}
    for name in _NAMES:
        location = f"{s3_delta_lake.root}/{name}"
        _upload(s3_delta_lake, delta_table(name), location)
        names[name] = s3_delta_lake.register("packed", table_name(name), location)
    return names.__getitem__


def _upload(lake: DeltaLake, folder: Path, location: str) -> None:
    assert lake.warehouse.s3 is not None
    client = lake.warehouse.s3.client()
    prefix = location.removeprefix(f"s3://{lake.warehouse.bucket}/")
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            key = f"{prefix}/{file.relative_to(folder)}"
            client.upload_file(str(file), lake.warehouse.bucket, key)


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("engine", ENGINES)
def test_newest_rows(s3_delta_lake: DeltaLake, on_s3: Callable[[str], str], engine: str, name: str) -> None:
    check(ENGINES[engine](s3_delta_lake, on_s3(name), None), oracle_rows(name))


@pytest.mark.parametrize("name", _NAMES)
def test_an_older_version(s3_delta_lake: DeltaLake, on_s3: Callable[[str], str], name: str) -> None:
    version = log_versions(delta_table(name))[-2]
    found = ENGINES["pyiceberg"](s3_delta_lake, on_s3(name), version)
    check(found, oracle_rows(name, version))


@pytest.mark.parametrize("name", ["golden/dv-with-columnmapping/delta", "made/sail-dv_plain"])
def test_clickhouse(s3_delta_lake: DeltaLake, on_s3: Callable[[str], str], tmp_path: Path, name: str) -> None:
    found = read_with_clickhouse(s3_delta_lake, on_s3(name), tmp_path / "clickhouse")
    check(found, oracle_rows(name))


_READ_FROM_S3 = [(engine, ["a:b", "a\x01\x7fb", *READ_EVERYWHERE]) for engine in ENGINES]


@pytest.mark.parametrize(("engine", "names"), [*_READ_FROM_S3, ("duckdb", ["a#b"])])
def test_names_of_files(s3_delta_lake: DeltaLake, tmp_path: Path, engine: str, names: list[str]) -> None:
    writer = write_names(tmp_path, names)
    location = f"{s3_delta_lake.root}/names/{tmp_path.name}"
    _upload(s3_delta_lake, writer.folder, location)
    table = s3_delta_lake.register("names", f"{engine}{len(names)}", location)
    check(ENGINES[engine](s3_delta_lake, table, None), writer.rows[writer.version])


@pytest.mark.parametrize("kind", MISREAD_BY_VECTORS)
def test_clickhouse_reads_odd_files(s3_delta_lake: DeltaLake, tmp_path: Path, kind: str) -> None:
    """Those of other engines' faults."""
    written = MISREAD_BY_VECTORS[kind](tmp_path / "t")
    name = re.sub(r"\W+", "_", kind)
    location = f"{s3_delta_lake.root}/odd/{name}"
    _upload(s3_delta_lake, written.folder, location)
    table = s3_delta_lake.register("odd", name, location)
    found = read_with_clickhouse(s3_delta_lake, table, tmp_path / "c")
    # it has no binary type, and gives every timestamp a zone
    check(found.select(written.rows[1].column_names).cast(written.rows[1].schema), written.rows[1])
