"""Delete files that apply to a data file (Iceberg table specification, "Scan Planning").

A deletion vector applies to the file it names, and then position deletes do not. Position deletes apply to
the file they name, or to the files of their partition, unless the file is newer; equality deletes to older
files of their partition, or of the table if their spec has no partition.

Writers lose partition values: Iceberg's library and PyIceberg write null, of the null type, for a field whose
source column was dropped when they rewrite a manifest. Such a value may have been any: it equals every other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.avro.string_columns import Bools, Int64s, string_hashes
from floecat.iceberg.file_metrics import ColumnMetrics
from floecat.iceberg.manifests.reader import FileContent
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.values.floats import comparable_bits
from floecat.planning.files.judging import in_signed_order, metrics_evidence
from floecat.planning.files.manifest_files import ManifestColumns, SpecTypes
from floecat.planning.filters.evidence import Evidence
from floecat.planning.filters.vectors import Vector

__all__ = ["PATH_COLUMN_ID", "DeleteIndex", "FoundDeletes", "equality_ids"]

PATH_COLUMN_ID: Final = 2147483546
"""Id of the column of position deletes that holds the path (table specification, "Reserved Field IDs")."""


class FoundDeletes(NamedTuple):
    """Delete files of a manifest that may apply.

    Attributes:
        spec: of the manifest.
        files: of the manifest.
        rows: which of them.
    """

    spec: SpecTypes
    files: ManifestColumns
    rows: Int64s


class _Pairs(NamedTuple):
    """Data files and delete files: rows of one, positions of the other."""

    rows: Int64s
    positions: Int64s

    def keep(self, chosen: Bools) -> _Pairs:
        return _Pairs(self.rows[chosen], self.positions[chosen])


class _Grouped:
    """Positions of delete files by group."""

    def __init__(self, groups: npt.NDArray[np.integer[Any]], positions: Int64s, count: int) -> None:
        """Takes the group of each position, and how many groups there are."""
        self._members = positions[np.argsort(groups, kind="stable")]
        self._sizes = np.bincount(groups, minlength=count)
        self._starts = np.cumsum(self._sizes) - self._sizes

    def pairs(self, rows: Int64s, groups: Int64s) -> _Pairs:
        """Each row with every member of its group."""
        sizes = self._sizes[groups]
        first = np.repeat(self._starts[groups], sizes)
        within = np.arange(len(first)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return _Pairs(np.repeat(rows, sizes), self._members[first + within])


class _Partitions:
    """Delete files of some manifests of one spec, by the values of some partition fields."""

    def __init__(self, fields: Sequence[int], found: Sequence[tuple[ManifestColumns, _Pairs]]) -> None:
        """Takes the fields, by place, and the delete files of each manifest."""
        self._fields = fields
        self._numbers: dict[tuple[object, ...], int] = {}
        groups = [self._numbered(files, pairs.rows) for files, pairs in found]
        positions = _concatenated([pairs.positions for _, pairs in found])
        self._grouped = _Grouped(_concatenated(groups), positions, len(self._numbers))

    def _numbered(self, files: ManifestColumns, rows: Int64s) -> Int64s:
        """The number of the partition of each file; new ones get the next numbers."""
        codes, keys = _keys(files, rows, self._fields)
        numbers = [self._numbers.setdefault(key, len(self._numbers)) for key in keys]
        return np.array(numbers, np.int64)[codes]

    def pairs(self, files: ManifestColumns, rows: Int64s) -> _Pairs:
        """Data files with the deletes of their partitions."""
        codes, keys = _keys(files, rows, self._fields)
        places = np.array([self._numbers.get(key, -1) for key in keys], np.int64)[codes]
        return _matched(self._grouped, places)


class _Paths:
    """Distinct paths, found by their hashes."""

    def __init__(self, paths: pa.StringArray) -> None:
        self._paths = paths
        hashes = string_hashes(paths)
        self._order = np.argsort(hashes)
        self._hashes = hashes[self._order]
        self._is_unique = not (self._hashes[1:] == self._hashes[:-1]).any()

    def __len__(self) -> int:
        return len(self._paths)

    def find(self, paths: pa.StringArray) -> Int64s:
        """The place of each path among these, -1 for nowhere."""
        if not self._is_unique:
            found: Int64s = pc.index_in(paths, self._paths).cast(pa.int64()).fill_null(-1).to_numpy()
            return found
        hashes = string_hashes(paths)
        at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        rows = np.flatnonzero(self._hashes[at] == hashes)
        places = np.full(len(hashes), -1, np.int64)
        places[rows] = self._order[at[rows]]
        same = pc.equal(self._paths.take(pa.array(places[rows])), paths.take(pa.array(rows)))
        places[rows[~same.to_numpy(zero_copy_only=False)]] = -1
        return places


class DeleteIndex:
    """Delete files of a scan, to be matched with data files of one manifest after the other.

    Positions count through the delete files in the order in which they were found.
    """

    def __init__(self, found: Sequence[FoundDeletes], types: Mapping[int, PrimitiveType]) -> None:
        """Takes what was found.

        Args:
            found: the delete files.
            types: of columns, by id.
        """
        self._types = types
        self._found = found
        self._evidence: dict[tuple[int, int], Evidence] = {}
        self._starts = np.cumsum([0, *(len(each.rows) for each in found)])
        self.sequence_numbers = _joined(found, "sequence_number")
        self._contents = _joined(found, "content")
        self._vectors = np.zeros(len(self), np.bool_)
        self._global: list[int] = []
        self._by_fields: dict[tuple[int, tuple[int, ...]], list[tuple[ManifestColumns, _Pairs]]] = {}
        self._partitions: dict[Any, _Partitions] = {}
        paths: list[pa.Array] = [pa.array([], pa.string())]
        by_path: list[Int64s] = []
        for start, each in zip(self._starts.tolist(), found, strict=False):
            positions = start + np.arange(len(each.rows))
            contents = self._contents[positions]
            formats = pc.utf8_lower(each.files.column("file_format", each.rows))
            self._vectors[positions] = pc.equal(formats, "puffin").to_numpy(zero_copy_only=False)
            only = _referenced_paths(each.files, each.rows)
            has_path = only.is_valid().to_numpy(zero_copy_only=False) & (
                contents == FileContent.POSITION_DELETES
            )
            paths.append(only.filter(pa.array(has_path)))
            by_path.append(positions[has_path])
            is_global = (contents == FileContent.EQUALITY_DELETES) & each.spec.is_unpartitioned
            self._global += positions[is_global].tolist()
            rest = ~has_path & ~is_global
            if rest.any():
                same = self._by_fields.setdefault((each.files.spec_id, _fields(each.files)), [])
                same.append((each.files, _Pairs(each.rows[rest], positions[rest])))
        encoded = pa.concat_arrays(paths).dictionary_encode()
        self._paths = _Paths(encoded.dictionary)
        self._by_path = _Grouped(encoded.indices.to_numpy(), _concatenated(by_path), len(self._paths))

    def __len__(self) -> int:
        return int(self._starts[-1])

    def match(self, files: ManifestColumns, rows: Int64s) -> pa.ListArray | None:
        """The deletes of data files.

        Args:
            files: of a manifest, with metrics of `equality_ids`.
            rows: some of them.

        Returns:
            For each row positions, ascending; None if no file has any.
        """
        if not len(self) or not len(rows):
            return None
        pairs = self._candidates(files, rows)
        if not len(pairs.rows):
            return None
        data_numbers = files.numbers("sequence_number")[rows]
        is_equality = self._contents[pairs.positions] == FileContent.EQUALITY_DELETES
        deletes = self.sequence_numbers[pairs.positions]
        older = data_numbers[pairs.rows] < deletes + ~is_equality
        pairs = self._without_replaced(pairs.keep(older), len(rows))
        pairs = self._overlapping(pairs, files, rows)
        if not len(pairs.rows):
            return None
        order = np.lexsort((pairs.positions, pairs.rows))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(pairs.rows, minlength=len(rows)))])
        positions = pa.array(pairs.positions[order], pa.int32())
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), positions)

    def _candidates(self, files: ManifestColumns, rows: Int64s) -> _Pairs:
        found = []
        if len(self._paths):
            found.append(_matched(self._by_path, self._paths.find(files.column("file_path", rows))))
        for spec_id, fields in self._by_fields:
            if spec_id == files.spec_id:
                found.append(self._partitions_by(spec_id, fields, _fields(files)).pairs(files, rows))
        if self._global:
            positions = np.array(self._global, np.int64)
            everything = np.arange(len(rows))
            found.append(_Pairs(np.repeat(everything, len(positions)), np.tile(positions, len(rows))))
        if not found:
            return _Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))
        return _Pairs(
            np.concatenate([pairs.rows for pairs in found]),
            np.concatenate([pairs.positions for pairs in found]),
        )

    def _partitions_by(self, spec_id: int, fields: tuple[int, ...], known: tuple[int, ...]) -> _Partitions:
        """Delete files whose manifests have some partition fields, by those of them that data files have."""
        common = tuple(field for field in fields if field in known)
        key = (spec_id, fields, common)
        if key not in self._partitions:
            self._partitions[key] = _Partitions(common, self._by_fields[spec_id, fields])
        return self._partitions[key]

    def _without_replaced(self, pairs: _Pairs, size: int) -> _Pairs:
        """Drops position deletes of files that have a deletion vector."""
        vectors = self._vectors[pairs.positions]
        if not vectors.any():
            return pairs
        has_vector = np.zeros(size, np.bool_)
        has_vector[pairs.rows[vectors]] = True
        is_position = self._contents[pairs.positions] == FileContent.POSITION_DELETES
        return pairs.keep(vectors | ~is_position | ~has_vector[pairs.rows])

    def _overlapping(self, pairs: _Pairs, files: ManifestColumns, rows: Int64s) -> _Pairs:
        """Drops equality deletes none of whose values is in the file, by the metrics of both."""
        equality = np.flatnonzero(self._contents[pairs.positions] == FileContent.EQUALITY_DELETES)
        if not len(equality):
            return pairs
        keep = np.ones(len(pairs.rows), np.bool_)
        memo: dict[Any, Evidence] = {}
        places = np.searchsorted(self._starts, pairs.positions[equality], side="right") - 1
        for place in np.unique(places).tolist():
            of_place = equality[places == place]
            found = self._found[place]
            delete_rows = found.rows[pairs.positions[of_place] - self._starts[place]]
            ids = found.files.column("equality_ids")
            for id in {
                id for each in ids.take(pa.array(np.unique(delete_rows))).to_pylist() for id in each or ()
            }:
                has_id = np.array([each is not None and id in each for each in ids.to_pylist()])[delete_rows]
                type, data, deletes = self._types.get(id), files.metrics.get(id), found.files.metrics.get(id)
                if type is None or data is None or deletes is None:
                    continue
                apart = _apart(
                    metrics_evidence(data, type, memo).take(rows[pairs.rows[of_place]]),
                    self._delete_evidence(place, deletes, type).take(delete_rows),
                    type,
                )
                keep[of_place[apart & has_id]] = False
        return pairs.keep(keep)

    def _delete_evidence(self, place: int, metrics: ColumnMetrics, type: PrimitiveType) -> Evidence:
        key = (place, metrics.field_id)
        if key not in self._evidence:
            self._evidence[key] = metrics_evidence(metrics, type, {})
        return self._evidence[key]


def equality_ids(found: Iterable[FoundDeletes]) -> frozenset[int]:
    """Columns of equality deletes; `DeleteIndex.match` compares their metrics."""
    return frozenset(
        id
        for each in found
        for ids in each.files.column("equality_ids", each.rows).to_pylist()
        for id in ids or ()
    )


def _apart(data: Evidence, deletes: Evidence, type: PrimitiveType) -> Bools:
    """The pairs in which a column has no value in common, null included."""
    no_nulls = data.flag(data.no_nulls) | deletes.flag(deletes.no_nulls)
    apart = data.flag(data.only_nulls) & deletes.flag(deletes.no_nulls)
    apart |= deletes.flag(deletes.only_nulls) & data.flag(data.no_nulls)
    bounds = (data.lower, data.upper, deletes.lower, deletes.upper)
    known = [each for each in bounds if each is not None]
    if len(known) < len(bounds):
        return apart
    beyond = _beyond(known)
    if type.name == "uuid" and beyond.any():
        # bounds may be of either order
        beyond &= _beyond([in_signed_order(each) for each in known])
    # NaN is outside bounds
    no_nans = data.flag(data.no_nans) | deletes.flag(deletes.no_nans)
    return apart | (beyond & no_nulls & (no_nans if type.name in ("float", "double") else np.True_))


def _beyond(bounds: Sequence[Vector]) -> Bools:
    data_lower, data_upper, lower, upper = bounds
    return data_upper.less_than(lower) | upper.less_than(data_lower)


def _matched(grouped: _Grouped, places: npt.NDArray[Any]) -> _Pairs:
    """Each row with the members of its group; the group -1 has none."""
    rows = np.flatnonzero(places >= 0)
    return grouped.pairs(rows, places[rows].astype(np.int64))


def _concatenated(arrays: Sequence[Int64s]) -> Int64s:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


def _joined(found: Sequence[FoundDeletes], name: str) -> Int64s:
    return _concatenated([each.files.numbers(name)[each.rows].astype(np.int64) for each in found])


def _referenced_paths(files: ManifestColumns, rows: Int64s) -> pa.StringArray:
    """The only data file that position deletes apply to: as they say, or because both bounds are its path."""
    paths = files.column("referenced_data_file", rows)
    metrics = files.metrics.get(PATH_COLUMN_ID)
    if metrics is None or metrics.lower_bounds is None or metrics.upper_bounds is None:
        return paths
    places = pa.array(rows)
    lower, upper = metrics.lower_bounds.take(places), metrics.upper_bounds.take(places)
    only = pc.if_else(pc.equal(lower, upper), lower, None).cast(pa.string(), safe=False)
    return pc.coalesce(paths, only)


def _keys(
    files: ManifestColumns, rows: Int64s, fields: Sequence[int]
) -> tuple[Int64s, list[tuple[object, ...]]]:
    """Distinct values of partition fields, and which of them each file has."""
    codes, firsts = _codes(files, rows, fields)
    places = pa.array(rows[firsts])
    columns = [_comparable(files.partitions.field(field)).take(places).to_pylist() for field in fields]
    return codes, list(zip(*columns, strict=True)) if columns else [()] * len(firsts)


def _codes(files: ManifestColumns, rows: Int64s, fields: Sequence[int]) -> tuple[Int64s, Int64s]:
    """A number for each file, equal for files of the same values; and a file of each number."""
    codes = np.zeros(len(rows), np.int64)
    places = pa.array(rows)
    for field in fields:
        column = _comparable(files.partitions.field(field)).take(places)
        encoded = column.dictionary_encode(null_encoding="encode")
        indices = encoded.indices.to_numpy(zero_copy_only=False)
        _, codes = np.unique(codes * len(encoded.dictionary) + indices, return_inverse=True)
    _, firsts, codes = np.unique(codes, return_index=True, return_inverse=True)
    return codes, firsts


def _fields(files: ManifestColumns) -> tuple[int, ...]:
    """The partition fields whose values a manifest has, by place."""
    kind = files.partitions.type
    return tuple(place for place in range(kind.num_fields) if not pa.types.is_null(kind.field(place).type))


def _comparable(array: pa.Array) -> pa.Array:
    if pa.types.is_floating(array.type):
        return comparable_bits(array)
    if pa.types.is_temporal(array.type):
        return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return array
