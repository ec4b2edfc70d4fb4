"""Rows of a data file that its deletes leave (table specification, "Delete Formats")."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from floecat.fileio.base import FileIO
from floecat.iceberg.position_deletes import FILE_PATH_ID, POS_ID
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.values.bounds import Bounds
from floecat.iceberg.values.floats import comparable_bits
from floecat.memory_budget import LruCache
from floecat.statistics.files.leaf_values import arrow_type_of, leaf_values
from floecat.statistics.files.projection import Projection
from floecat.statistics.files.sources import Source, UnreadableFileError, check_bound, reading
from floecat.statistics.files.summaries import DataFile, DeleteFile

__all__ = ["DeletedRows", "Rows"]

Rows: TypeAlias = npt.NDArray[np.bool_]
_Int64s: TypeAlias = npt.NDArray[np.int64]

_VECTOR_MAGIC: Final = b"\xd1\xd3\x39\x64"
_FRAME: Final = 4
_BYTES_PER_POSITION: Final = 16
_BYTES_PER_KEY: Final = 64
_STRING, _LONG = PrimitiveType("string"), PrimitiveType("long")


class DeletedRows:
    """Applies deletes to data files. Delete files that several data files share are read once, if small."""

    def __init__(
        self,
        files: FileIO,
        open_source: Callable[[DataFile | DeleteFile], Source],
        projection: Projection,
        memory_bytes: int,
        bounds: Bounds,
    ) -> None:
        """Takes where files are.

        Args:
            files: where deletion vectors are read.
            open_source: opens delete files.
            projection: columns of the table.
            memory_bytes: of decoded deletes. Equality deletes that need more are not applied.
            bounds: limits for delete files.
        """
        self._files = files
        self._open_source = open_source
        self._projection = projection
        self._memory_bytes = memory_bytes
        self._bounds = bounds
        self._kept: LruCache[Any] = LruCache(memory_bytes)

    def live_rows(self, file: DataFile, source: Source) -> tuple[Rows | None, bool]:
        """The rows of a data file that are left.

        Args:
            file: the file, with the deletes that apply.
            source: the open file.

        Returns:
            The rows that are not deleted, None for all; and whether all deletes were applied.

        Raises:
            UnreadableFileError: a file is damaged, or exceeds its bound.
        """
        if not file.deletes:
            return None, True
        if file.record_count and source.row_count != file.record_count:
            raise UnreadableFileError(file.location, "it has other rows than its manifest says")
        live = np.ones(source.row_count, np.bool_)
        for delete in file.deletes:
            if not delete.equality_ids:
                for positions in self._positions(delete, file.location, len(live)):
                    live[positions[(positions >= 0) & (positions < len(live))]] = False
        is_exact = True
        equality = sorted((each for each in file.deletes if each.equality_ids), key=_ids)
        for ids, group in groupby(equality, _ids):
            deletes = list(group)
            size = sum(each.record_count for each in deletes) * len(ids) * _BYTES_PER_KEY
            is_known = all(id in self._projection.types for id in ids)
            equal = self._equal_rows(ids, deletes, file, source) if is_known and self._fits(size) else None
            if equal is None:
                is_exact = False
            else:
                live &= ~equal
        return live, is_exact

    def _fits(self, size_bytes: int) -> bool:
        return size_bytes <= self._memory_bytes

    def _open(self, delete: DeleteFile) -> Source:
        self._check_size(delete, delete.size_bytes)
        source = self._open_source(delete)
        # what is read at once, and kept, depends on the rows of the manifest
        if source.row_count > delete.record_count:
            raise UnreadableFileError(delete.location, "it has more rows than its manifest says")
        return source

    def _check_size(self, delete: DeleteFile, size_bytes: int) -> None:
        problem = "deletes in it have more bytes than"
        check_bound(self._bounds, "deletion_vector_bytes", delete.location, size_bytes, problem)

    def _positions(self, delete: DeleteFile, location: str, rows: int) -> Iterator[_Int64s]:
        if delete.format == "puffin":
            yield self._vector(delete, rows)
        elif (size := delete.record_count * _BYTES_PER_POSITION) > self._memory_bytes // 4:
            for paths, positions in self._position_batches(delete):
                yield positions[pc.equal(paths, location).to_numpy(zero_copy_only=False)]
        else:
            by_path: Mapping[str, list[_Int64s]] = self._kept.get_or_make(
                delete.location, lambda: _by_path(self._position_batches(delete)), lambda _: size
            )
            yield from by_path.get(location, ())

    def _position_batches(self, delete: DeleteFile) -> Iterator[tuple[pa.StringArray, _Int64s]]:
        source = self._open(delete)
        if not (source.has(FILE_PATH_ID) and source.has(POS_ID)):
            raise UnreadableFileError(delete.location, "it has no paths and positions with their field ids")
        for batch in source.read([FILE_PATH_ID, POS_ID]):
            with reading(delete.location):
                paths = leaf_values(batch[FILE_PATH_ID], _STRING)
                yield paths, leaf_values(batch[POS_ID], _LONG).to_numpy()

    def _vector(self, delete: DeleteFile, rows: int) -> _Int64s:
        """Positions of a deletion vector (Puffin specification, `deletion-vector-v1`).

        A few bytes of it can stand for any number of positions, so that there may be no more than rows.
        """
        offset, size = delete.content_offset or 0, delete.content_size_bytes or 0
        self._check_size(delete, size)
        if offset < 0 or size < 0:
            raise UnreadableFileError(delete.location, "the place of a deletion vector in it is negative")
        data = self._files.read_range(delete.location, offset, size)
        payload, checksum = data[_FRAME:-_FRAME], data[-_FRAME:]
        try:
            if len(data) != size or int.from_bytes(data[:_FRAME], "big") != len(payload):
                raise ValueError
            if payload[:_FRAME] != _VECTOR_MAGIC or zlib.crc32(payload) != int.from_bytes(checksum, "big"):
                raise ValueError
            bitmap = BitMap64.deserialize(payload[_FRAME:])
            if len(bitmap) > rows:
                raise ValueError
            return np.array(bitmap.to_array(), np.int64)
        except ValueError:
            raise UnreadableFileError(delete.location, "a deletion vector in it is damaged") from None

    def _equal_rows(
        self, ids: Sequence[int], deletes: Sequence[DeleteFile], file: DataFile, source: Source
    ) -> Rows | None:
        """Rows whose values of some columns are those of a deleted row; null equals null, and NaN NaN.

        None if the values of the deleted rows do not fit.

        Columns are compared one after the other: the values of a row so far are one number, -1 where no
        deleted row has them.
        """
        rows = np.zeros(source.row_count, np.int64)
        keys: _Int64s = np.zeros(1, np.int64)
        for id in ids:
            nothing = _comparable(pa.nulls(0, arrow_type_of(self._projection.types[id])))
            parts = self._all_deleted(deletes, id)
            if parts is None:
                return None
            deleted = pa.concat_arrays([nothing, *parts])
            distinct = pc.unique(deleted)
            keys = keys * len(distinct) + pc.index_in(deleted, value_set=distinct).to_numpy()
            start = 0
            for part in self._projection.values(source, id, file.location, file.constants):
                found = pc.index_in(_comparable(part), value_set=distinct).fill_null(-1).to_numpy()
                so_far = rows[start : start + len(found)]
                so_far[:] = np.where((so_far < 0) | (found < 0), -1, so_far * len(distinct) + found)
                start += len(found)
            # Numbered from 0 again, so that the next column does not overflow.
            known = np.unique(keys)
            keys = np.searchsorted(known, keys)
            places = np.minimum(np.searchsorted(known, rows), max(len(known) - 1, 0))
            rows = np.where(known[places] == rows, places, -1) if len(known) else np.full_like(rows, -1)
        equal: Rows = rows >= 0
        return equal

    def _all_deleted(self, deletes: Sequence[DeleteFile], field_id: int) -> list[pa.Array] | None:
        """The values of a column in equality delete files; None if they do not fit."""
        parts: list[pa.Array] = []
        for delete in deletes:
            parts += self._deleted(delete, field_id)
            if not self._fits(_size(parts)):
                return None
        return parts

    def _deleted(self, delete: DeleteFile, field_id: int) -> list[pa.Array]:
        """The values of a column in an equality delete file; of one that does not fit only so many."""

        def read() -> list[pa.Array]:
            found: list[pa.Array] = []
            for part in self._projection.values(self._open(delete), field_id, delete.location, {}):
                found.append(_comparable(part))
                if not self._fits(_size(found)):
                    break
            return found

        parts: list[pa.Array] = self._kept.get_or_make((delete.location, field_id), read, _size)
        return parts


def _size(parts: Sequence[pa.Array]) -> int:
    sizes: list[int] = [part.nbytes for part in parts]
    return sum(sizes)


def _ids(delete: DeleteFile) -> tuple[int, ...]:
    return tuple(sorted(delete.equality_ids))


def _by_path(batches: Iterator[tuple[pa.Array, _Int64s]]) -> dict[str, list[_Int64s]]:
    found: dict[str, list[_Int64s]] = {}
    for paths, positions in batches:
        encoded = paths if pa.types.is_dictionary(paths.type) else paths.dictionary_encode()
        codes = encoded.indices.to_numpy()
        for code, path in enumerate(encoded.dictionary.to_pylist()):
            found.setdefault(path, []).append(positions[codes == code])
    return found


def _comparable(values: pa.Array) -> pa.Array:
    return comparable_bits(values) if pa.types.is_floating(values.type) else values
