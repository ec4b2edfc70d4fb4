"""ClickHouse in a process of its own: a process has one session, and other tests of ClickHouse have that.

    python -m tests.clients.delta.clickhouse < REQUEST

answers with an Arrow file of the rows of a table.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa

from tests.clients.delta.lake import DeltaLake

__all__ = ["read_with_clickhouse"]

_TIMEOUT_S = 120


class Request(msgspec.Struct):
    """A catalog with its storage, and a table, named `namespace.table`."""

    folder: str
    uri: str
    warehouse: str
    storage: str
    access_key_id: str
    secret_access_key: str
    table: str


def read_with_clickhouse(lake: DeltaLake, table: str, folder: Path) -> pa.Table:
    """The rows of a table on S3.

    Args:
        lake: on S3.
        table: its name.
        folder: where ClickHouse may keep files.

    Raises:
        RuntimeError: it did not succeed; with what it said.
    """
    s3 = lake.warehouse.s3
    if s3 is None:
        raise ValueError("ClickHouse reads tables on object storage only")
    request = Request(
        folder=str(folder),
        uri=lake.warehouse.uri,
        warehouse=lake.warehouse.name,
        storage=f"{s3.endpoint}/{lake.warehouse.bucket}",
        access_key_id=s3.access_key_id,
        secret_access_key=s3.secret_access_key,
        table=table,
    )
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        cwd=Path(__file__).parents[3],
        input=msgspec.json.encode(request),
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"ClickHouse did not read {table}:\n{done.stderr.decode()[-3000:]}")
    return pa.ipc.open_file(done.stdout).read_all()


def _read(request: Request) -> bytes:
    from chdb.session import Session

    session = Session(request.folder)
    switches = "SET allow_database_iceberg = 1; "
    session.query(
        f"{switches}CREATE DATABASE lake"
        f" ENGINE = DataLakeCatalog('{request.uri}/v1',"
        f" '{request.access_key_id}', '{request.secret_access_key}')"
        f" SETTINGS catalog_type = 'rest', warehouse = '{request.warehouse}',"
        f" vended_credentials = 0, storage_endpoint = '{request.storage}'",
        "Null",
    )
    answer: bytes = session.query(f"{switches}SELECT * FROM lake.`{request.table}`", "Arrow").bytes()
    session.close()
    return answer


if __name__ == "__main__":
    sys.stdout.buffer.write(_read(msgspec.json.decode(sys.stdin.buffer.read(), type=Request)))
