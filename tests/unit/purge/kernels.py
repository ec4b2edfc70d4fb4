"""A kernel with tables whose files the test wrote, to be dropped and purged."""

from __future__ import annotations

from pathlib import Path

from floecat.auth.principals import Principal
from floecat.entries.calls import Call
from floecat.events.table_events import TableEvent
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import PurgeSettings, Settings, StatisticsSettings, StorageSettings
from floecat.store.jobs.jobs import JobRow
from tests.clocks import SetClock
from tests.job_rows import job_rows
from tests.unit.purge.table_files import TableFiles

__all__ = ["NAME", "PurgeBench"]

NAME = TableIdentifier(("ns",), "t")


class PurgeBench:
    """A kernel on a store of its own."""

    def __init__(self, tmp_path: Path, purge: PurgeSettings) -> None:
        self.settings = Settings(
            data_dir=str(tmp_path / "data"),
            storage=StorageSettings(fsync=False),
            purge=purge,
            statistics=StatisticsSettings(workers=0),
        )
        prepare_store(self.settings)
        self.clock = SetClock(1_700_000_000_000)
        self.kernel = self.open_kernel(self.settings)
        self.events: list[TableEvent] = []
        self.kernel.listeners.add(self.events.append)
        gateway = self.settings.gateway
        principal = Principal("anna", gateway.default_account_id)
        self.call: Call = self.kernel.catalog.calls.open(principal, gateway.default_prefix)
        self.kernel.catalog.namespaces.create(self.call, NAME.namespace, {})

    def open_kernel(self, settings: Settings) -> Kernel:
        return open_kernel(settings, clock=self.clock)

    def new_table(self, name: str) -> TableFiles:
        table = TableFiles(self.kernel.files, f"{self.settings.warehouse_location}/ns/{name}")
        table.append(count=3)
        table.commit()
        self.register(table, name)
        return table

    def register(self, table: TableFiles, name: str) -> None:
        self.kernel.commits.registration.register_table(
            self.call, NAME.namespace, name, table.metadata_location
        )

    def drop(self, name: TableIdentifier) -> None:
        self.kernel.purge.drops.drop(self.call, name, purge=True, request_id="r1")

    def job(self) -> JobRow:
        (row,) = job_rows(self.kernel, self.call)
        return row
