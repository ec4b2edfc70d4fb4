"""Statistics that Spark reads through the catalog, by Iceberg's runtime, beside those of one process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from floecat.auth.principals import Principal
from floecat.entries.calls import Call
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, open_kernel
from floecat.settings import load_settings
from floecat.statistics.records import TargetKind, content_hash, target_storage_id
from floecat_assets.spark.capture_groups import CatalogAccess, SparkGroups
from floecat_assets.spark.catalog_rows import CatalogTable
from floecat_assets.spark.data_files import FileBounds
from tests.clients.connections import Connections
from tests.clients.spark_lake import Lake, new_lake
from tests.clients.warehouses import Warehouse

pytestmark = [
    pytest.mark.spark,
    # Spark 3.5 sends Arrow data on Java 17 and older only
    pytest.mark.scale,
    # of PySpark, where functions get Arrow
    pytest.mark.filterwarnings("ignore:distutils Version classes:DeprecationWarning"),
]

_COLUMNS = """id INT, name STRING, price DECIMAL(9, 2), ratio DOUBLE, at TIMESTAMP, raw BINARY,
    place STRUCT<x: INT, tags: ARRAY<STRING>>, counts MAP<STRING, INT>"""
_EXPRESSIONS = '[{"type": "transform", "transform": "bucket[4]", "term": "id"}]'
_ROWS = """CAST(id AS int), if(id % 7 = 0, NULL, concat('name ', id % 11)), CAST(id / 3 AS decimal(9, 2)),
    if(id % 5 = 0, double('NaN'), id / 7), timestamp_micros(id * 1000003), CAST(concat('b', id) AS binary),
    if(id % 3 = 0, NULL, named_struct('x', CAST(id AS int), 'tags', array('a', concat('t', id), NULL))),
    map('k', CAST(id AS int))"""


@pytest.fixture(scope="module")
def lake(connections: Connections, disk_warehouse: Warehouse) -> Lake:
    return new_lake(connections, disk_warehouse)


@pytest.fixture
def here(disk_warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """A worker beside the service."""
    monkeypatch.setenv("FLOECAT_DATA_DIR", str(disk_warehouse.server.data_dir))
    opened = open_kernel(load_settings())
    yield opened
    opened.close()


@pytest.fixture
def kernel(here: Kernel, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """Another one, for which every capture is large."""
    del here
    monkeypatch.setenv("FLOECAT_STATISTICS_SINGLE_GROUP_BYTES", "0")
    monkeypatch.setenv("FLOECAT_STATISTICS_LARGE_CAPTURE_BYTES", "1")
    monkeypatch.setenv("FLOECAT_STATISTICS_FILES_PER_GROUP", "2")
    monkeypatch.setenv("FLOECAT_STATISTICS_PUBLISH", "never")
    opened = open_kernel(load_settings())
    yield opened
    opened.close()


class Captures:
    """Captures of a table, whose groups Spark reads."""

    def __init__(self, kernel: Kernel, lake: Lake, table: str) -> None:
        self.kernel = kernel
        self.lake = lake
        self.identifier = TableIdentifier((lake.ns,), table)
        account = kernel.settings.gateway.default_account_id
        self.call: Call = kernel.calls.open(Principal(name="ada", account_id=account), lake.warehouse.name)
        self.entry_id = next(
            entry.entry_id for entry in kernel.live_entries if entry.identifier == self.identifier
        )
        self.warnings: list[str] = []
        self.warehouse = lake.warehouse.name

    def run(self) -> SparkGroups:
        """Captures the current snapshot again, and returns what read it."""
        access = CatalogAccess({"uri": self.lake.warehouse.uri}, self._find)
        session: Any = self.lake.catalog.session
        bounds = FileBounds(256 << 20, 300_000)
        groups = SparkGroups(lambda: session, access, self.warnings.append, bounds=bounds)
        self.kernel.captures.capture(self.call, self.identifier, full=True, wait_ms=0)
        pipeline = self.kernel.statistics_pipeline
        pipeline.drain(self.entry_id)
        with warnings.catch_warnings():
            # PySpark leaves the socket of each answer to the garbage collector
            warnings.simplefilter("ignore", ResourceWarning)
            ended = [worked.outcome for _, worked in groups.work_on_all(pipeline)]
        assert len(ended) > 1, ended
        pipeline.drain(self.entry_id)
        return groups

    def records(self) -> set[tuple[str, str]]:
        """Names and hashes of what is known of the snapshot, of files too."""
        listed = self.kernel.statistics.list
        kinds = (None, TargetKind.FILE)
        found = [each for kind in kinds for each in listed(self.call, self.identifier, kind=kind)[1].items]
        return {(target_storage_id(record.target), content_hash(record)) for record in found}

    def _find(self, entry_id: UUID) -> CatalogTable:
        assert entry_id == self.entry_id
        return CatalogTable(self.warehouse, self.identifier)


@pytest.mark.parametrize("version", [2, 3])
def test_rows_by_iceberg_give_the_numbers_of_one_process(
    here: Kernel, kernel: Kernel, lake: Lake, version: int
) -> None:
    name = f"t{version}"
    lake.sql(
        f"CREATE TABLE {{ns}}.{name} ({_COLUMNS}) USING iceberg TBLPROPERTIES ("
        f"'format-version' = '{version}', 'write.delete.mode' = 'merge-on-read',"
        f" 'floecat.statistics.expressions' = '{_EXPRESSIONS}',"
        " 'read.split.target-size' = '65536', 'read.split.open-file-cost' = '1')"
    )
    lake.sql(f"INSERT INTO {{ns}}.{name} SELECT {_ROWS} FROM range(0, 9000, 1, 3)")
    lake.sql(f"DELETE FROM {{ns}}.{name} WHERE id % 4 = 1")
    for change in ("RENAME COLUMN name TO title", "ALTER COLUMN id TYPE BIGINT", "DROP COLUMN raw"):
        lake.sql(f"ALTER TABLE {{ns}}.{name} {change}")
    lake.sql(f"ALTER TABLE {{ns}}.{name} ADD COLUMNS (raw DATE, place.y FLOAT)")
    lake.sql(
        f"INSERT INTO {{ns}}.{name} SELECT id, 'new', 1, -0.0D, NULL,"
        " named_struct('x', 1, 'tags', NULL, 'y', 0.5F), NULL, date'2026-01-01'"
        " FROM range(20000, 20100, 1, 1)"
    )
    lake.sql(f"DELETE FROM {{ns}}.{name} WHERE id = 20007")
    captures = Captures(kernel, lake, name)
    here.captures.capture(captures.call, captures.identifier, full=True, wait_ms=0)
    here.statistics_pipeline.drain(captures.entry_id)
    expected = captures.records()
    # the table, its columns but two nested ones of which a file tells nothing, and the expression
    assert len(expected) > 10
    groups = captures.run()
    assert not captures.warnings
    assert groups.by_catalog == groups.files == 4
    assert captures.records() == expected
    captures.warehouse = "missing"
    groups = captures.run()
    assert [name in warning for warning in captures.warnings] == [True]
    assert (groups.by_catalog, groups.files) == (0, 4)
    assert captures.records() == expected
