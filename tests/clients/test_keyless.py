"""Clients without keys: the catalog gives them some that open one table for an hour.

Each creates, writes, reads, evolves and deletes rows as it does with keys of its own. Then a script tries the
keys that it got on everything else.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import lance
import polars
import pyarrow as pa
import pytest
from lance_namespace import DescribeTableRequest
from pyiceberg.catalog.rest import RestCatalog

from tests.clients import samples
from tests.clients.connections import Connections, connect_pyiceberg
from tests.clients.lance.conftest import lake_of
from tests.clients.readers import READERS
from tests.clients.storage_options import polars_storage_options
from tests.clients.warehouses import Warehouse, unique
from tests.clients.writers import WRITERS
from tests.services.authorities import prepare_authority
from tests.services.catalog import CatalogServer, s3_environment
from tests.services.misuse import KeyThief
from tests.services.s3 import S3Server

pytestmark = [pytest.mark.s3, pytest.mark.spark]

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})

CLICKHOUSE = """
import sys
from chdb.session import Session

uri, endpoint, folder, name = sys.argv[1:]
session = Session(folder)
for statement in (
    "SET allow_database_iceberg = 1, allow_insert_into_iceberg = 1",
    f"CREATE DATABASE lake ENGINE = DataLakeCatalog('{uri}/v1') SETTINGS catalog_type = 'rest',"
    f" warehouse = 'floecat', vended_credentials = 1, storage_endpoint = '{endpoint}'",
    f"INSERT INTO lake.`{name}` VALUES (4, 'd')",
    f"ALTER TABLE lake.`{name}` ADD COLUMN amount Nullable(Int32)",
    f"INSERT INTO lake.`{name}` VALUES (5, 'e', 7)",
    f"ALTER TABLE lake.`{name}` DELETE WHERE id = 1",
    f"SELECT * FROM lake.`{name}` ORDER BY id",
):
    found = session.query(statement, "CSV")
print(found.data())
session.close()
"""


@pytest.fixture(scope="module", autouse=True)
def without_keys_of_its_own() -> Iterator[None]:
    """No client finds keys anywhere else."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        patch.setenv("AWS_CONFIG_FILE", "/dev/null")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


@pytest.fixture
def catalog(connections: Connections, keyless_warehouse: Warehouse) -> RestCatalog:
    """PyIceberg, without keys."""
    return connections.pyiceberg(keyless_warehouse)


@pytest.fixture
def namespace(catalog: RestCatalog) -> str:
    """An empty namespace."""
    name = unique("keyless")
    catalog.create_namespace(name)
    return name


@pytest.fixture
def open_nothing_else(keyless_warehouse: Warehouse) -> Callable[[str], None]:
    """Tries the keys that a client gets to a table, by its name."""

    def check(name: str) -> None:
        at = "{}/v1/floecat/namespaces/{}/tables/{}".format(keyless_warehouse.uri, *name.split("."))
        asks = {"X-Iceberg-Access-Delegation": "vended-credentials"}
        answer = httpx.get(at, headers=asks, timeout=60).json()
        [credential] = answer["storage-credentials"]
        assert keyless_warehouse.s3 is not None
        thief = KeyThief(keyless_warehouse.s3, credential["config"], answer["metadata"]["location"])
        assert thief.refused(may_write=True) == {}
        assert thief.reads_and_lists()

    return check


@pytest.mark.parametrize("client", [name for name in WRITERS if name != "clickhouse"])
def test_writes_and_reads(
    connections: Connections,
    keyless_warehouse: Warehouse,
    namespace: str,
    open_nothing_else: Callable[[str], None],
    client: str,
) -> None:
    name = f"{namespace}.t"
    rows = WRITERS[client](connections, keyless_warehouse, name)
    columns = [*samples.COLUMNS, "note"][: len(rows[0])]
    for reader in {client.partition("-")[0], "pyiceberg", "pyiceberg-planned"}:
        assert READERS[reader](connections, keyless_warehouse, name, columns) == rows
    open_nothing_else(name)


def test_polars_evolves_a_table_and_replaces_rows(catalog: RestCatalog, namespace: str) -> None:
    """Its writer takes options, which only a table has that is there."""
    table = catalog.create_table(f"{namespace}.t", ROWS.schema)
    options = polars_storage_options(table)
    frame = polars.DataFrame(ROWS)
    frame.lazy().sink_iceberg(table, mode="append", storage_options=options)
    wider = frame.filter(polars.col("id") == 2).with_columns(amount=7)
    wider.lazy().sink_iceberg(
        table.refresh(),
        mode="overwrite",
        overwrite_filter=polars.col("id") == 2,
        schema_mode="merge",
        storage_options=options,
    )
    table.refresh().delete("id = 1")
    found = polars.scan_iceberg(table.refresh(), storage_options=options).sort("id").collect()
    assert found.rows() == [(2, "b", 7), (3, "c", None)]


def test_daft_makes_a_table_in_its_own_catalog(catalog: RestCatalog, namespace: str) -> None:
    import daft

    frame = daft.from_arrow(ROWS)
    table = daft.Catalog.from_iceberg(catalog).create_table(f"{namespace}.t", frame.schema())
    table.append(frame)
    assert sorted(table.read().to_pydict()["id"]) == [1, 2, 3]


def test_lance(keyless_warehouse: Warehouse) -> None:
    lake = lake_of(keyless_warehouse)
    client, parent = lake.connect(), lake.new_namespace()
    options = {"namespace_client": client, "table_id": [*parent, "items"]}
    lance.write_dataset(ROWS, **options, mode="create")
    lance.write_dataset(ROWS, **options, mode="append")
    dataset = lance.dataset(**options)
    dataset.add_columns({"twice": "id * 2"})
    dataset.delete("id = 1")
    assert sorted(lance.dataset(**options).to_table()["twice"].to_pylist()) == [4, 4, 6, 6]
    found = client.describe_table(DescribeTableRequest(id=options["table_id"]))
    told = found.storage_options or {}
    assert int(told["expires_at_millis"]) > 0
    assert keyless_warehouse.s3 is not None
    config = {
        "s3.access-key-id": told["aws_access_key_id"],
        "s3.secret-access-key": told["aws_secret_access_key"],
        "s3.session-token": told["aws_session_token"],
    }
    assert KeyThief(keyless_warehouse.s3, config, found.location).refused(may_write=True) == {}


@pytest.mark.parametrize("tells_endpoint", [False, True])
def test_clickhouse_needs_an_authority_that_tells_no_endpoint(
    tmp_path: Path, s3_server: S3Server, s3_bucket: str, tells_endpoint: bool
) -> None:
    environment = s3_environment(
        s3_server.endpoint, s3_bucket, s3_server.access_key_id, s3_server.secret_access_key
    )
    prefix = f"s3://{s3_bucket}/warehouse"
    prepare_authority(tmp_path / "data", environment, s3_server, prefix, tells_endpoint=tells_endpoint)
    server = CatalogServer(tmp_path / "data", environment).start()
    catalog = connect_pyiceberg(
        Warehouse(server, s3_server, s3_bucket, vends=True), **{"s3.endpoint": s3_server.endpoint}
    )
    catalog.create_namespace("n")
    catalog.create_table("n.t", ROWS.schema).append(ROWS)
    arguments = [server.base_url, f"{s3_server.endpoint}/{s3_bucket}", str(tmp_path / "clickhouse"), "n.t"]
    # a process has one ClickHouse
    done = subprocess.run(
        [sys.executable, "-c", CLICKHOUSE, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    server.stop()
    if tells_endpoint:
        assert "S3_ERROR" in done.stderr
    else:
        assert done.stdout.split() == ['2,"b",\\N', '3,"c",\\N', '4,"d",\\N', '5,"e",7'], done.stderr
