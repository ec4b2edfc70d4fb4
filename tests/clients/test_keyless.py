"""Clients without keys: the catalog gives them some that open one table for an hour.

Each creates, writes, reads, evolves and deletes rows, as it does with keys of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients import samples
from tests.clients.connections import Connections
from tests.clients.readers import READERS
from tests.clients.warehouses import Warehouse, unique
from tests.clients.writers import WRITERS

pytestmark = [pytest.mark.s3, pytest.mark.spark]


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


@pytest.mark.parametrize("client", ["duckdb", "spark", "spark-v3"])
def test_writes_and_reads(connections: Connections, keyless_warehouse: Warehouse, client: str) -> None:
    namespace = unique("keyless")
    catalog = connections.pyiceberg(keyless_warehouse)
    catalog.create_namespace(namespace)
    name = f"{namespace}.t"
    rows = WRITERS[client](connections, keyless_warehouse, name)
    columns = [*samples.COLUMNS, "note"][: len(rows[0])]
    for reader in {client.partition("-")[0], "pyiceberg"}:
        assert READERS[reader](connections, keyless_warehouse, name, columns) == rows
