from __future__ import annotations

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from tests.unit.iceberg.table_documents import commit, document, parse, read, update


def puffin(snapshot_id: int, path: str = "s3://s.puffin") -> dict:
    blob = {
        "type": "apache-datasketches-theta-v1",
        "snapshot-id": snapshot_id,
        "sequence-number": 1,
        "fields": [1],
    }
    return {
        "snapshot-id": snapshot_id,
        "statistics-path": path,
        "file-size-in-bytes": 100,
        "file-footer-size-in-bytes": 20,
        "key-metadata": "eA==",
        "blob-metadata": [blob | {"properties": {"ndv": "3"}, "x-later": 1}],
    }


def partition_file(snapshot_id: int, path: str = "s3://p.parquet") -> dict:
    return {"snapshot-id": snapshot_id, "statistics-path": path, "file-size-in-bytes": 5, "x-later": 1}


@pytest.fixture
def table() -> TableMetadata:
    return parse(document(**{"statistics": [puffin(11)], "partition-statistics": [partition_file(11)]}))


def test_files_are_set_and_replaced(table: TableMetadata) -> None:
    metadata = commit(
        table,
        update("set-statistics", statistics=puffin(12)),
        update("set-statistics", statistics=puffin(11, "s3://new"), snapshot_id=11),
        update("set-partition-statistics", partition_statistics=partition_file(12)),
        update("set-partition-statistics", partition_statistics=partition_file(12, "s3://newer")),
    ).metadata

    assert read(metadata)["statistics"] == [puffin(12), puffin(11, "s3://new")]
    assert read(metadata)["partition-statistics"] == [partition_file(11), partition_file(12, "s3://newer")]
    assert metadata.statistics[0].blob_metadata[0].properties == {"ndv": "3"}


def test_files_are_removed(table: TableMetadata) -> None:
    metadata = commit(
        table,
        update("remove-statistics", snapshot_id=11),
        update("remove-partition-statistics", snapshot_id=11),
    ).metadata
    assert read(metadata)["statistics"] == []
    assert read(metadata)["partition-statistics"] == []


def test_the_same_file_again_is_no_change(table: TableMetadata) -> None:
    assert not commit(table, update("set-statistics", statistics=puffin(11))).changed


@pytest.mark.parametrize(
    "change",
    [
        update("set-statistics", statistics={"snapshot-id": 11}),
        update("set-statistics", statistics=puffin(11), snapshot_id=12),
        update("set-statistics", statistics=puffin(11) | {"file-size-in-bytes": "5"}),
        update(
            "set-partition-statistics", partition_statistics={"snapshot-id": 11, "statistics-path": "s3://x"}
        ),
    ],
)
def test_refuses_what_is_no_file(table: TableMetadata, change: dict) -> None:
    with pytest.raises(IllegalArgumentError, match="statistics"):
        commit(table, change)
