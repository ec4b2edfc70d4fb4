"""What many tables cost Dagster: assets of their own, partitions, the ticks of sensors, events."""

from __future__ import annotations

import os
import resource
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from uuid import UUID

import dagster as dg
import msgspec
import uuid_utils.compat as uuids

from benchmarks.figures import figure, percentile
from floecat.auth.principals import Principal
from floecat.commits.commit import CreateTable
from floecat.events.commit_cursor import CommitCursor
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import kernel, prepare_store
from floecat.settings import load_settings
from floecat.store.commits import commit_log
from floecat.store.database.engine import Connection
from floecat.store.entries import entry_changes, tables
from floecat_assets.defs.catalog.sensors import COMMITS_PER_TICK, commit_sensor
from floecat_assets.defs.catalog.table_names import table_names_sensor
from floecat_assets.defs.resources import KernelResource
from floecat_assets.tables.definitions import load_specs

T = TypeVar("T")

_INSTANCE = Path(__file__).parents[1] / "dagster.yaml"
_AT_ONCE = 1_000
_TICKS = 2
_SCHEMA = {
    "type": "struct",
    "fields": [{"id": n, "name": f"c{n}", "type": "string", "required": False} for n in range(1, 21)],
}


def main(arguments: Sequence[str] = ()) -> None:
    """Prints the figures."""
    options = ArgumentParser()
    options.add_argument("--tables", type=int, default=10_000)
    count: int = options.parse_args(arguments).tables
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        os.environ |= {
            "FLOECAT_DATA_DIR": f"{made}/data",
            "FLOECAT_STORAGE_FSYNC": "false",
            "FLOECAT_PIPELINE_TABLE_ASSETS": str(count),
            "DAGSTER_HOME": f"{made}/dagster",
        }
        Path(made, "dagster").mkdir()
        Path(made, "dagster", "dagster.yaml").write_text(_INSTANCE.read_text())
        catalog_id = _make_tables(count)
        _measure_specs(count)
        with dg.DagsterInstance.get() as instance:
            _measure_ticks(instance, count, catalog_id)


def _make_tables(count: int) -> UUID:
    """Creates a table, and writes copies of it into the store: what is measured is Dagster's work."""
    settings = load_settings()
    prepare_store(settings)
    with kernel(settings) as opened:
        principal = Principal(name="bench", account_id=settings.gateway.default_account_id)
        call = opened.catalog.calls.open(principal, "floecat")
        opened.catalog.namespaces.create(call, ("bench",), {})
        request = CreateTable(name="table_0", schema=msgspec.Raw(msgspec.json.encode(_SCHEMA)))
        opened.commits.tables.create_table(call, ("bench",), request)
        catalog_id = call.catalog.id
        with opened.store.read() as conn:
            model = tables.load(conn, catalog_id, TableIdentifier(("bench",), "table_0"), None)
        assert model is not None
        for start in range(1, count, _AT_ONCE):
            with opened.store.write() as conn:
                copies = [
                    _insert(conn, model, number) for number in range(start, min(start + _AT_ONCE, count))
                ]
                commit_log.append(conn, catalog_id, copies, opened.clock.now_ms())
        return catalog_id


def _insert(conn: Connection, model: tables.EntryRow, number: int) -> commit_log.CommitLogEntry:
    name, location = f"table_{number}", f"{model.location}-{number}/metadata/0.metadata.json"
    row = msgspec.structs.replace(model, id=uuids.uuid7(), name=name, metadata_location=location)
    assert model.document is not None
    entry_changes.insert(conn, row, model.document, model.size_bytes or 0)
    written = (None, location, None, "bench")
    return commit_log.CommitLogEntry(row.id, "table", "create", ("bench",), name, *written)


def _measure_specs(count: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, specs = _timed(load_specs)
    assert len(specs) == count
    figure(f"table-assets.{count}.load-specs", seconds, "s")
    seconds, _ = _timed(lambda: dg.Definitions(assets=specs).get_repository_def())
    figure(f"table-assets.{count}.build-definitions", seconds, "s")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    figure(f"table-assets.{count}.memory", grown / 1024, "MB")


def _measure_ticks(instance: dg.DagsterInstance, count: int, catalog_id: UUID) -> None:
    seconds, names = _timed(lambda: _tick(instance, table_names_sensor, None))
    figure(f"table-assets.{count}.names-tick.first", seconds, "s")
    seconds, _ = _timed(lambda: [_store(instance, names)])
    figure(f"table-assets.{count}.store-partitions", seconds, "s")
    seconds, _ = _timed(lambda: _tick(instance, table_names_sensor, names.cursor))
    figure(f"table-assets.{count}.names-tick", seconds, "s", target=5.0)
    cursor = CommitCursor({catalog_id: count - _TICKS * COMMITS_PER_TICK}).to_text()
    events: list[float] = []
    processor_s = 0.0
    for _ in range(_TICKS):
        seconds, result = _timed(lambda at=cursor: _tick(instance, commit_sensor, at))
        figure(f"table-assets.{count}.commit-tick-of-{COMMITS_PER_TICK}", seconds, "s", target=10.0)
        before = time.process_time()
        events += _store(instance, result)
        processor_s += time.process_time() - before
        cursor = result.cursor or ""
    # each commit is two events
    figure(f"table-assets.{count}.report-event.processor-time", processor_s / len(events) * 1000, "ms")
    figure(f"table-assets.{count}.report-event.p50", percentile(events, 0.5) * 1000, "ms")
    figure(f"table-assets.{count}.report-event.p95", percentile(events, 0.95) * 1000, "ms")


def _tick(instance: dg.DagsterInstance, sensor: dg.SensorDefinition, cursor: str | None) -> dg.SensorResult:
    with dg.build_sensor_context(
        instance=instance, cursor=cursor, resources={"kernel": KernelResource()}
    ) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    return result


def _store(instance: dg.DagsterInstance, result: dg.SensorResult) -> list[float]:
    """Does what the daemon does; returns how long each event took, in seconds."""
    for request in result.dynamic_partitions_requests or ():
        if isinstance(request, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
    return [
        _timed(lambda event=event: instance.report_runless_asset_event(event))[0]
        for event in result.asset_events
    ]


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


if __name__ == "__main__":
    main(sys.argv[1:])
