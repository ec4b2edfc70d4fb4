"""Follows the commit log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dagster as dg

from floecat.errors import UnavailableError
from floecat.events.catalog_events import CatalogEvent, EventBatch
from floecat.events.commit_cursor import CommitCursor
from floecat_assets.defs.catalog.asset_events import CommitKey, asset_event, commit_key
from floecat_assets.defs.catalog.assets import tables
from floecat_assets.defs.partitions import TABLES
from floecat_assets.defs.resources import KernelResource

__all__ = ["COMMITS_PER_TICK", "commit_sensor"]

COMMITS_PER_TICK = 200
"""Keeps a tick well within Dagster's limit of a minute, even if each commit has a metadata file to read."""

_NEWEST = 5
_PARTITIONS = TABLES.name or ""
_AHEAD_OF_LOG = (
    "the cursor is ahead of the commit log of catalog %s, as after the restore of a backup: "
    "wipe the events of the asset and reset the cursor to report its commits again"
)


@dg.sensor(minimum_interval_seconds=5, default_status=dg.DefaultSensorStatus.RUNNING)
def commit_sensor(
    context: dg.SensorEvaluationContext, kernel: KernelResource
) -> dg.SensorResult | dg.SkipReason:
    """Reports each commit of a table as an event of `catalog/tables`, in the order of the commit log.

    The cursor is the position in the log, `{"version": 1, "catalogs": {<catalog id>: <commit version>}}`. It
    moves only past commits that were reported. To report everything again, wipe the events of the asset and
    reset the cursor.
    """
    cursor = CommitCursor.parse(context.cursor)
    try:
        log = kernel.events()
        batch = log.after(cursor, limit=COMMITS_PER_TICK)
        reported = _reported(context.instance, cursor) if batch.events else cursor
        if reported != cursor:
            stored = log.after(cursor, limit=COMMITS_PER_TICK, until=reported)
            if stored.events:  # none if the events are of dropped catalogs
                return _catch_up(cursor, stored)
    except UnavailableError as error:
        return dg.SkipReason(f"Nothing was read, the cursor stays: {error.message}")
    for name in batch.ahead_of_log:
        context.log.warning(_AHEAD_OF_LOG, name)
    return _report(context.instance, cursor, batch)


def _report(
    instance: dg.DagsterInstance, cursor: CommitCursor, batch: EventBatch
) -> dg.SensorResult | dg.SkipReason:
    if not batch.events:
        return dg.SkipReason(_summary((), (), batch))
    passed, new_tables = _passable(instance, batch.events)
    events = [event for event in passed if event.kind == "table"]
    return dg.SensorResult(
        asset_events=[asset_event(event) for event in events],
        dynamic_partitions_requests=_partition_requests(passed, new_tables),
        cursor=_advanced(cursor, passed).to_text(),
        skip_reason=_summary(events, new_tables, batch, waiting=len(passed) < len(batch.events)),
    )


def _catch_up(cursor: CommitCursor, batch: EventBatch) -> dg.SensorResult:
    """Moves the cursor past commits whose events are stored, and does what that tick did not finish."""
    return dg.SensorResult(
        dynamic_partitions_requests=_partition_requests(batch.events, ()),
        cursor=_advanced(cursor, batch.events).to_text(),
        skip_reason=f"An earlier tick was cut short; {len(batch.events)} commits were reported by it",
    )


def _reported(instance: dg.DagsterInstance, cursor: CommitCursor) -> CommitCursor:
    """The cursor, or where the events of the asset end if that is further on.

    Dagster stores the events of a tick one by one, and its cursor last. After a crash between the two the
    events beyond the cursor are the newest of all, no more than one tick makes.
    """
    for count in (_NEWEST, COMMITS_PER_TICK):
        reported = cursor
        for catalog_id, version in _newest_commits(instance, count):
            if version > reported.position(catalog_id):
                reported = reported.advanced([(catalog_id, version)])
        if reported == cursor:
            break
    return reported


def _newest_commits(instance: dg.DagsterInstance, count: int) -> Iterator[CommitKey]:
    materializations = instance.fetch_materializations(tables.key, limit=count).records
    observations = instance.fetch_observations(tables.key, limit=count).records
    for record in (*materializations, *observations):
        event = record.asset_materialization or record.asset_observation
        key = commit_key(event.metadata) if event else None
        if key is not None:
            yield key


def _passable(
    instance: dg.DagsterInstance, events: Sequence[CatalogEvent]
) -> tuple[list[CatalogEvent], list[str]]:
    """The events whose partition exists, and the keys of partitions that are missing.

    Dagster stores the events of a tick before it makes the partitions that the tick asks for, and an
    automation that looks between the two sees events of no partition. So a partition is asked for one tick
    before its first event, and its catalog waits there.
    """
    keys = dict.fromkeys(str(event.entry_id) for event in events if event.kind == "table")
    missing = [key for key in keys if not instance.has_dynamic_partition(_PARTITIONS, key)]
    waiting = set()
    passed = []
    for event in events:
        if str(event.entry_id) in missing:
            waiting.add(event.catalog_id)
        if event.catalog_id not in waiting:
            passed.append(event)
    return passed, missing


def _advanced(cursor: CommitCursor, events: Sequence[CatalogEvent]) -> CommitCursor:
    return cursor.advanced((event.catalog_id, event.commit_version) for event in events)


def _partition_requests(
    passed: Sequence[CatalogEvent], new_tables: Sequence[str]
) -> list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest]:
    requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    removed = {str(event.entry_id) for event in passed if event.kind == "table" and event.removed}
    if removed:
        requests.append(TABLES.build_delete_request(sorted(removed)))
    if new_tables:
        requests.append(TABLES.build_add_request(list(new_tables)))
    return requests


def _summary(
    events: Sequence[CatalogEvent], new_tables: Sequence[str], batch: EventBatch, *, waiting: bool = False
) -> str:
    """What the list of ticks shows: Dagster calls a tick that starts no run skipped, whatever it reported."""
    table_count = len({event.entry_id for event in events})
    parts = [f"Reported {len(events)} commits of {table_count} tables" if events else "No commits to report"]
    if new_tables:
        parts.append(f"asked for the partitions of {len(new_tables)} new tables")
    if batch.more or waiting:
        parts.append("the next tick continues")
    parts.extend(_AHEAD_OF_LOG % name for name in batch.ahead_of_log)
    return "; ".join(parts)
