"""Work on one Delta table in a process of its own, measured from inside.

`python -m benchmarks.delta_work WORK NAME` prints one JSON object. Settings come from the environment.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.delta_logs import add_version
from floecat.auth.principals import Principal
from floecat.entries.calls import Call, PageRequest
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, kernel
from floecat.settings import load_settings

_NAMESPACE = ("bench",)


def main() -> None:
    """Does the work and prints what it cost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=sorted(_WORK))
    parser.add_argument("name")
    parser.add_argument("--location", default="")
    parser.add_argument("--format-version", type=int, default=2)
    parser.add_argument("--with-statistics", action="store_true")
    arguments = parser.parse_args()
    with kernel(load_settings()) as opened:
        gateway = opened.settings.gateway
        call = opened.catalog.calls.open(
            Principal("bench", gateway.default_account_id), gateway.default_prefix
        )
        result = _WORK[arguments.work](opened, call, arguments)
    result["peak_rss_mib"] = _peak_rss_mib()
    print(json.dumps(result))


def _register(opened: Kernel, call: Call, arguments: argparse.Namespace) -> dict[str, Any]:
    """Registers a table, which reads it as far as the settings let a request read."""
    if _NAMESPACE not in opened.catalog.namespaces.list(call, None, PageRequest()).items:
        opened.catalog.namespaces.create(call, _NAMESPACE, {})

    def register() -> None:
        opened.delta.registration.register(
            call,
            _NAMESPACE,
            arguments.name,
            arguments.location,
            format_version=arguments.format_version,
        )

    return _measured(register)


def _next(opened: Kernel, call: Call, arguments: argparse.Namespace) -> dict[str, Any]:
    """Loads a table when its log has a new version: in a process that has read no manifest yet, and again."""
    identifier = TableIdentifier(_NAMESPACE, arguments.name)
    table = Path(arguments.location.removeprefix("file://"))
    opened.catalog.tables.load(call, identifier)
    done = []
    for _ in range(2):
        version = add_version(table, with_statistics=arguments.with_statistics)
        time.sleep(opened.settings.gateway.delta_compat.refresh_after.seconds)
        done.append(_measured(lambda: opened.catalog.tables.load(call, identifier)))
        document = json.loads(opened.catalog.tables.load(call, identifier).metadata)
        if document["current-snapshot-id"] != version:
            raise SystemExit(f"The load answered version {document['current-snapshot-id']}, not {version}")
        written = list((table / "metadata").glob(f"{version}-compat-m*.avro"))
        done[-1]["manifests"] = len(written)
    return {"versions": done}


def _load(opened: Kernel, call: Call, arguments: argparse.Namespace) -> dict[str, Any]:
    """What a request costs when the table is up to date, from the HTTP layer down."""
    from litestar.testing import TestClient

    from floecat_rest.app import create_app

    del call
    path = f"/v1/{opened.settings.gateway.default_prefix}/namespaces/bench/tables/{arguments.name}"
    with TestClient(create_app(opened.settings, opened), base_url="http://127.0.0.1") as client:
        for _ in range(3):
            client.get(path).raise_for_status()
        before = opened.files.counters.counts
        with opened.store.count_statements() as counter:
            answer = client.get(path).raise_for_status()
        calls = (opened.files.counters.counts - before).calls
    return {"statements": counter.total, "calls": calls, "bytes": len(answer.content)}


def _materialise(opened: Kernel, call: Call, arguments: argparse.Namespace) -> dict[str, Any]:
    """Brings in every version, as the pipeline does."""
    return _pipelined(opened, call, arguments, None)


def _materialise_on_spark(opened: Kernel, call: Call, arguments: argparse.Namespace) -> dict[str, Any]:
    from floecat_assets.spark.delta_chunks import spark_chunks
    from floecat_assets.spark.sessions import SparkPlace, open_session

    session = open_session(SparkPlace())
    session.range(1).collect()
    return _pipelined(
        opened,
        call,
        arguments,
        lambda table: spark_chunks(session, table.storage.opener(table.row.location), table.allowed),
    )


def _pipelined(
    opened: Kernel, call: Call, arguments: argparse.Namespace, run_chunks: Callable[[Any], Any] | None
) -> dict[str, Any]:
    pipeline = opened.delta.pipeline()
    wanted = f"{call.catalog.name}.{TableIdentifier(_NAMESPACE, arguments.name)}"
    entry_id = next(table.entry_id for table in pipeline.tables() if table.name == wanted)
    result = _measured(lambda: pipeline.materialise(entry_id, lambda _done, _all: None, run_chunks))
    numbers = pipeline.counts(entry_id)
    if numbers.missing or numbers.unexpected or numbers.delta.deleted_rows != numbers.iceberg.deleted_rows:
        raise SystemExit(f"The manifests of {wanted} are wrong: {numbers.delta} {numbers.iceberg}")
    return result | {"files": numbers.iceberg.files, "deleted_rows": numbers.iceberg.deleted_rows}


def _peak_rss_mib() -> float:
    # what `getrusage` tells begins with what the process was forked from
    status = Path("/proc/self/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


def _measured(work: Callable[[], object]) -> dict[str, Any]:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


_WORK: dict[str, Callable[[Kernel, Call, argparse.Namespace], dict[str, Any]]] = {
    "register": _register,
    "next": _next,
    "load": _load,
    "materialise": _materialise,
    "materialise-on-spark": _materialise_on_spark,
}


if __name__ == "__main__":
    main()
