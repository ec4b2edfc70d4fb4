from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import msgspec
import pyarrow as pa
import pytest

from floecat.auth.principals import Principal
from floecat.commits.commit import CreateTable
from floecat.commits.table_changes import TableChange
from floecat.commits.view_commits import CreateView
from floecat.connectors.connector_info import NewConnector
from floecat.entries.calls import Call, PageRequest
from floecat.iceberg.updates import TableUpdate
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, open_kernel
from floecat.settings import load_settings
from floecat.store.database.engine import Store
from floecat.store.entries import snapshots, tables
from floecat.store.entries.tables import EntryRow
from floecat_assets.defs.catalog.asset_events import AssetEvent
from floecat_assets.defs.catalog.sensors import commit_sensor
from floecat_assets.defs.resources import KernelResource
from floecat_assets.table_keys import partition_key
from tests.clients.delta.writer import DeltaWriter
from tests.services.spark import spark

__all__ = ["spark"]

TABLES = dg.AssetKey(["catalog", "tables"])
HERE = Path(__file__).parent

DAGSTERS_OWN = ("ignore:The `__fields__` attribute is deprecated:pydantic.PydanticDeprecatedSince20",)
"""Warnings of what Dagster does inside, by name."""

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "identifier-field-ids": [1],
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True, "doc": "row key"},
        {"id": 2, "name": "price", "type": "decimal(9, 2)", "required": False},
        {
            "id": 3,
            "name": "tags",
            "type": {"type": "list", "element-id": 4, "element": "string", "element-required": False},
            "required": False,
        },
    ],
}


DELTA_SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lets Dagster use what it deprecates itself; every other warning stays an error."""
    for item in items:
        if HERE in item.path.parents:
            for line in DAGSTERS_OWN:
                item.add_marker(pytest.mark.filterwarnings(line))


class Lakehouse:
    """Commits to catalogs as clients do, through the kernel."""

    def __init__(self, kernel: Kernel, warehouse: Path) -> None:
        self.kernel = kernel
        self._warehouse = warehouse
        self._account = kernel.settings.gateway.default_account_id

    def call(self, catalog: str = "floecat", by: str = "ada") -> Call:
        location = (self._warehouse / catalog).as_uri()
        self.kernel.catalog.catalogs.ensure(self._account, catalog, location)
        return self.kernel.catalog.calls.open(Principal(name=by, account_id=self._account), catalog)

    def create(
        self, name: str, catalog: str = "floecat", namespace: str = "sales", **properties: str
    ) -> TableIdentifier:
        call = self.call(catalog)
        if (namespace,) not in self.kernel.catalog.namespaces.list(call, None, PageRequest()).items:
            self.kernel.catalog.namespaces.create(call, (namespace,), {})
        request = CreateTable(name=name, schema=_raw(SCHEMA), properties=properties)
        self.kernel.commits.tables.create_table(call, (namespace,), request)
        return TableIdentifier((namespace,), name)

    def create_view(self, name: str, namespace: str = "sales", sql: str = "select 1 as id") -> None:
        version = {
            "version-id": 1,
            "timestamp-ms": 1,
            "schema-id": 0,
            "summary": {},
            "default-namespace": [namespace],
            "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
        }
        request = CreateView(name, _raw(SCHEMA), _raw(version), {})
        self.kernel.commits.views.create(self.call(), (namespace,), request)

    def append(
        self, table: TableIdentifier, total_records: str | None, catalog: str = "floecat", **summary: str
    ) -> int:
        """Adds a snapshot that says how many rows the table has; returns its id."""
        call = self.call(catalog)
        document = msgspec.json.decode(self.kernel.catalog.tables.load(call, table).metadata)
        snapshot_id = uuid.uuid4().int >> 66
        summary = {"operation": "append"} | {name.replace("_", "-"): text for name, text in summary.items()}
        if total_records is not None:
            summary["total-records"] = total_records
        snapshot = {
            "snapshot-id": snapshot_id,
            "sequence-number": document["last-sequence-number"] + 1,
            "timestamp-ms": document["last-updated-ms"] + 1,
            "manifest-list": f"{document['location']}/metadata/snap-{snapshot_id}.avro",
            "schema-id": document["current-schema-id"],
            "summary": summary,
        }
        if document.get("current-snapshot-id", -1) != -1:
            snapshot["parent-snapshot-id"] = document["current-snapshot-id"]
        main = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
        self.commit(
            table,
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", **main},
            catalog=catalog,
        )
        return snapshot_id

    def commit(
        self, table: TableIdentifier, *updates: dict[str, Any], catalog: str = "floecat", by: str = "ada"
    ) -> None:
        decoded = msgspec.json.decode(msgspec.json.encode(updates), type=list[TableUpdate])
        self.kernel.commits.tables.commit(self.call(catalog, by), TableChange(table, [], decoded))

    def delta(self, name: str) -> DeltaWriter:
        """A Delta table in storage, of which the catalog does not know."""
        folder = self._warehouse / "floecat" / "delta" / name
        writer = DeltaWriter(folder, DELTA_SCHEMA, partitions=["part"])
        writer.append(delta_rows(0, 20))
        return writer

    def register_delta(
        self, writer: DeltaWriter, *, namespace: str = "lake", read: bool = True
    ) -> TableIdentifier:
        call = self.call()
        if (namespace,) not in self.kernel.catalog.namespaces.list(call, None, PageRequest()).items:
            self.kernel.catalog.namespaces.create(call, (namespace,), {})
        location = writer.folder.as_uri()
        self.kernel.delta.registration.register(call, (namespace,), writer.folder.name, location, read=read)
        return TableIdentifier((namespace,), writer.folder.name)

    def connect(self, name: str, folder: str) -> None:
        """A connector that looks below a folder of the warehouse, and puts what it finds into `landed`."""
        location = (self._warehouse / "floecat" / folder).as_uri()
        self.kernel.connectors.connectors.create(
            self.call(), NewConnector(name, "delta", location, ("landed",))
        )

    def row(self, table: TableIdentifier) -> EntryRow:
        with self.kernel.store.read() as conn:
            row = tables.find(conn, self.call().catalog.id, table)
        assert row is not None
        return row

    def versions(self, table: TableIdentifier) -> list[int]:
        """Ids of the snapshots of a table, as its entry has them; nothing is brought up to date."""
        with self.kernel.store.read() as conn:
            return [row.snapshot_id for row in snapshots.list_all(conn, uuid.UUID(self.entry_id(table)))]

    def entry_id(self, table: TableIdentifier, catalog: str = "floecat") -> str:
        with self.kernel.store.read() as conn:
            row = tables.find(conn, self.call(catalog).catalog.id, table)
        assert row is not None
        return str(row.id)

    def partition(self, table: TableIdentifier, catalog: str = "floecat") -> str:
        """The key of a table in partitioned assets."""
        return partition_key(catalog, table, uuid.UUID(self.entry_id(table, catalog)))

    def metadata_file(self, table: TableIdentifier, catalog: str = "floecat") -> Path:
        location = self.kernel.catalog.tables.load(self.call(catalog), table).metadata_location
        assert location is not None
        return Path(location.removeprefix("file://"))


def delta_rows(start: int, stop: int) -> pa.Table:
    """Rows of a Delta table in two partitions."""
    return pa.table(
        {"id": range(start, stop), "part": [f"p{number % 2}" for number in range(start, stop)]},
        schema=DELTA_SCHEMA,
    )


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


class Follower:
    """Evaluates the commit sensor and stores what it says as the daemon does: events, partitions, cursor."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.cursor: str | None = None
        self.own: list[AssetEvent] = []

    def evaluate(self) -> dg.SensorResult | dg.SkipReason:
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"kernel": KernelResource()}
        ) as context:
            result = commit_sensor(context)
        assert isinstance(result, dg.SensorResult | dg.SkipReason)
        return result

    def tick(self) -> list[AssetEvent]:
        """Returns the events of `catalog/tables`; those of the tables' own assets are added to `own`."""
        result = self.evaluate()
        if isinstance(result, dg.SkipReason):
            return []
        self.store_events(result)
        self.store_partitions(result)
        self.cursor = result.cursor
        events = self.events_of(result)
        self.own += [event for event in events if event.asset_key != TABLES]
        return [event for event in events if event.asset_key == TABLES]

    def ticks(self, count: int) -> list[AssetEvent]:
        return [event for _ in range(count) for event in self.tick()]

    def own_ticks(self, count: int) -> list[AssetEvent]:
        """The events of the tables' own assets."""
        before = len(self.own)
        self.ticks(count)
        return self.own[before:]

    def store_events(self, result: dg.SensorResult) -> None:
        for event in result.asset_events:
            self.instance.report_runless_asset_event(event)

    def store_partitions(self, result: dg.SensorResult) -> None:
        for request in result.dynamic_partitions_requests or ():
            if isinstance(request, dg.AddDynamicPartitionsRequest):
                self.instance.add_dynamic_partitions(
                    request.partitions_def_name, list(request.partition_keys)
                )
                continue
            for key in request.partition_keys:
                self.instance.delete_dynamic_partition(request.partitions_def_name, key)

    @staticmethod
    def events_of(result: dg.SensorResult) -> list[AssetEvent]:
        events = []
        for event in result.asset_events:
            assert isinstance(event, dg.AssetMaterialization | dg.AssetObservation)
            events.append(event)
        return events


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder that the settings of this process name."""
    monkeypatch.setenv("FLOECAT_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("FLOECAT_STORAGE_FSYNC", "false")
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def lakehouse(data_dir: Path) -> Iterator[Lakehouse]:
    settings = load_settings()
    store = Store.open(settings.store_url)
    store.upgrade()
    store.close()
    kernel = open_kernel(settings)
    yield Lakehouse(kernel, data_dir / "warehouse")
    kernel.close()


@pytest.fixture
def follower() -> Iterator[Follower]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Follower(instance)
