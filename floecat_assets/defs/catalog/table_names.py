"""Keeps what Dagster calls tables in step with the names that they have in their catalogs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any
from uuid import UUID

import dagster as dg
import msgspec

from floecat.errors import UnavailableError
from floecat.events.live_entries import LiveEntry
from floecat.settings import PipelineSettings
from floecat_assets.defs.catalog.asset_events import ended_before
from floecat_assets.defs.catalog.assets import tables
from floecat_assets.defs.catalog.moved_partitions import moved_statuses
from floecat_assets.defs.partitions import PARTITIONS, TABLES, has_table
from floecat_assets.defs.resources import KernelResource
from floecat_assets.table_keys import partition_key, table_asset_key, table_id
from floecat_assets.tables.specs import defined_as

__all__ = ["MOVES_PER_TICK", "WIPES_PER_TICK", "table_names_sensor"]

MOVES_PER_TICK = 100
"""Most tables whose statuses get the new key of their partition in a tick: up to five events each."""

WIPES_PER_TICK = 200
"""Most assets of tables that are gone which a tick looks at, at 5 ms each, or deletes, at 50 ms each."""

_HOUR_MS = 3_600_000
_LOCATION = "tables"
_TIMEOUT_S = 40
_MOST_BYTES = 16 << 20
"""Bytes of an answer of the web server: a group for each namespace, or an error."""
_RELOAD = """mutation { answer: reloadRepositoryLocation(repositoryLocationName: "tables") {
  __typename ... on WorkspaceLocationEntry { locationOrLoadError { ... on PythonError { message } } }
  ... on PythonError { message } } }"""
_GROUPS = """{ answer: repositoryOrError(
  repositorySelector: {repositoryName: "__repository__", repositoryLocationName: "tables"}
) { __typename ... on Repository { assetGroups { groupName } } } }"""


class _Cursor(msgspec.Struct, omit_defaults=True):
    defined: str = ""
    """Digest of what assets were last defined from."""
    defined_at_ms: int = 0
    seen: str = ""
    """Digest of what the last tick saw: definitions wait until names rest, as a client may create many."""
    wiped_at_ms: int = 0
    """Time of the last look at all assets of tables that are gone."""
    wiped_to: str = ""
    """The last one looked at, if not all were."""


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Keeps what Dagster calls tables in step with the catalogs: makes and deletes partitions, has the"
        " code location `tables` loaded again when names changed, and deletes the events of tables that were"
        " dropped or renamed a while ago. It starts no runs."
    ),
)
def table_names_sensor(
    context: dg.SensorEvaluationContext, kernel: KernelResource
) -> dg.SensorResult | dg.SkipReason:
    """Compares partitions, assets and definitions with the tables that the store has."""
    instance = context.instance
    # before the store is read: a partition that was added meanwhile is not taken for that of a dropped table
    existing = {each: instance.get_dynamic_partitions(each.name or "") for each in PARTITIONS}
    try:
        opened = kernel.open()
        entries = list(opened.events.live_entries)
        now_ms = kernel.now_ms()
    except UnavailableError as error:
        return dg.SkipReason(f"Nothing was checked: {error.message}")
    settings = opened.settings.pipeline
    cursor = _parse(context.cursor)
    of_tables = [entry for entry in entries if entry.kind == "table"]
    moves, left = _moves(existing[TABLES], of_tables)
    requests = [
        request
        for partitions, keys in existing.items()
        for request in _partition_changes(
            partitions,
            [key for key in keys if key not in left],
            [entry for entry in of_tables if has_table(partitions, entry.format)],
        )
    ]
    notes = [f"{len(of_tables)} tables, {len(entries) - len(of_tables)} views"]
    events: list[dg.AssetMaterialization | dg.AssetObservation] = list(moved_statuses(instance, moves))
    note = _define_again(cursor, _digest(islice(entries, settings.table_assets)), now_ms, settings)
    if note is not None:
        notes.append(note)
    if cursor.defined_at_ms == now_ms:
        events.append(_counts(entries))
    if now_ms - cursor.wiped_at_ms >= _HOUR_MS:
        wiped = _wipe(instance, entries, cursor, now_ms, settings.dropped_table_grace.ms)
        notes.append(f"deleted the events of {wiped} tables that are gone")
    return dg.SensorResult(
        asset_events=events,
        dynamic_partitions_requests=requests,
        cursor=msgspec.json.encode(cursor).decode(),
        skip_reason="; ".join(notes),
    )


def _moves(existing: Sequence[str], entries: Sequence[LiveEntry]) -> tuple[Mapping[str, str], frozenset[str]]:
    """The new keys of some partitions with former ones, and the other former ones, which wait for a tick."""
    wanted = {entry.entry_id: _key(entry) for entry in entries}
    former = {
        key: wanted[entry_id]
        for key in existing
        if (entry_id := _id_of(key)) is not None and wanted.get(entry_id, key) != key
    }
    moves = dict(islice(former.items(), MOVES_PER_TICK))
    return moves, frozenset(former) - moves.keys()


def _partition_changes(
    partitions: dg.DynamicPartitionsDefinition,
    existing: Sequence[str],
    entries: Sequence[LiveEntry],
) -> Iterator[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest]:
    wanted = {_key(entry) for entry in entries}
    missing = wanted.difference(existing)
    if missing:
        yield partitions.build_add_request(sorted(missing))
    stale = [key for key in existing if key not in wanted and _id_of(key) is not None]
    if stale:
        yield partitions.build_delete_request(stale)


def _key(entry: LiveEntry) -> str:
    return partition_key(entry.catalog_name, entry.identifier, entry.entry_id)


def _id_of(key: str) -> UUID | None:
    """The table that a partition is, by the keys of earlier releases, too: they ended with the id."""
    text = key.rpartition("~")[2]
    try:
        return table_id(key) or (UUID(text) if str(UUID(text)) == text else None)
    except ValueError:
        return None


def _digest(entries: Iterable[LiveEntry]) -> str:
    defined = [defined_as(entry) for entry in entries]
    return blake2b(json.dumps(defined).encode(), digest_size=16).hexdigest() if defined else ""


def _define_again(cursor: _Cursor, now: str, now_ms: int, settings: PipelineSettings) -> str | None:
    """Has assets defined again when names changed and rest, and the interval is over; returns what it did."""
    rested, cursor.seen = now == cursor.seen, now
    interval_ms, url = settings.reload_interval.ms, settings.webserver_url
    if not cursor.defined_at_ms:
        cursor.defined_at_ms = now_ms - interval_ms
    waited_ms = now_ms - cursor.defined_at_ms
    if waited_ms < interval_ms or not (rested or waited_ms >= 2 * interval_ms):
        return None
    if now == cursor.defined and not (now and url and _has_none(url)):
        return None
    if url is None:
        cursor.defined = now
        return f"names changed: reload the code location {_LOCATION}, or set floecat.pipeline.webserver-url"
    try:
        problem = _reload(url)
    except ConnectionError:
        return f"names changed; the web server at {url} is not up"  # the next tick tries again
    cursor.defined_at_ms = now_ms
    if problem is not None:
        return f"names changed; the code location {_LOCATION} was not loaded again: {problem}"
    cursor.defined = now
    return f"the code location {_LOCATION} was loaded again"


def _counts(entries: Sequence[LiveEntry]) -> dg.AssetObservation:
    """Numbers of the catalogs as a whole, over time."""
    return dg.AssetObservation(
        tables.key,
        description="The tables of all catalogs",
        metadata={
            "floecat/tables": sum(entry.kind == "table" for entry in entries),
            "floecat/delta_tables": sum(entry.format == "delta" for entry in entries),
            "floecat/views": sum(entry.kind == "view" for entry in entries),
        },
    )


def _reload(webserver_url: str) -> str | None:
    """Has the web server load the code location again; returns what went wrong.

    Raises:
        ConnectionError: there is no web server.
    """
    try:
        found = _ask(webserver_url, _RELOAD)
        problem: str | None = found.get("message") or (found.get("locationOrLoadError") or {}).get("message")
    except ConnectionError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    return problem or (None if found["__typename"] == "WorkspaceLocationEntry" else found["__typename"])


def _has_none(webserver_url: str) -> bool:
    """Whether the code location has no assets, as when the store was away while it was loaded."""
    try:
        return _ask(webserver_url, _GROUPS).get("assetGroups") == []
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False  # unknown


def _ask(webserver_url: str, query: str) -> dict[str, Any]:
    """The answer to a query; raises `ConnectionError` where no server listens, and other errors."""
    request = urllib.request.Request(  # noqa: S310 - the setting of an operator
        f"{webserver_url.rstrip('/')}/graphql",
        data=json.dumps({"query": query}).encode(),
        headers={"Content-Type": "application/json"},
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=_TIMEOUT_S) as answer:
            content = answer.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise ValueError(f"the answer is larger than {_MOST_BYTES} bytes")
            found: dict[str, Any] = json.loads(content)["data"]["answer"]
            return found
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionError):
            raise error.reason from error
        raise


def _wipe(
    instance: dg.DagsterInstance, entries: Sequence[LiveEntry], cursor: _Cursor, now_ms: int, grace_ms: int
) -> int:
    """Deletes the assets of some tables that have been gone for the grace period; returns how many."""
    live = {table_asset_key(entry.catalog_name, entry.identifier) for entry in entries}
    gone = sorted(
        (text, key)
        for key in instance.get_asset_keys()
        if len(key.path) > 2 and key not in live and (text := key.to_string()) > cursor.wiped_to
    )
    wiped = 0
    for _, key in gone[:WIPES_PER_TICK]:
        if ended_before(instance, key, before_ms=now_ms - grace_ms):
            instance.wipe_assets([key])
            wiped += 1
    if len(gone) > WIPES_PER_TICK:
        cursor.wiped_to = gone[WIPES_PER_TICK - 1][0]
    else:
        cursor.wiped_to, cursor.wiped_at_ms = "", now_ms
    return wiped


def _parse(cursor: str | None) -> _Cursor:
    try:
        return msgspec.json.decode(cursor or "{}", type=_Cursor)
    except msgspec.MsgspecError:
        return _Cursor()  # all that is lost is when things were last done
