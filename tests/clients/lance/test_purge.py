"""A purge of the Iceberg table that stands for a Lance table leaves the Lance data alone."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from tests.clients.connections import connect_pyiceberg
from tests.clients.lance.conftest import Lake


@pytest.mark.parametrize("storage", ["disk", pytest.param("s3", marks=pytest.mark.s3)])
def test_purge_deletes_only_what_is_iceberg(storage: str, request: pytest.FixtureRequest):
    lake: Lake = request.getfixturevalue(f"{storage}_lake")
    namespace, parent = lake.connect(), lake.new_namespace()
    options = {"namespace_client": namespace, "table_id": [*parent, "t"], "storage_options": lake.keys}
    rows = pa.table({"id": [1, 2, 3]})
    lance.write_dataset(rows, **options)
    lance.write_dataset(rows, **options, mode="append")
    dataset = lance.dataset(**options)
    files = lake.warehouse.files_below(dataset.uri)
    iceberg = {path for path in files if path.startswith("metadata/")}
    assert iceberg

    catalog = connect_pyiceberg(lake.warehouse)
    catalog.purge_table((parent[1], "t"))
    catalog.close()
    assert lake.warehouse.wait_until_empty(f"{dataset.uri}/metadata") == set()

    assert lake.warehouse.files_below(dataset.uri) == files - iceberg
    storage_options = {**lake.keys, **(dataset.initial_storage_options or {})}
    assert lance.dataset(dataset.uri, storage_options=storage_options).count_rows() == 6
