"""First and second discovery of connectors: seconds, upstream calls and SQL statements a table.

The tables are small, of one folder and one SQL catalog on SQLite, and nothing changes between both scans.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from benchmarks.figures import figure, progress
from floecat.connectors.connector_info import NewConnector
from floecat.entries.calls import Call
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import load_settings

_SIZES = (1_000, 10_000)
_IN_A_NAMESPACE = 100
_SCHEMA = Schema(NestedField(1, "id", LongType()))


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=_SIZES, metavar="N", help="tables")
    for size in parser.parse_args().sizes:
        with TemporaryDirectory(prefix="floecat-bench-") as made:
            _measure(Path(made), size)


def _measure(folder: Path, size: int) -> None:
    progress(f"{size} tables upstream")
    lake = folder / "lake"
    lake.mkdir()
    catalog = SqlCatalog("upstream", uri=f"sqlite:///{lake}/catalog.db", warehouse=lake.as_uri())
    for number in range(size):
        namespace = f"n{number // _IN_A_NAMESPACE:04}"
        if number % _IN_A_NAMESPACE == 0:
            catalog.create_namespace(namespace)
        catalog.create_table((namespace, f"t{number:06}"), _SCHEMA)
    catalog.engine.dispose()
    uri = f"sqlite:///{lake}/catalog.db"
    _scan_twice(folder / "iceberg", lake, NewConnector("up", "iceberg", lake.as_uri()), size)
    by_sql = NewConnector("up", "pyiceberg", "pyiceberg:upstream", options={"type": "sql", "uri": uri})
    _scan_twice(folder / "pyiceberg", lake, by_sql, size)


def _scan_twice(data: Path, lake: Path, wanted: NewConnector, size: int) -> None:
    environment = {
        "FLOECAT_DATA_DIR": str(data),
        "FLOECAT_GATEWAY_DEFAULT_WAREHOUSE_PATH": lake.as_uri(),
        "FLOECAT_LIMITS_CONNECTOR_REPORT_BYTES": str(1 << 30),
    }
    settings = load_settings(environ=environment)
    prepare_store(settings)
    kernel = open_kernel(settings)
    try:
        account = kernel.settings.gateway.default_account_id
        call = kernel.catalog.calls.open_as_operator(
            "benchmark", account, kernel.settings.gateway.default_prefix
        )
        kernel.connectors.connectors.create(call, wanted)
        for turn in ("first", "second"):
            _scan(kernel, call, f"connectors.{wanted.kind}.{size}.{turn}", size)
    finally:
        kernel.close()


def _scan(kernel: Kernel, call: Call, name: str, size: int) -> None:
    progress(name)
    files = kernel.files.counters.counts
    began_s = time.perf_counter()
    with kernel.store.count_statements() as counter:
        report = kernel.connectors.scans.scan(call, "up")
    took_s = time.perf_counter() - began_s
    if report.summary is not None or len(report.registered) + len(report.skipped) != size:
        raise RuntimeError(f"The scan did not find {size} tables: {report.summary}")
    figure(f"{name}.time", took_s, "s")
    figure(f"{name}.statements", counter.statements / size, "statements a table")
    calls = (kernel.files.counters.counts - files).calls
    figure(f"{name}.storage-calls", calls / size, "calls a table")


if __name__ == "__main__":
    main()
