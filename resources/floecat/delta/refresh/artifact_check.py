"""Artifacts of a table that are missing in storage, as after `VACUUM` deleted them as stray files.

The files that the metadata document leads to are compared with one listing of the folder. Artifacts are
written once: a file of another size is damaged, and counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pyarrow.compute as pc

from floecat.delta.artifacts.artifact_files import ArtifactFiles, ArtifactLostError
from floecat.delta.artifacts.artifact_paths import is_field_id_copy
from floecat.errors import InvalidMetadataError
from floecat.iceberg.manifests.lists import DELETE_MANIFEST, ManifestFile, read_manifest_list
from floecat.iceberg.manifests.reader import ManifestEntryStatus, read_manifest
from floecat.iceberg.values.bounds import process_bounds

__all__ = ["MOST_LISTED", "missing_artifacts"]

MOST_LISTED = 5_000
"""Files that a load lists, a thousand a request. In a larger folder it looks up the oldest files instead."""

_LOOKED_UP = 16
_MOST_OLDER_FILES = 10_000
"""Manifests and delete files of older snapshots that are compared, for each table."""

_LISTED_BYTES = 200
"""Memory of a location beside its text, estimated."""


class _Snapshot(msgspec.Struct, rename="kebab"):
    snapshot_id: int
    manifest_list: str


class _Document(msgspec.Struct, rename="kebab"):
    """The fields of a metadata document that lead to other files."""

    current_snapshot_id: int
    snapshots: list[_Snapshot]


class _Named(msgspec.Struct, frozen=True):
    """The files that a manifest list or a manifest names."""

    size_bytes: int
    """Size of the list or the manifest itself."""
    manifests: tuple[ManifestFile, ...] = ()
    files: Mapping[str, int] = {}
    """Locations and sizes of delete files and copies that are live."""


def missing_artifacts(
    artifacts: ArtifactFiles,
    metadata_file: str,
    document: bytes,
    *,
    has_copies: bool,
    older_lists: int,
    in_request: bool,
) -> Sequence[str]:
    """Locations of artifacts that the document of a table leads to and that are missing or damaged.

    Checked are the metadata file, all files that readers of the current snapshot open, the manifest lists of
    the other snapshots, and the manifests and delete files of the newest of these.

    Args:
        artifacts: those of the table.
        document: what is in that file.
        has_copies: whether data files of the current snapshot may be copies.
        older_lists: how many manifest lists of other snapshots are read.
        in_request: whether a load waits. If the folder holds too many files for it, only the oldest ones of
            the current snapshot are looked up: `VACUUM` goes by age, and so deletes these first.

    Raises:
        LocationNotAllowedError: the folder is outside the allowed locations.
        ForbiddenError: storage refuses the listing.
        StorageUnavailableError: storage fails.
    """
    folder = metadata_file.rpartition("/")[0]
    decoded = msgspec.json.decode(document, type=_Document)
    lists = {each.snapshot_id: each.manifest_list for each in decoded.snapshots}
    newest = lists.pop(decoded.current_snapshot_id)
    older = [lists[version] for version in sorted(lists, reverse=True)]
    reader = _Reader(artifacts, has_copies)
    try:
        needed = reader.opened([newest])
        found = artifacts.sizes(folder, most=MOST_LISTED if in_request else None)
        if found is None:
            oldest = [metadata_file, newest, *sorted(needed, key=_version)][:_LOOKED_UP]
            return [path for path, exists in artifacts.exist(oldest) if not exists]
        needed = reader.opened(older[:older_lists], most_files=_MOST_OLDER_FILES) | needed
    except ArtifactLostError as lost:
        return [str(lost)]
    wanted = {metadata_file: len(document), **dict.fromkeys(older), **needed}
    return [path for path, size in wanted.items() if not _is_whole(found.get(path), size)]


class _Reader:
    """Reads what snapshots need. Files never change, so what they name is cached."""

    def __init__(self, artifacts: ArtifactFiles, has_copies: bool) -> None:
        self._artifacts = artifacts
        self._has_copies = has_copies

    def opened(self, manifest_lists: Sequence[str], *, most_files: int | None = None) -> dict[str, int]:
        """Locations and sizes of the files that readers of snapshots open, without Delta's own.

        Args:
            manifest_lists: of the snapshots.
            most_files: about how many at most; None for all.

        Raises:
            ArtifactLostError: a manifest list or a manifest is missing or damaged.
        """
        needed: dict[str, int] = {}
        lists = self._named([(location, None) for location in manifest_lists])
        for location, listed in zip(manifest_lists, lists, strict=True):
            needed[location] = listed.size_bytes
            new = [each for each in listed.manifests if each.manifest_path not in needed]
            needed |= {each.manifest_path: each.manifest_length for each in new}
            opened = [each for each in new if self._has_copies or each.content == DELETE_MANIFEST]
            if most_files is None or len(needed) + sum(map(_files, opened)) <= most_files:
                for named in self._named([(each.manifest_path, each) for each in opened]):
                    needed |= named.files
        return needed

    def _named(self, wanted: Sequence[tuple[str, ManifestFile | None]]) -> list[_Named]:
        """The names in files: in manifests if their entry in a list is given, otherwise in manifest lists."""
        owner = self._artifacts.owner
        found = {location: self._artifacts.listed.get((owner, location)) for location, _ in wanted}
        unread = [each for each in wanted if found[each[0]] is None]
        read = dict(
            zip((location for location, _ in unread), self._artifacts.each(self._read, unread), strict=True)
        )
        return [found[location] or read[location] for location, _ in wanted]

    def _read(self, wanted: tuple[str, ManifestFile | None]) -> _Named:
        location, manifest = wanted
        try:
            with self._artifacts.opened(location) as data:
                found = _named(data, location, manifest)
        except InvalidMetadataError:  # damaged, or larger than what is written here
            raise ArtifactLostError(location) from None
        self._artifacts.listed.put((self._artifacts.owner, location), found, _weight(location, found))
        return found


def _named(data: bytes, location: str, manifest: ManifestFile | None) -> _Named:
    if manifest is not None:
        return _Named(len(data), files=_made_files(data, manifest))
    listed = read_manifest_list(data, location=location, bounds=process_bounds.limits)
    return _Named(len(data), manifests=tuple(listed))


def _weight(location: str, found: _Named) -> int:
    size = sum(_LISTED_BYTES + len(text) for text in (location, *found.files))
    # entries of manifest lists have counts and bounds too
    return size + sum(4 * _LISTED_BYTES + len(each.manifest_path) for each in found.manifests)


def _made_files(data: bytes, manifest: ManifestFile) -> dict[str, int]:
    found: dict[str, int] = {}
    fields = ("status", "file_path", "file_size_in_bytes")
    location, bounds = manifest.manifest_path, process_bounds.limits
    for entries in read_manifest(data, location=location, fields=fields, bounds=bounds):
        live = entries.table.filter(pc.field("status") != ManifestEntryStatus.DELETED.value)
        sizes = zip(live["file_path"].to_pylist(), live["file_size_in_bytes"].to_pylist(), strict=True)
        found |= sizes if manifest.content == DELETE_MANIFEST else _copies(sizes)
    return found


def _copies(sizes: Iterable[tuple[str, int]]) -> dict[str, int]:
    return {path: size for path, size in sizes if is_field_id_copy(path)}


def _files(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _version(location: str) -> float:
    """The version that wrote a manifest or a delete file; artifacts of a lower one are older."""
    number = location.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isdecimal() else float("inf")


def _is_whole(found: int | None, size: int | None) -> bool:
    return found is not None and (found > 0 if size is None else found == size)
