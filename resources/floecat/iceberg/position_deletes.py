"""Position delete files of one data file (table specification, "Position Delete Files"; format version 2).

Each row has the location of the data file, always the same here, and the position of a deleted row.

Every reader reads Parquet; most refuse Avro. The Parquet files are like those of Iceberg's own writers, with
plain positions and Zstandard, as some readers support no other encodings. The bytes depend only on the input,
and for Parquet on the version of the Arrow library, which is written to the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from floecat.iceberg.avro.columns import constant, lay_out, varint, varints
from floecat.iceberg.avro.container import BlockWriter, encode_container

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["FILE_PATH_ID", "POS_ID", "DeleteFormat", "PositionDeletes", "write_position_deletes"]

FILE_PATH_ID = 2147483546
"""Field id of the location of the data file."""

POS_ID = 2147483545
"""Field id of the position."""

DeleteFormat = Literal["parquet", "avro"]
"""File formats of position deletes."""

_PATH, _POS = "file_path", "pos"
_BATCH_ROWS = 1 << 20
_ENCODED_ROWS = 1 << 14

_METADATA = {
    "delete-type": b"position",
    "iceberg.schema": msgspec.json.encode(
        {
            "type": "struct",
            "schema-id": 0,
            "fields": [
                {"id": FILE_PATH_ID, "name": _PATH, "required": True, "type": "string"},
                {"id": POS_ID, "name": _POS, "required": True, "type": "long"},
            ],
        }
    ),
}
"""Metadata as Iceberg's own writers write it."""

_AVRO_SCHEMA = msgspec.json.encode(
    {
        "type": "record",
        "name": "position_delete",
        "fields": [
            {"name": _PATH, "type": "string", "field-id": FILE_PATH_ID},
            {"name": _POS, "type": "long", "field-id": POS_ID},
        ],
    }
)


def _arrow_field(name: str, type: Any, field_id: int) -> Any:
    return pa.field(name, type, nullable=False, metadata={"PARQUET:field_id": str(field_id)})


_PATHS = pa.dictionary(pa.int8(), pa.string())
"""Strings for the reader; here the path stands once, as repeated for each row it would take gigabytes."""

_ARROW_SCHEMA = pa.schema([_arrow_field(_PATH, _PATHS, FILE_PATH_ID), _arrow_field(_POS, pa.int64(), POS_ID)])


class PositionDeletes(msgspec.Struct, frozen=True):
    """A position delete file, and the metrics of its manifest entry.

    Bounds are Iceberg single values (table specification, Appendix D). Both bounds of the location are equal,
    which tells readers that the file applies to one data file.

    Attributes:
        data: the whole file.
        record_count: number of deleted rows.
        file_path_bound: lower and upper bound of the location, not truncated.
        pos_lower_bound: the first position.
        pos_upper_bound: the last one.
    """

    data: bytes
    record_count: int
    file_path_bound: bytes
    pos_lower_bound: bytes
    pos_upper_bound: bytes


class _Positions:
    """The positions in batches; count, first and last are known after all were read."""

    def __init__(self, positions: npt.NDArray[np.int64] | Iterable[npt.NDArray[np.int64]]) -> None:
        self._source = (positions,) if isinstance(positions, np.ndarray) else positions
        self.count = 0
        self.first = self.last = -1

    def __iter__(self) -> Iterator[npt.NDArray[np.int64]]:
        for batch in _batches(self._source):
            if batch[0] <= self.last or not (batch[1:] > batch[:-1]).all():
                raise ValueError("Positions are not ascending")
            if self.first < 0:
                self.first = int(batch[0])
            self.last = int(batch[-1])
            self.count += len(batch)
            yield batch
        if not self.count:
            raise ValueError("There are no positions to delete")


def write_position_deletes(
    file_path: str,
    positions: npt.NDArray[np.int64] | Iterable[npt.NDArray[np.int64]],
    *,
    format: DeleteFormat,
) -> PositionDeletes:
    """Writes the file that deletes rows of one data file.

    Args:
        file_path: location of the data file, exactly as in its manifest entry.
        positions: the deleted rows in ascending order, counted from 0; at least one. Chunks save memory with
            millions of positions: only some are held at a time.
        format: the file format.

    Raises:
        ValueError: no positions, or not in ascending order.
    """
    passed = _Positions(positions)
    data = _parquet(file_path, passed) if format == "parquet" else _avro(file_path, passed)
    return PositionDeletes(data, passed.count, file_path.encode(), _long(passed.first), _long(passed.last))


def _batches(chunks: Iterable[npt.NDArray[np.int64]]) -> Iterator[npt.NDArray[np.int64]]:
    """Yields the positions in batches of equal size but the last, each a row group of a Parquet file."""
    held: list[npt.NDArray[np.int64]] = []
    room = _BATCH_ROWS
    for chunk in chunks:
        rest = chunk
        while len(rest):
            held.append(rest[:room])
            room -= len(held[-1])
            rest = rest[len(held[-1]) :]
            if not room:
                yield np.concatenate(held)
                held, room = [], _BATCH_ROWS
    if held:
        yield held[0] if len(held) == 1 else np.concatenate(held)


def _long(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


def _parquet(file_path: str, positions: _Positions) -> bytes:
    sink = pa.BufferOutputStream()
    paths = pa.array([file_path], pa.string())
    with pq.ParquetWriter(
        sink,
        _ARROW_SCHEMA,
        compression="zstd",
        use_dictionary=[_PATH],
        store_schema=False,
    ) as writer:
        writer.add_key_value_metadata(_METADATA)
        for batch in positions:
            column = pa.DictionaryArray.from_arrays(np.zeros(len(batch), np.int8), paths)
            writer.write_batch(pa.record_batch([column, pa.array(batch)], schema=_ARROW_SCHEMA))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _avro(file_path: str, positions: _Positions) -> bytes:
    path = file_path.encode()
    location = constant(varint(len(path)) + path)
    writer = BlockWriter()
    for batch in positions:
        # each position repeats the path: a whole batch would take a hundred megabytes
        for start in range(0, len(batch), _ENCODED_ROWS):
            part = batch[start : start + _ENCODED_ROWS]
            writer.write(*lay_out([location, varints(part)], len(part)))
    return encode_container({"avro.schema": _AVRO_SCHEMA, **_METADATA}, writer.finish())
