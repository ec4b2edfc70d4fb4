"""Changes of a commit to the manifest entries of the version before.

For Delta a file is a data file together with its deletion vector (Delta protocol, "Action Reconciliation").
Entries of manifests are found by data file, so the live vector of each data file is looked up: the entry of
its delete file identifies it, and the index of a data manifest names vectors that delete nothing. Only delete
manifests that hold one of the commit's files are read.

| the live file has | the commit                        | entry of the data file | entry of its delete file |
|-------------------|-----------------------------------|------------------------|--------------------------|
| vector v, or none | removes it                        | DELETED                | DELETED                  |
| vector v, or none | removes it, adds it with vector w | kept if the same file  | DELETED; ADDED for w     |
| vector v, or none | adds it again, the same           | DELETED and ADDED      | DELETED and ADDED        |
| vector v, or none | removes it with another vector    | kept                   | kept                     |
| (not live)        | removes it                        | -                      | -                        |
| (not live)        | adds it with vector w, or none    | ADDED                  | ADDED for w              |
| vector v, or none | only adds it with another vector  | `TwoVectorsError`      | `TwoVectorsError`        |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.artifacts.artifact_paths import as_uri, vector_digest, vector_digest_of
from floecat.delta.artifacts.data_files import all_locations
from floecat.delta.artifacts.readded_files import ReaddedFile, with_readded
from floecat.delta.artifacts.version_context import VersionContext
from floecat.delta.log.file_tables import take_rows
from floecat.delta.protocol.actions import Commit
from floecat.errors import InvalidMetadataError
from floecat.iceberg.manifests.index import EntryKeys, ManifestIndex
from floecat.iceberg.manifests.lists import ManifestFile
from floecat.iceberg.manifests.rewriter import FoundEntry, OldManifest, find_entries

__all__ = ["EntryChanges", "LiveManifest", "TwoVectorsError", "entry_changes"]


class TwoVectorsError(Exception):
    """A data file may be live with two vectors after the commit; only the whole state can tell."""


@dataclass(frozen=True)
class LiveManifest:
    """A manifest of the previous version with live entries.

    Attributes:
        manifest: its entry in the list.
        index: its index.
        read: reads the rest of it.
    """

    manifest: ManifestFile
    index: ManifestIndex
    read: Callable[[], OldManifest]


@dataclass(frozen=True)
class EntryChanges:
    """The changes to entries.

    Attributes:
        removed_data: keys of data files whose entries become DELETED.
        removed_deletes: keys of data files whose delete files become DELETED.
        adds: files that the commit adds, as `build_chunk` takes them.
        restores_rows: whether a data file that stays has fewer deleted rows than before.
    """

    removed_data: EntryKeys
    removed_deletes: EntryKeys
    adds: pa.Table
    restores_rows: bool


def entry_changes(
    context: VersionContext,
    commit: Commit,
    data: Sequence[LiveManifest],
    deletes: Sequence[LiveManifest],
) -> EntryChanges:
    """Compares a commit with the previous version.

    Args:
        data: manifests of data files.
        deletes: manifests of delete files.

    Raises:
        TwoVectorsError: a file is added with a vector while it may be live with another one.
        InvalidMetadataError: a manifest is damaged.
    """
    adds, removes = _files(commit.adds, context), _files(commit.removes, context)
    keys = _Keys(context, dict.fromkeys(path for path, _ in (*removes, *adds)))
    live = _live_vectors(keys, data, deletes)
    removed = {path for path, vector in removes if _is_live(live, path, vector)}
    added_again: set[str] = set()
    maybe_new: list[str] = []
    rows: dict[str, int] = {}
    for row, (path, vector) in enumerate(adds):
        if path in rows:
            raise TwoVectorsError(path)
        rows[path] = row
        if path in removed:
            continue
        if path not in live and vector is not None:
            maybe_new.append(path)
        elif _is_live(live, path, vector):
            # a new file without a vector, too: no entry has its key
            added_again.add(path)
        else:
            raise TwoVectorsError(path)
    if maybe_new and _holds_any(data, keys.of(maybe_new)):
        # one of them may be live without a vector
        raise TwoVectorsError(maybe_new[0])
    readded = {path: rows[path] for path in removed & rows.keys()}
    kept = _kept_entries(context, commit.adds, readded, keys, live, data)
    deleted = pc.fill_null(pc.struct_field(commit.adds["deletion_vector"], "cardinality"), 0).to_pylist()
    removed |= added_again
    return EntryChanges(
        keys.of(sorted(removed - {adds[row][0] for row in kept})),
        keys.of(sorted(removed)),
        _adds_with_kept(commit.adds, kept),
        any(path in live and deleted[row] < live[path].deleted_rows for path, row in readded.items()),
    )


@dataclass(frozen=True)
class _LiveVector:
    """The deletion vector that a data file has in the previous version.

    Attributes:
        empty_id: its id, if it deletes nothing.
        digest: its digest otherwise.
        data_file: location of the data file, or of its copy, of which the digest is made.
        deleted_rows: how many rows it deletes.
    """

    empty_id: str | None = None
    digest: str | None = None
    data_file: str = ""
    deleted_rows: int = 0

    def is_vector(self, vector: str) -> bool:
        if self.empty_id is not None:
            return vector == self.empty_id
        return vector_digest(self.data_file, vector) == self.digest


class _Keys:
    """Keys that the entries of a commit's files may have, hashed once for all manifests.

    The key of a data file is its own location or that of its copy. Whether it was copied is unknown here: the
    column whose parts lacked ids may have been dropped since.
    """

    def __init__(self, context: VersionContext, paths: Iterable[str]) -> None:
        self._places = {path: place for place, path in enumerate(paths)}
        spellings = [list(self._places), [context.paths.field_id_copy(path) for path in self._places]]
        if any(path.startswith("/") for path in self._places):
            # earlier releases spelled every file as a URI
            spellings.append([as_uri(path) for path in self._places])
        self._count = len(spellings)
        self._paths = {
            key: path for other in spellings[1:] for key, path in zip(other, self._places, strict=True)
        }
        self.all = EntryKeys(pa.array([key for keys in spellings for key in keys], pa.string()))

    def of(self, paths: Iterable[str]) -> EntryKeys:
        """The keys of some of the files."""
        places = np.array([self._places[path] for path in paths], np.int64)
        starts = [spelling * len(self._places) for spelling in range(self._count)]
        return self.all.chosen(np.concatenate([places + start for start in starts]))

    def path(self, key: str) -> str:
        """The data file of a key."""
        return self._paths.get(key, key)


def _live_vectors(
    keys: _Keys, data: Sequence[LiveManifest], deletes: Sequence[LiveManifest]
) -> dict[str, _LiveVector]:
    """The vectors that the commit's files have in the previous version."""
    live: dict[str, _LiveVector] = {}
    for source, found in _find(deletes, keys.all):
        digest = vector_digest_of(found.file_path)
        if digest is None:
            raise InvalidMetadataError(f"Delete file {found.file_path} was not written by this catalog")
        deleted_rows = source.index.entries["record_count"][found.row].as_py()
        live[keys.path(found.key)] = _LiveVector(None, digest, found.key, deleted_rows)
    for source, found in _find([source for source in data if _has_empty_vectors(source.index)], keys.all):
        vector = source.index.entries["empty_vector"][found.row].as_py()
        if vector is not None:
            live[keys.path(found.key)] = _LiveVector(empty_id=vector)
    return live


def _is_live(live: dict[str, _LiveVector], path: str, vector: str | None) -> bool:
    """Whether a data file, if it is live, has this vector, or none."""
    found = live.get(path)
    if found is None or vector is None:
        return found is None and vector is None
    return found.is_vector(vector)


def _kept_entries(
    context: VersionContext,
    adds: pa.Table,
    readded: dict[str, int],
    keys: _Keys,
    live: dict[str, _LiveVector],
    data: Sequence[LiveManifest],
) -> dict[int, ReaddedFile]:
    """Entries of data files that stay while the vectors change, by the row of the file in the adds.

    Args:
        adds: files that the commit adds.
        readded: files that it removes, too, and their rows in `adds`.
        keys: keys of the commit's files.
        live: vectors in the previous version.
        data: manifests of data files.
    """
    kept: dict[int, ReaddedFile] = {}
    if not readded:
        return kept
    # delete files have the partition spec of their data files
    sources = [source for source in data if source.manifest.partition_spec_id == context.spec.spec_id]
    cardinalities = pc.struct_field(adds["deletion_vector"], "cardinality")
    for source, found in _find(sources, keys.of(readded)):
        path = keys.path(found.key)
        row, vector = readded[path], live.get(path)
        is_copy = found.key != path
        size = source.index.entries["file_size"][found.row].as_py()
        record_count = source.index.entries["record_count"][found.row].as_py()
        if (
            # the entry itself names a vector that deletes nothing
            cardinalities[row].as_py() != 0
            and not (vector and vector.empty_id is not None)
            and (is_copy or size == adds["size_bytes"][row].as_py())
            # an unknown count may be known by now
            and record_count >= 0
        ):
            kept[row] = ReaddedFile(found.key, record_count)
    return kept


def _adds_with_kept(adds: pa.Table, kept: dict[int, ReaddedFile]) -> pa.Table:
    """The adds, with kept entries marked, without those that no longer have a vector."""
    if not kept:
        return adds
    has_vector = adds["deletion_vector"].is_valid().to_pylist()
    rows = [row for row in range(len(adds)) if row not in kept or has_vector[row]]
    marked = with_readded(adds, kept)
    return marked if len(rows) == len(adds) else take_rows(marked, np.array(rows, np.int64))


def _find(sources: Sequence[LiveManifest], keys: EntryKeys) -> Iterator[tuple[LiveManifest, FoundEntry]]:
    for source in sources:
        if source.index.holds(keys):
            for found in find_entries(source.read(), keys):
                yield source, found


def _holds_any(sources: Sequence[LiveManifest], keys: EntryKeys) -> bool:
    return any(source.index.holds(keys) for source in sources)


def _has_empty_vectors(index: ManifestIndex) -> bool:
    return bool(index.entries["empty_vector"].null_count < len(index))


def _files(files: pa.Table, context: VersionContext) -> list[tuple[str, str | None]]:
    """Files as data file and vector."""
    locations = all_locations(files["path"], context.location, None)
    return list(zip(locations, files["dv_id"].to_pylist(), strict=True))
