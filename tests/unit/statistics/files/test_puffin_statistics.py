from __future__ import annotations

import datasketches
import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.table.statistics import StatisticsFile as PyIcebergStatisticsFile

from floecat.errors import InvalidMetadataError
from floecat.iceberg.metadata.statistics_files import check_statistics_file
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.statistics.files.hashing import hash_values
from floecat.statistics.files.puffin_statistics import write_statistics_file
from floecat.statistics.files.summaries import ColumnSummary
from floecat.statistics.files.theta import SketchBuilder


def _column(field_id: int, sketch: bytes | None) -> ColumnSummary:
    return ColumnSummary(field_id, 1, 0, 0, None, None, 0, sketch)


def _sketch(count: int) -> bytes:
    builder = SketchBuilder()
    builder.add(hash_values(pa.array(np.arange(count)), PrimitiveType("long")))
    return builder.build().to_bytes()


def test_a_statistics_file_holds_a_sketch_for_each_column() -> None:
    columns = [_column(1, _sketch(10)), _column(2, None), _column(5, _sketch(50_000)), _column(6, _sketch(0))]
    path = "s3://b/t/metadata/1.stats"
    data, described = write_statistics_file(columns, path, 77, 3)
    raw = msgspec.json.encode(described)
    check_statistics_file(msgspec.Raw(raw), "statistics")
    read = PyIcebergStatisticsFile.model_validate_json(raw)
    assert (read.snapshot_id, read.statistics_path, read.file_size_in_bytes) == (77, path, len(data))
    footer = data[-described.file_footer_size_in_bytes :]
    assert footer[:4] == footer[-4:] == data[:4] == b"PFA1"
    blobs = PuffinFile(data).footer.blobs
    assert [blob.fields for blob in blobs] == [[1], [5], [6]]
    for blob, known, column in zip(
        blobs, read.blob_metadata, [columns[0], columns[2], columns[3]], strict=True
    ):
        assert (blob.type, blob.snapshot_id, blob.sequence_number) == ("apache-datasketches-theta-v1", 77, 3)
        assert (known.type, known.fields, known.properties) == (blob.type, blob.fields, blob.properties)
        content = data[blob.offset : blob.offset + blob.length]
        assert content == column.sketch
        sketch = datasketches.compact_theta_sketch.deserialize(content)
        assert blob.properties == {"ndv": str(round(sketch.get_estimate()))}


def test_a_damaged_sketch_is_not_written() -> None:
    with pytest.raises(InvalidMetadataError):
        write_statistics_file([_column(1, b"x")], "s3://b/1.stats", 1, 1)
