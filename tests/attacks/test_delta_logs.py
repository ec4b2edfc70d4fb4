"""Delta logs that are small, and large to read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import cycle

import pyarrow as pa
import pyarrow.parquet as pq

from tests.attacks.attacked_service import AttackedService
from tests.attacks.test_delta_tables import register, register_honest
from tests.unit.delta.log_lines import PROTOCOL, commit_bytes, metadata, schema_string

TEXT_BYTES = 1_000_000
COMMIT = f"{0:020}.json"
_ATTACKERS = 8


def checkpoint(rows: int) -> bytes:
    """A checkpoint of a few kilobytes, in which all files have the same long statistics."""
    texts = pa.array(["x" * TEXT_BYTES])
    adds = [
        pa.array([f"{row}" for row in range(rows)]),
        pa.array([1] * rows),
        pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), texts),
    ]
    table = pa.table(
        {
            "protocol": pa.array([PROTOCOL["protocol"], *[None] * (rows - 1)]),
            "metaData": pa.array([{"id": "a", "schemaString": schema_string("a")}, *[None] * (rows - 1)]),
            "add": pa.StructArray.from_arrays(adds, names=["path", "size", "stats"]),
        }
    )
    sink = pa.BufferOutputStream()
    options = {"compression": "zstd", "store_schema": False, "write_statistics": False}
    pq.write_table(table, sink, dictionary_pagesize_limit=4 * TEXT_BYTES, **options)
    return bytes(sink.getvalue())


def features(count: int) -> bytes:
    """A commit whose protocol names this many features."""
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["a"] * count}
    return commit_bytes({"protocol": protocol}, metadata())


def test_logs_are_registered_and_loaded(start_attacked: Callable[..., AttackedService]) -> None:
    """They would decode to 2 GB of texts, 1 GB of nulls, and 1 GB of objects, or hold the interpreter."""
    service = start_attacked(
        FLOECAT_GATEWAY_DELTA_COMPAT_WAIT="PT1S", FLOECAT_LIMITS_WORKING_MEMORY_WAIT_MS="1000"
    )
    register_honest(service)
    logs = {
        "texts": (f"{0:020}.checkpoint.parquet", checkpoint(2000)),
        "lines": (COMMIT, commit_bytes(PROTOCOL, metadata()) + b"{}\n" * 10_000_000),
        "features": (COMMIT, features(10_000_000)),
        "provenance": (COMMIT, commit_bytes(PROTOCOL, {"commitInfo": {"a": "\n" * 15_000_000}})),
        "broken": (COMMIT, commit_bytes(PROTOCOL, metadata()) + b"{}\n" * 1_900_000 + b"{"),
    }
    # each attacker has logs of its own: those of one table would be read by one of them, and the others wait
    tables = [[f"{name}{number}" for name in logs] for number in range(_ATTACKERS)]
    for (kind, (file, data)), own in zip(logs.items(), zip(*tables, strict=True), strict=True):
        (service.warehouse / kind).write_bytes(data)
        for name in own:
            log = service.warehouse / name / "_delta_log"
            log.mkdir(parents=True)
            os.link(service.warehouse / kind, log / file)
            (log / f"{1:020}.json").write_text(json.dumps({"commitInfo": {}}))
    turns = cycle(tables)

    def send() -> None:
        for name in next(turns):
            assert register(service, name) in (201, 409)
            loaded = service.send("GET", f"/v1/floecat/namespaces/delta/tables/{name}")
            assert loaded.is_refusal, loaded

    service.attack(send, at_once=_ATTACKERS)
