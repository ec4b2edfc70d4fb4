"""Clients without keys that have each of their requests to S3 signed by the catalog."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.exceptions import SignError
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.types import LongType
from pyiceberg.utils.concurrent import ExecutorFactory

from tests.clients.connections import Connections, SparkCatalog, connect_pyiceberg
from tests.clients.warehouses import Warehouse, unique

pytestmark = pytest.mark.s3

ASKS = {"header.X-Iceberg-Access-Delegation": "remote-signing"}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


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
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyIceberg reads files by one thread.

    Each new thread takes the signer away for a moment and puts it back: what others send meanwhile goes
    without a signature.
    """
    monkeypatch.setenv("PYICEBERG_MAX_WORKERS", "1")
    monkeypatch.setattr(ExecutorFactory, "_instance", None)


@pytest.mark.usefixtures("one_thread")
def test_pyiceberg_with_fsspec(keyless_warehouse: Warehouse) -> None:
    catalog = connect_pyiceberg(keyless_warehouse, **ASKS)
    name = f"{unique('signed')}.t"
    catalog.create_namespace(name.partition(".")[0])
    table = catalog.create_table(name, ROWS.schema)
    assert isinstance(table.io, FsspecFileIO)
    assert not [key for key in table.io.properties if "secret" in key or "session-token" in key]
    table.append(ROWS)
    with table.update_schema() as update:
        update.add_column("amount", LongType())
    table.append(
        pa.table({"id": pa.array([4], pa.int64()), "name": ["d"], "amount": pa.array([7], pa.int64())})
    )
    table.delete("id = 1")
    found = catalog.load_table(name).scan().to_arrow().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == [(2, "b", None), (3, "c", None), (4, "d", 7)]
    # it deletes by a body, which it does not show to the catalog
    with pytest.raises(SignError, match="400"):
        table.io.delete(f"{table.location()}/data/a")


@pytest.mark.usefixtures("one_thread")
def test_pyiceberg_that_is_told_no_path(keyless_warehouse: Warehouse) -> None:
    own = {"s3.signer": "S3V4RestSigner", "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
    catalog = connect_pyiceberg(keyless_warehouse, **own, **{"header.X-Iceberg-Access-Delegation": "none"})
    name = f"{unique('signed')}.t"
    catalog.create_namespace(name.partition(".")[0])
    table = catalog.create_table(name, ROWS.schema)
    assert "s3.signer.endpoint" not in table.io.properties
    table.append(ROWS)
    assert catalog.load_table(name).scan().to_arrow().num_rows == 3


@pytest.mark.spark
def test_spark_that_is_told_no_path(connections: Connections, keyless_warehouse: Warehouse) -> None:
    session = connections.spark(keyless_warehouse).session
    own = {"header.X-Iceberg-Access-Delegation": "none", "s3.remote-signing-enabled": "true"}
    spark = SparkCatalog(session, keyless_warehouse, "signed_alone", **own)
    namespace = unique("signed")
    spark.sql(f"CREATE NAMESPACE {namespace}")
    spark.sql(f"CREATE TABLE {namespace}.t (id bigint)")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1), (2)")
    assert spark.sql(f"SELECT * FROM {namespace}.t ORDER BY id") == [(1,), (2,)]


@pytest.mark.spark
def test_spark_with_s3_file_io(connections: Connections, keyless_warehouse: Warehouse) -> None:
    session = connections.spark(keyless_warehouse).session
    spark = SparkCatalog(session, keyless_warehouse, "signed", **ASKS)
    namespace = unique("signed")
    spark.sql(f"CREATE NAMESPACE {namespace}")
    spark.sql(f"CREATE TABLE {namespace}.t (id bigint, name string)")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql(f"ALTER TABLE {namespace}.t ADD COLUMN amount bigint")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (4, 'd', 7)")
    spark.sql(f"DELETE FROM {namespace}.t WHERE id = 1")
    rows = [(2, "b", None), (3, "c", None), (4, "d", 7)]
    assert spark.sql(f"SELECT * FROM {namespace}.t ORDER BY id") == rows
    spark.sql(f"CREATE TABLE {namespace}.copied AS SELECT * FROM {namespace}.t")
    assert spark.sql(f"SELECT * FROM {namespace}.copied ORDER BY id") == rows
    # deletes many objects at once, by a body that the catalog is shown
    [expired] = spark.sql(
        f"CALL system.expire_snapshots(table => '{namespace}.t',"
        " older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    )
    assert expired[0] > 0
    assert spark.sql(f"SELECT * FROM {namespace}.t ORDER BY id") == rows
