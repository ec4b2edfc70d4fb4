"""Follows the commit log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

import dagster as dg

from floecat.errors import UnavailableError
from floecat.events.catalog_events import CatalogEvent, EventBatch
from floecat.events.commit_cursor import CommitCursor
from floecat_assets.defs.catalog.asset_events import AssetEvent, CommitKey, commit_events, commit_key
from floecat_assets.defs.catalog.assets import tables
from floecat_assets.defs.catalog.moved_partitions import moved_statuses
from floecat_assets.defs.partitions import PARTITIONS, TABLES, has_table, keys_by_table
from floecat_assets.defs.resources import KernelResource
from floecat_assets.table_keys import partition_key, table_id
from floecat_assets.table_links import TableLinks

__all__ = ["COMMITS_PER_TICK", "commit_sensor"]

COMMITS_PER_TICK = 200
"""Keeps a tick well within Dagster's limit of a minute, even if each commit has a metadata file to read."""

_NEWEST = 5
_AHEAD_OF_LOG = (
    "the cursor is ahead of the commit log of catalog %s, as after the restore of a backup: "
    "wipe the events of the asset and reset the cursor to report its commits again"
)


@dg.sensor(
    # Dagster looks every 5 s which sensors are due; with 5 s here it would leave out every second look
    minimum_interval_seconds=2,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Reports each commit to the asset of its table and to catalog/tables, within seconds, in the order of"
        " the commit log. It starts no runs, so Dagster lists its ticks as skipped; each tick says what it"
        " reported."
    ),
)
def commit_sensor(
    context: dg.SensorEvaluationContext, kernel: KernelResource
) -> dg.SensorResult | dg.SkipReason:
    """Reports each commit of a table as an event, in the order of the commit log.

    The cursor is the position in the log, `{"version": 1, "catalogs": {<catalog id>: <commit version>}}`. It
    moves only past commits that were reported. To report everything again, wipe the events of
    `catalog/tables` and reset the cursor.
    """
    cursor = CommitCursor.parse(context.cursor)
    try:
        opened = kernel.open()
        log = opened.events.commits
        batch = log.after(cursor, limit=COMMITS_PER_TICK)
        reported = _reported(context.instance, cursor) if batch.events else cursor
        if reported != cursor:
            stored = log.after(cursor, limit=COMMITS_PER_TICK, until=reported)
            if stored.events:  # none if the events are of dropped catalogs
                return _catch_up(context.instance, cursor, stored)
    except UnavailableError as error:
        return dg.SkipReason(f"Nothing was read, the cursor stays: {error.message}")
    for name in batch.ahead_of_log:
        context.log.warning(_AHEAD_OF_LOG, name)
    links = TableLinks(opened.settings.pipeline.catalog_url, opened.separator)
    return _report(context.instance, cursor, batch, links)


def _report(
    instance: dg.DagsterInstance, cursor: CommitCursor, batch: EventBatch, links: TableLinks
) -> dg.SensorResult | dg.SkipReason:
    if not batch.events:
        return dg.SkipReason(_summary(batch))
    events = [asset_event for event in batch.events for asset_event in commit_events(event, links)]
    return _result(instance, cursor, batch, events, _summary(batch))


def _catch_up(instance: dg.DagsterInstance, cursor: CommitCursor, batch: EventBatch) -> dg.SensorResult:
    """Moves the cursor past commits whose events are stored, and does what that tick did not finish."""
    message = f"An earlier tick was cut short; {len(batch.events)} commits were reported by it"
    return _result(instance, cursor, batch, [], message)


def _result(
    instance: dg.DagsterInstance,
    cursor: CommitCursor,
    batch: EventBatch,
    asset_events: Sequence[AssetEvent],
    message: str,
) -> dg.SensorResult:
    requests, moves = _partition_changes(instance, batch.events)
    return dg.SensorResult(
        asset_events=[*moved_statuses(instance, moves), *asset_events],
        dynamic_partitions_requests=requests,
        cursor=cursor.advanced((event.catalog_id, event.commit_version) for event in batch.events).to_text(),
        skip_reason=message,
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


def _partition_changes(
    instance: dg.DagsterInstance, events: Sequence[CatalogEvent]
) -> tuple[list[dg.DeleteDynamicPartitionsRequest], Mapping[str, str]]:
    """Adds the partitions that the events are of; returns what is to be deleted after them, and new keys.

    Dagster stores the events of a tick before it makes the partitions that the tick asks for, and an
    automation that looks between the two sees events of no partition. So the tick makes them itself.
    """
    of_tables = [event for event in events if event.kind == "table"]
    stale = {
        partitions: _follow(
            instance,
            partitions,
            of_tables,
            [each for each in of_tables if has_table(partitions, each.format)],
        )
        for partitions in PARTITIONS
    }
    # the last event of a table counts
    current = {event.entry_id: None if event.removed else _key(event) for event in of_tables}
    moves = {old: new for old in stale[TABLES] if (entry_id := table_id(old)) and (new := current[entry_id])}
    return [partitions.build_delete_request(keys) for partitions, keys in stale.items() if keys], moves


def _follow(
    instance: dg.DagsterInstance,
    partitions: dg.DynamicPartitionsDefinition,
    events: Sequence[CatalogEvent],
    members: Sequence[CatalogEvent],
) -> list[str]:
    """Adds the keys of `members`, and returns the keys that the tables of `events` have no longer."""
    existing = keys_by_table(instance, partitions)
    found = {event.entry_id: set(existing.get(event.entry_id, ())) for event in events}
    added = dict.fromkeys(_key(event) for event in members if _key(event) not in found[event.entry_id])
    if added:
        instance.add_dynamic_partitions(partitions.name or "", list(added))
    for event in members:
        found[event.entry_id].add(_key(event))
    stale: dict[UUID, set[str]] = {}
    for event in events:  # the last one of a table counts
        current = None if event.removed else _key(event)
        stale[event.entry_id] = found[event.entry_id] - {current}
    return sorted(key for keys in stale.values() for key in keys)


def _key(event: CatalogEvent) -> str:
    return partition_key(event.catalog_name, event.identifier, event.entry_id)


def _summary(batch: EventBatch) -> str:
    """A summary for the list of ticks: Dagster calls a tick without runs skipped, whatever it reported."""
    events = batch.events
    count = len({event.entry_id for event in events})
    parts = [
        f"Reported {len(events)} commits of {count} tables and views" if events else "No commits to report"
    ]
    if batch.more:
        parts.append("the next tick continues")
    parts.extend(_AHEAD_OF_LOG % name for name in batch.ahead_of_log)
    return "; ".join(parts)
