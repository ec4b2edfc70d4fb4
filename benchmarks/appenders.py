"""Appenders as Java's and PyIceberg's: load, append on top of what was loaded, try again after a conflict."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from benchmarks.closed_and_open import Client, Loop, Request, closed
from benchmarks.figures import figure
from benchmarks.metadata import SCHEMA, snapshot

__all__ = ["appender", "appends"]

_RETRIES = 4
_FIRST_PAUSE_S = 0.1
"""Both as the defaults of `commit.retry` (Iceberg table properties)."""


def appender(path: str, seen: Callable[[int], None] = lambda _: None) -> Loop:
    """Appends to a table until that works, or until the retries are used up; returns the last status."""

    def append(client: Client, _: int) -> int:
        for attempt in range(_RETRIES + 1):
            status = _append_once(client, path)
            seen(status)
            if status != 409 or attempt == _RETRIES:
                return status
            time.sleep(_FIRST_PAUSE_S * 2**attempt * random.uniform(1, 1.1))
        raise AssertionError

    return append


def appends(catalogs: Sequence[tuple[str, Callable[[], Client]]], seconds: float) -> None:
    """Prints what 8 and 32 appenders to one table meet."""
    for appenders in (8, 32):
        for name, connect in catalogs:
            table = f"appended{appenders}"
            connect().json(Request("", "POST", "namespaces/n0/tables", {"name": table, "schema": SCHEMA}))
            statuses: Counter[int] = Counter()
            lock = threading.Lock()

            def seen(status: int, statuses: Counter[int] = statuses, lock: threading.Lock = lock) -> None:
                with lock:
                    statuses[status] += 1

            run = closed(connect, [appender(f"namespaces/n0/tables/{table}", seen)] * appenders, seconds)
            prefix = f"appends.{appenders}-appenders.{name}"
            figure(f"{prefix}.commits", run.rate, "1/s", better="higher")
            figure(f"{prefix}.conflicts", statuses[409] / max(1, statuses.total()), "of all answers")
            figure(f"{prefix}.give-ups", run.statuses[409] / len(run.times_ms), "of all appends")
            other = statuses.total() - statuses[409] - statuses[200]
            if other:
                figure(f"{prefix}.other-answers", other, "answers", target=0)


def _append_once(client: Client, path: str) -> int:
    status, body = client.send(Request("read", "GET", path))
    if status != 200:
        return status
    metadata = json.loads(body)["metadata"]
    parent = metadata.get("current-snapshot-id")
    if parent == -1:
        parent = None
    number = metadata["last-sequence-number"] + 1
    made = snapshot(metadata["location"], number, parent, timestamp_ms=time.time_ns() // 1_000_000)
    made["snapshot-id"] = random.getrandbits(62)
    branch = {"ref-name": "main", "type": "branch", "snapshot-id": made["snapshot-id"]}
    requirements = [
        {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent},
    ]
    updates = [{"action": "add-snapshot", "snapshot": made}, {"action": "set-snapshot-ref", **branch}]
    return client.send(Request("append", "POST", path, {"requirements": requirements, "updates": updates}))[0]
