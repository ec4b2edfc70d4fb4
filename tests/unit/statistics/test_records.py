from __future__ import annotations

import hashlib

import msgspec
import pytest

from floecat.errors import IllegalArgumentError
from floecat.statistics.records import (
    THETA_SKETCH,
    ColumnTarget,
    Coverage,
    ExpressionTarget,
    FileStatistics,
    FileTarget,
    Ndv,
    RecordMetadata,
    ScalarStatistics,
    Sketch,
    SketchRole,
    StatisticsRecord,
    TableStatistics,
    TableTarget,
    Target,
    TargetKind,
    content_hash,
    target_kind,
    target_storage_id,
)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("target", "storage_id"),
    [
        (TableTarget(), "table"),
        (ColumnTarget(42), "column-0000000000000000042"),
        (FileTarget(" s3://b/f.parquet "), "file-" + _sha256(b"F\x1fs3://b/f.parquet")),
        (ExpressionTarget(" Trino ", b"k\x00", "1"), "expression-trino-" + _sha256(b"E\x1ftrino\x1fk\x00")),
        (ExpressionTarget("trino", b"k\x00", "2"), "expression-trino-" + _sha256(b"E\x1ftrino\x1fk\x00")),
    ],
)
def test_targets_have_a_storage_id(target: Target, storage_id: str) -> None:
    assert target_storage_id(target) == storage_id
    assert TargetKind(storage_id.partition("-")[0]) is target_kind(target)


@pytest.mark.parametrize(
    "record",
    [
        StatisticsRecord(ColumnTarget(0), scalar=ScalarStatistics()),
        StatisticsRecord(FileTarget(" "), file=FileStatistics(" ")),
        StatisticsRecord(ExpressionTarget("trino", b""), scalar=ScalarStatistics()),
        StatisticsRecord(TableTarget()),
        StatisticsRecord(TableTarget(), scalar=ScalarStatistics()),
        StatisticsRecord(ColumnTarget(1), table=TableStatistics(), scalar=ScalarStatistics()),
        StatisticsRecord(FileTarget("a"), file=FileStatistics("b")),
        StatisticsRecord(TableTarget(), RecordMetadata(confidence_level=1.5), table=TableStatistics()),
        StatisticsRecord(
            TableTarget(), RecordMetadata(coverage=Coverage(rows_scanned=-1)), table=TableStatistics()
        ),
        StatisticsRecord(TableTarget(), table=TableStatistics(row_count=2**63)),
        StatisticsRecord(ColumnTarget(1), scalar=ScalarStatistics(ndv=Ndv(exact=-1))),
    ],
)
def test_records_that_contradict_themselves_are_refused(record: StatisticsRecord) -> None:
    with pytest.raises(IllegalArgumentError, match="Invalid"):
        record.check()


def _record(captured_at_ms: int, rows: int) -> StatisticsRecord:
    sketch = Sketch(SketchRole.NDV, THETA_SKETCH, b"\x00\xff", captured_at_ms=captured_at_ms)
    return StatisticsRecord(
        ColumnTarget(1),
        RecordMetadata(captured_at_ms=captured_at_ms, refreshed_at_ms=captured_at_ms),
        scalar=ScalarStatistics("id", "INT", rows, ndv=Ndv(exact=rows, sketches=(sketch,))),
    )


def test_content_hashes_ignore_times_only() -> None:
    assert content_hash(_record(1, 10)) == content_hash(_record(2, 10))
    assert content_hash(_record(1, 10)) != content_hash(_record(1, 11))


def test_records_read_back() -> None:
    record = _record(1, 10)
    record.check()
    assert msgspec.json.decode(msgspec.json.encode(record), type=StatisticsRecord) == record
