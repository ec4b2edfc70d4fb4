"""An engine for Delta tables that publishes what a test tells it to, without reading any log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from floecat.connectors.registrations import TableRegistration
from floecat.delta import delta_rows as delta_tables
from floecat.delta.refresh.delta_table import DeltaTableEntry
from floecat.entries.calls import Call
from floecat.errors import LeftToPipelineError
from floecat.runtime import Kernel
from floecat.store.database.engine import Connection
from floecat.store.entries import entry_changes, tables
from floecat.store.entries.documents import compress
from floecat.store.entries.tables import EntryRow

__all__ = ["SetEngine", "delta_log", "engine_of", "register"]


class SetEngine:
    """Publishes `version` when it is asked to, or raises `problem`."""

    def __init__(self, kernel: Kernel) -> None:
        self.version = 0
        self.problem: Exception | None = None
        self.is_due = True
        self.asked: list[DeltaTableEntry] = []
        self._store = kernel.store

    def due(self, row: EntryRow) -> bool:
        return self.is_due

    def refresh(self, table: DeltaTableEntry) -> bool:
        self.asked.append(table)
        if self.problem is not None:
            raise self.problem
        if table.row.metadata_location == self._location(table):
            return False
        self._store.run(lambda conn: self._publish(conn, table))
        return True

    def await_pipeline(self, table: DeltaTableEntry, refusal: LeftToPipelineError) -> bool:
        assert isinstance(self.problem, LeftToPipelineError)
        self.problem = None
        return self.refresh(table)

    def materialise(self, table: DeltaTableEntry, progress: Callable[[int, int], None]) -> bool:
        progress(1, 1)
        return self.refresh(table)

    def close(self) -> None:
        pass

    def _location(self, table: DeltaTableEntry) -> str:
        folder = table.row.metadata_location.rpartition("/")[0]
        return f"{folder}/{self.version}-compat-{self.version:016x}.metadata.json"

    def _publish(self, conn: Connection, table: DeltaTableEntry) -> None:
        row = tables.get(conn, table.row.id)
        assert row is not None
        document = json.dumps(self._document(table)).encode()
        assert entry_changes.swap(
            conn,
            row.id,
            row.version,
            metadata_location=self._location(table),
            document=compress(document),
            size_bytes=len(document),
            location=row.location,
            format_version=2,
            object_uuid=row.object_uuid,
            table_type=None,
            now_ms=1,
        )
        assert delta_tables.publish(
            conn,
            row.id,
            version=self.version,
            log_fingerprint=str(self.version),
            field_ids=b"{}",
            state=b"{}",
            generation=0,
            now_ms=1,
        )

    def _document(self, table: DeltaTableEntry) -> dict[str, Any]:
        snapshot = {
            "snapshot-id": self.version,
            "sequence-number": self.version + 1,
            "timestamp-ms": 1,
            "manifest-list": f"{table.row.location}/metadata/snap-{self.version}-compat.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        fields = [{"id": 1, "name": "n", "required": False, "type": "int"}]
        return {
            "format-version": 2,
            "table-uuid": table.row.object_uuid,
            "location": table.row.location,
            "last-sequence-number": self.version + 1,
            "last-updated-ms": 1,
            "last-column-id": 1,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
            "current-schema-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "last-partition-id": 999,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": {"gc.enabled": "false"},
            "current-snapshot-id": self.version,
            "refs": {"main": {"snapshot-id": self.version, "type": "branch"}},
            "snapshots": [snapshot],
        }


def engine_of(kernel: Kernel) -> SetEngine:
    """Puts such an engine into a kernel, in place of its own."""
    made = SetEngine(kernel)
    kernel.delta.format._engine = made
    return made


def delta_log(kernel: Kernel, name: str) -> str:
    """Makes the log of a Delta table in the warehouse, as far as a registration looks at it."""
    location = f"{kernel.settings.warehouse_location}/{name}"
    log = Path(location.removeprefix("file://")) / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / "00000000000000000000.json").write_text("{}")
    return location


def register(kernel: Kernel, call: Call, name: str, **options: Any) -> TableRegistration:
    """Registers a Delta table in `ns`."""
    location = delta_log(kernel, f"delta/{name}")
    return kernel.delta.registration.register(call, ("ns",), name, location, **options)
