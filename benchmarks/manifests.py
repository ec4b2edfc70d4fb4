"""Entries of manifests that a second reads, by columns and by fastavro row by row.

The manifest has every field of the specification and metrics of 20 columns. Rates are of
processor time, the best of several runs.
"""

from __future__ import annotations

import argparse
import random
import struct
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import fastavro

from benchmarks.figures import figure, progress
from floecat.iceberg.manifests.avro_schemas import manifest_schema
from floecat.iceberg.manifests.metric_maps import METRIC_IDS
from floecat.iceberg.manifests.reader import ENTRY_FIELDS, read_manifest
from floecat.iceberg.schemas.partitioning import PartitionField, PartitionSpec
from floecat.iceberg.schemas.types import PrimitiveType

_COLUMNS = 20
_RUNS = 5
_SPEC = PartitionSpec(0, (PartitionField("day", "day", 2, 1000),))
_WITHOUT_METRICS = ENTRY_FIELDS - METRIC_IDS.keys()


def _manifest(entries: int, *, has_metrics: bool) -> bytes:
    schema = manifest_schema(_SPEC, [PrimitiveType("int")], 3)
    file = BytesIO()
    fastavro.writer(file, schema, _entries(entries, has_metrics=has_metrics), codec="deflate")
    return file.getvalue()


def _entries(entries: int, *, has_metrics: bool) -> Iterator[dict[str, Any]]:
    source = random.Random(7)
    for number in range(entries):
        day = 19_000 + number * 30 // entries
        data_file: dict[str, Any] = {
            "content": 0,
            "file_path": f"s3://lake/warehouse/sales/orders/data/day={day}/{number:05}-"
            f"{source.getrandbits(64):016x}-00001.parquet",
            "file_format": "PARQUET",
            "partition": {"day": day},
            "record_count": (rows := source.randrange(900_000, 1_000_000)),
            "file_size_in_bytes": source.randrange(2**26, 2**27),
            "split_offsets": [4],
            "sort_order_id": 0,
        }
        if has_metrics:
            data_file |= _metrics(source, number, rows)
        yield {"status": 1, "snapshot_id": 5_311_204_913_742_112_233, "data_file": data_file}


def _metrics(source: random.Random, number: int, rows: int) -> dict[str, Any]:
    ids = range(1, _COLUMNS + 1)

    def bound(column: int, end: int) -> bytes:
        if column % 3 == 0:
            return f"customer-{column}{(number + end) % 100:02}".encode()
        return struct.pack("<q", column * 1_000_000 + number * 100 + end)

    return {
        "column_sizes": [{"key": id, "value": source.randrange(10**5, 10**6)} for id in ids],
        "value_counts": [{"key": id, "value": rows} for id in ids],
        "null_value_counts": [{"key": id, "value": 0} for id in ids],
        "lower_bounds": [{"key": id, "value": bound(id, 0)} for id in ids],
        "upper_bounds": [{"key": id, "value": bound(id, 99)} for id in ids],
    }


def _rate(read: Callable[[], int]) -> float:
    best = 0.0
    for _ in range(_RUNS):
        start = time.process_time()
        entries = read()
        best = max(best, entries / (time.process_time() - start))
    return best


def _by_rows(data: bytes) -> int:
    return sum(1 for _ in fastavro.reader(BytesIO(data)))


def _by_columns(data: bytes, **arguments: Any) -> int:
    return sum(len(entries) for entries in read_manifest(data, location="benchmark", **arguments))


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=50_000)
    entries = parser.parse_args().entries
    progress("writing manifests")
    plain = _manifest(entries, has_metrics=False)
    rich = _manifest(entries, has_metrics=True)
    unit = "entries/s"
    by_rows = _rate(lambda: _by_rows(rich))
    asked: list[tuple[str, bytes, dict[str, Any], float, float | None]] = [
        ("manifest without metrics", plain, {}, _rate(lambda: _by_rows(plain)), 300_000),
        ("manifest with metrics, none asked for", rich, {"fields": _WITHOUT_METRICS}, by_rows, 300_000),
        ("manifest with metrics, paths", rich, {"fields": ("file_path",)}, by_rows, None),
        (
            "manifest with metrics, bounds of 5 of 20 columns",
            rich,
            {
                "fields": {*_WITHOUT_METRICS, "lower_bounds", "upper_bounds"},
                "column_ids": {2, 3, 7, 11, 18},
            },
            by_rows,
            100_000,
        ),
        ("manifest with metrics, all", rich, {}, by_rows, None),
    ]
    for name, data, arguments, baseline, least in asked:
        rate = _rate(lambda data=data, arguments=arguments: _by_columns(data, **arguments))  # type: ignore[misc]
        note = f"{len(data):,} bytes; baseline: fastavro" + (f"; at least {least:,}" if least else "")
        figure(name, rate, unit, baseline=baseline, better="higher", note=note)


if __name__ == "__main__":
    main()
