"""What happens to work of clients without keys that lasts longer than the keys that the catalog gave."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import daft
import lance
import msgspec
import polars
import pyarrow as pa
import pytest

from tests.clients.connections import SparkCatalog, connect_duckdb, connect_pyiceberg
from tests.clients.lance.conftest import lake_of
from tests.clients.storage_options import polars_storage_options
from tests.clients.warehouses import Warehouse
from tests.services.authorities import prepare_authority
from tests.services.catalog import running_catalog, s3_environment
from tests.services.misuse import KeyThief
from tests.services.s3 import S3Server
from tests.services.short_keys import short_keys

pytestmark = [
    pytest.mark.s3,
    pytest.mark.spark,
    # PySpark leaves the socket of each answer to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LIFE_S = 65
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
FAILS = "fails"


@pytest.fixture
def short_lived(tmp_path: Path, s3_server: S3Server, s3_bucket: str) -> Iterator[Warehouse]:
    """A service whose keys live for seconds."""
    with short_keys(s3_server.endpoint, LIFE_S) as endpoint:
        server = msgspec.structs.replace(s3_server, endpoint=endpoint)
        environment = s3_environment(
            endpoint, s3_bucket, s3_server.access_key_id, s3_server.secret_access_key
        )
        prepare_authority(tmp_path, environment, server, f"s3://{s3_bucket}/warehouse")
        with running_catalog(tmp_path, environment) as catalog:
            yield Warehouse(catalog, server, s3_bucket, vends=True)


def _ids(read: Callable[[], Any]) -> list[int] | str:
    try:
        return sorted(read())
    except Exception as error:  # noqa: BLE001 - each client has its own
        print(type(error), str(error)[:400])
        return FAILS


def test_who_gets_new_keys(short_lived: Warehouse, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    catalog = connect_pyiceberg(short_lived)
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", ROWS.schema)
    table.append(ROWS)
    options = polars_storage_options(table)
    duckdb = connect_duckdb(short_lived)
    own = SparkCatalog(spark, short_lived, "short_lived")
    own.sql("SELECT * FROM n.t")
    frame = spark.table("short_lived.n.t")
    daft_frame = daft.read_iceberg(table)
    lake = lake_of(short_lived)
    lance_options = {"namespace_client": lake.connect(), "table_id": [*lake.new_namespace(), "items"]}
    lance.write_dataset(ROWS, **lance_options, mode="create")
    dataset = lance.dataset(**lance_options)

    def polars_ids() -> Any:
        return polars.scan_iceberg(table, storage_options=options).collect()["id"].to_list()

    def duckdb_ids() -> Any:
        return [row[0] for row in duckdb.execute("SELECT id FROM lake.n.t").fetchall()]

    def lance_ids() -> Any:
        return dataset.to_table()["id"].to_pylist()

    def table_ids() -> Any:
        return table.scan().to_arrow()["id"].to_pylist()

    reads: dict[str, Callable[[], Any]] = {
        "a table of PyIceberg": table_ids,
        "Polars with the options of that table": polars_ids,
        "a frame of Daft": lambda: daft_frame.to_pydict()["id"],
        "the next query of DuckDB": duckdb_ids,
        "a frame of Spark": lambda: [row[0] for row in frame.select("id").collect()],
        "a dataset of Lance": lance_ids,
    }
    before = {name: _ids(read) for name, read in reads.items() if "frame" not in name}
    assert before == {name: [1, 2, 3] for name in before}
    time.sleep(LIFE_S + 2)
    after = {name: _ids(read) for name, read in reads.items()}
    print(after)
    assert after == {
        "a table of PyIceberg": FAILS,
        "Polars with the options of that table": FAILS,
        "a frame of Daft": FAILS,
        "the next query of DuckDB": [1, 2, 3],
        "a frame of Spark": [1, 2, 3],
        "a dataset of Lance": [1, 2, 3],
    }
    table.refresh()
    assert _ids(reads["a table of PyIceberg"]) == [1, 2, 3]
    duckdb.close()


@pytest.mark.scale
@pytest.mark.timeout(1200)
def test_keys_end_at_the_server_itself(tmp_path: Path, s3_server: S3Server, s3_bucket: str) -> None:
    """After the shortest life that STS gives, without a front."""
    life_s = 900
    environment = s3_environment(
        s3_server.endpoint, s3_bucket, s3_server.access_key_id, s3_server.secret_access_key
    )
    prefix = f"s3://{s3_bucket}/warehouse"
    prepare_authority(tmp_path, environment, s3_server, prefix, duration_s=life_s)
    with running_catalog(tmp_path, environment) as server:
        warehouse = Warehouse(server, s3_server, s3_bucket, vends=True)
        catalog = connect_pyiceberg(warehouse)
        catalog.create_namespace("n")
        table = catalog.create_table("n.t", ROWS.schema)
        table.append(ROWS)
        duckdb = connect_duckdb(warehouse)

        def ids() -> Any:
            return table.scan().to_arrow()["id"].to_pylist()

        thief = KeyThief(s3_server, table.io.properties, table.location())
        assert (thief.refused(may_write=True), thief.answer()) == ({}, "")
        time.sleep(life_s + 5)
        assert thief.refused(may_write=False) == {}
        assert thief.answer() in ("ExpiredToken", "InvalidAccessKeyId")
        assert _ids(ids) == FAILS
        assert duckdb.execute("SELECT id FROM lake.n.t ORDER BY id").fetchall() == [(1,), (2,), (3,)]
        table.refresh()
        assert _ids(ids) == [1, 2, 3]
        duckdb.close()
