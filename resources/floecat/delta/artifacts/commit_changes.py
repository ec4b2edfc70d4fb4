"""What a commit does to the entries of the version before.

For Delta a file is a data file together with its deletion vector (Delta protocol, "Action Reconciliation"):
a `remove` that names another vector than the live one is about a file that is gone already, and does nothing.
Entries of manifests go by data files, so the vector that each has now is looked up: the name of its delete
file is made from the vector's id. Only delete manifests that hold one of the commit's files are read for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.artifacts.artifact_paths import as_uri
from floecat.delta.artifacts.data_file_locations import data_file_locations
from floecat.delta.artifacts.readded_files import CarriedFile, with_carried
from floecat.delta.artifacts.version_context import ChunkContext
from floecat.delta.log.file_tables import take_rows
from floecat.delta.protocol.actions import Commit
from floecat.iceberg.manifests.entry_keys import EntryKeys, FoundEntry
from floecat.iceberg.manifests.index import ManifestIndex
from floecat.iceberg.manifests.lists import ManifestFile
from floecat.iceberg.manifests.rewriter import OldManifest, find_entries

__all__ = ["FileChanges", "SourceManifest", "TwoVectorsError", "file_changes"]


class TwoVectorsError(Exception):
    """After the commit a data file may be live with two vectors, which only the whole state can tell."""


@dataclass(frozen=True)
class SourceManifest:
    """A manifest of the version before.

    Attributes:
        manifest: its entry in the list.
        index: its index.
        read: reads the rest of it.
    """

    manifest: ManifestFile
    index: ManifestIndex
    read: Callable[[], OldManifest]


@dataclass(frozen=True)
class FileChanges:
    """What becomes of entries.

    Attributes:
        gone: keys of data files whose entries go.
        gone_deletes: keys of data files whose delete files go.
        adds: files that the commit adds, as `build_chunk` takes them.
    """

    gone: EntryKeys
    gone_deletes: EntryKeys
    adds: pa.Table


def file_changes(
    context: ChunkContext,
    commit: Commit,
    data: Sequence[SourceManifest],
    deletes: Sequence[SourceManifest],
) -> FileChanges:
    """Compares a commit with the version before it.

    Args:
        context: what the version is.
        commit: its commit.
        data: manifests of data files that have live entries.
        deletes: likewise of delete files.

    Raises:
        TwoVectorsError: a file is added with a vector while it may be live with another one.
        InvalidMetadataError: a manifest is damaged.
    """
    return _Comparison(context, commit, data, deletes).changes()


class _Live:
    """A data file of the commit that has a vector now."""

    def __init__(self, found: FoundEntry, empty_vector: str | None) -> None:
        self.deletes_nothing = empty_vector is not None
        self._found = found
        self._empty_vector = empty_vector

    def has(self, vector: str | None, context: ChunkContext) -> bool:
        """Whether this is its vector."""
        if vector is None:
            return False
        if self._empty_vector is not None:
            return vector == self._empty_vector
        # all but the digest may differ: the version that brought it, and the format
        name = context.paths.puffin(0, self._found.key, vector).rpartition("-dv-")[2]
        return f"-{name.partition('.')[0]}.".encode() in self._found.data


class _Comparison:
    def __init__(
        self,
        context: ChunkContext,
        commit: Commit,
        data: Sequence[SourceManifest],
        deletes: Sequence[SourceManifest],
    ) -> None:
        self._context = context
        self._data = data
        self._adds = commit.adds
        self._added = _files(commit.adds, context)
        self._removed = _files(commit.removes, context)
        paths = list(dict.fromkeys(path for path, _ in (*self._removed, *self._added)))
        # whether a file was copied is not seen here: a column whose parts lacked ids may be gone by now
        names = [paths, [context.paths.numbered_file(path) for path in paths]]
        if any(path.startswith("/") for path in paths):
            # earlier releases spelled every file as a URI
            names.append([as_uri(path) for path in paths])
        self._originals = {name: path for other in names[1:] for name, path in zip(other, paths, strict=True)}
        self._places = {path: place for place, path in enumerate(paths)}
        # hashed once for all manifests
        self._spellings = len(names)
        self._all_keys = keys = EntryKeys(pa.array([name for some in names for name in some], pa.string()))
        self._live = {self._original(found.key): _Live(found, None) for _, found in _find(deletes, keys)}
        for source, found in _find([source for source in data if _has_empty_vectors(source.index)], keys):
            vector = source.index.entries["empty_vector"][found.row].as_py()
            if vector is not None:
                self._live[self._original(found.key)] = _Live(found, vector)

    def changes(self) -> FileChanges:
        """See `file_changes`."""
        removed = {path for path, vector in self._removed if self._is_live(path, vector)}
        replaced, changed, unclear = set(), {}, []
        for row, (path, vector) in enumerate(self._added):
            if path in removed:
                changed[path] = row
            elif path in self._live or vector is None:
                if not self._is_live(path, vector):
                    raise TwoVectorsError(path)
                # the same file once more, with other statistics
                replaced.add(path)
            else:
                unclear.append(path)
        # a new file, if it is not live without a vector
        if unclear and _holds_any(self._data, self._keys(unclear)):
            raise TwoVectorsError(unclear[0])
        carried = self._carried(changed)
        gone = removed | replaced
        # carried files that have no vector any more need nothing
        vectors = self._adds["deletion_vector"].is_valid().to_pylist() if carried else []
        kept = [row for row in range(len(self._adds)) if row not in carried or vectors[row]]
        adds = with_carried(self._adds, carried)
        return FileChanges(
            self._keys(sorted(gone - {self._added[row][0] for row in carried})),
            self._keys(sorted(gone)),
            adds if len(kept) == len(adds) else take_rows(adds, np.array(kept, np.int64)),
        )

    def _is_live(self, path: str, vector: str | None) -> bool:
        """Whether a data file that is live is so with this vector."""
        live = self._live.get(path)
        return vector is None if live is None else live.has(vector, self._context)

    def _carried(self, changed: dict[str, int]) -> dict[int, CarriedFile]:
        """Files whose entries can stay while their vector changes, by their rows in the adds.

        Args:
            changed: files that are removed with one vector and added with another, and their rows.
        """
        carried: dict[int, CarriedFile] = {}
        if not changed:
            return carried
        # delete files have the partition spec of their data files
        spec_id = self._context.spec.spec_id
        sources = [source for source in self._data if source.manifest.partition_spec_id == spec_id]
        cardinalities = pc.struct_field(self._adds["deletion_vector"], "cardinality")
        sizes = self._adds["size_bytes"]
        for source, found in _find(sources, self._keys(changed)):
            path = self._original(found.key)
            row = changed[path]
            live = self._live.get(path)
            is_copy = found.key != path
            size = source.index.entries["file_size"][found.row].as_py()
            record_count = source.index.entries["record_count"][found.row].as_py()
            if (
                # the index tells of these
                cardinalities[row].as_py() != 0
                and not (live and live.deletes_nothing)
                and (is_copy or size == sizes[row].as_py())
                # what was not known may be so now
                and record_count >= 0
            ):
                carried[row] = CarriedFile(found.key, record_count)
        return carried

    def _keys(self, paths: Iterable[str]) -> EntryKeys:
        """Keys that entries of data files may have: their own names, or those of their copies."""
        places = np.array([self._places[path] for path in paths], np.int64)
        starts = [spelling * len(self._places) for spelling in range(self._spellings)]
        return self._all_keys.chosen(np.concatenate([places + start for start in starts]))

    def _original(self, key: str) -> str:
        return self._originals.get(key, key)


def _find(sources: Sequence[SourceManifest], keys: EntryKeys) -> Iterator[tuple[SourceManifest, FoundEntry]]:
    for source in sources:
        if source.index.holds(keys):
            for found in find_entries(source.read(), keys):
                yield source, found


def _holds_any(sources: Sequence[SourceManifest], keys: EntryKeys) -> bool:
    return any(source.index.holds(keys) for source in sources)


def _has_empty_vectors(index: ManifestIndex) -> bool:
    return bool(index.entries["empty_vector"].null_count < len(index))


def _files(files: pa.Table, context: ChunkContext) -> list[tuple[str, str | None]]:
    """Files as data file and vector."""
    locations: Any = data_file_locations(files["path"], context.location, None)
    return list(zip(locations.to_pylist(), files["dv_id"].to_pylist(), strict=True))
