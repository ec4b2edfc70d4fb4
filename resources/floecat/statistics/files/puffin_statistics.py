"""Statistics files of Iceberg: a Puffin file with a theta sketch for each column.

Readers take the number of distinct values from the property `ndv` of a blob; some merge the sketches (Puffin
specification, `apache-datasketches-theta-v1`; table specification, "Table Statistics").
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from floecat.iceberg.metadata.statistics_files import StatisticsFile
from floecat.iceberg.puffin import PuffinBlob, write_blobs
from floecat.iceberg.schemas.transforms import IDENTITY
from floecat.statistics.files.summaries import ColumnSummary
from floecat.statistics.files.theta import ThetaSketch
from floecat.statistics.records import THETA_SKETCH

__all__ = ["write_statistics_file"]


def write_statistics_file(
    columns: Sequence[ColumnSummary], path: str, snapshot_id: int, sequence_number: int
) -> tuple[bytes, StatisticsFile]:
    """The file of a snapshot, and what table metadata says of it.

    Args:
        columns: of all files of the snapshot; expressions and columns without a sketch are left out.
        path: where the file will be.
        sequence_number: of the snapshot.

    Raises:
        InvalidMetadataError: a sketch is damaged.
    """
    blobs = [
        PuffinBlob(
            type=THETA_SKETCH,
            parts=(column.sketch,),
            fields=(column.field_id,),
            snapshot_id=snapshot_id,
            sequence_number=sequence_number,
            properties={"ndv": str(round(ThetaSketch.from_bytes(column.sketch).estimate))},
        )
        for column in columns
        if column.sketch is not None and column.transform == IDENTITY
    ]
    written = write_blobs(blobs)
    described = {
        "snapshot-id": snapshot_id,
        "statistics-path": path,
        "file-size-in-bytes": len(written.data),
        "file-footer-size-in-bytes": written.footer_size,
        "blob-metadata": [
            {
                "type": blob.type,
                "snapshot-id": snapshot_id,
                "sequence-number": sequence_number,
                "fields": blob.fields,
                "properties": blob.properties,
            }
            for blob in blobs
        ],
    }
    return written.data, msgspec.convert(described, StatisticsFile)
