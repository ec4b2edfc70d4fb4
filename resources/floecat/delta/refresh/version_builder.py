"""Building versions of a Delta table in order, as snapshots of a document."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.artifacts.artifact_paths import ArtifactPaths
from floecat.delta.artifacts.commit_changes import TwoVectorsError
from floecat.delta.artifacts.data_files import known_columns, placed_files
from floecat.delta.artifacts.field_id_copies import required_field_ids
from floecat.delta.artifacts.request_bounds import RequestBounds, RequestWork
from floecat.delta.artifacts.version_context import VersionContext, partition_fields
from floecat.delta.artifacts.version_manifests import TableManifests, VersionManifests
from floecat.delta.log.delta_log import DeltaLog, LogListing
from floecat.delta.log.log_files import DamagedFileError
from floecat.delta.protocol.actions import (
    Commit,
    Metadata,
    Protocol,
    Snapshot,
    check_readable,
    has_in_commit_timestamps,
)
from floecat.delta.refresh.iceberg_document import TableDocument, VersionSnapshot, snapshot_summary
from floecat.delta.translation.column_ids import FieldIds
from floecat.delta.translation.translated_schema import TranslatedSchema, translate_schema
from floecat.delta.translation.widening import check_type_changes, check_widening
from floecat.errors import (
    BadRequestError,
    FileMissingError,
    InvalidDeltaTableError,
    LocationNotAllowedError,
    UnsupportedDeltaTableError,
)
from floecat.iceberg.position_deletes import DeleteFormat
from floecat.iceberg.schemas.partitioning import PartitionSpec

__all__ = ["BuildOptions", "Point", "VersionBuilder", "build_versions"]


@dataclass(frozen=True)
class BuildOptions:
    """The options of a table's translation.

    Attributes:
        paths: where its artifacts go.
        format_version: Iceberg's, 2 or 3.
        position_delete_format: `parquet` or `avro`.
        read_footers: see `VersionContext`.
        may_copy_files: see `VersionContext`.
        bounds: of the request; None in the pipeline.
        check_read: refuses files in folders of other entries, with `BadRequestError`.
    """

    paths: ArtifactPaths
    format_version: int
    position_delete_format: DeleteFormat
    read_footers: bool
    may_copy_files: bool = True
    bounds: RequestBounds | None = None
    check_read: Callable[[Iterable[str]], None] = lambda _: None


_log = logging.getLogger(__name__)

_PATHS_AT_ONCE = 250_000

UNREADABLE = (InvalidDeltaTableError, UnsupportedDeltaTableError, FileMissingError, LocationNotAllowedError)
"""Errors of versions that cannot be read exactly, now or later."""


class FormatVersionError(UnsupportedDeltaTableError):
    """A version needs a higher format version than the document has."""


@dataclass(frozen=True)
class Point:
    """A version with its artifacts, from which the next one can be made.

    Attributes:
        manifests: its manifests.
        protocol: in force.
        metadata: in force.
    """

    manifests: VersionManifests
    protocol: Protocol
    metadata: Metadata

    @property
    def version(self) -> int:
        """The version."""
        return self.manifests.version


class VersionBuilder:
    """Adds versions of one table to its document.

    Attributes:
        ids: ids of the table's columns.
        names: names of partition fields.
        history: metadata of the versions that were added, each with the first version that has it.
        vectorized: whether Spark's vectorised reader reads right all files whose footers were read.
    """

    def __init__(
        self,
        log: DeltaLog,
        listing: LogListing,
        table_manifests: TableManifests,
        document: TableDocument,
        ids: FieldIds,
        names: Mapping[int, str],
        options: BuildOptions,
    ) -> None:
        """Adds snapshots to `document`, new columns to `ids`; `names`: of partition fields, by id."""
        self._log = log
        self._listing = listing
        self._table_manifests = table_manifests
        self._document = document
        self._options = options
        self._translations: dict[object, TranslatedSchema] = {}
        self.ids = ids
        self.names = names
        self.history: list[tuple[int, Metadata]] = []
        self.vectorized = True
        self._last: Point | None = None
        self._work = RequestWork(options.bounds) if options.bounds else None

    def translated(self, metadata: Metadata) -> TranslatedSchema:
        """The Iceberg schema of a metadata."""
        key = (
            metadata.schema_string,
            metadata.partition_columns,
            tuple(sorted(metadata.configuration.items())),
        )
        found = self._translations.get(key)
        if found is None:
            found = self._translations[key] = translate_schema(metadata, self.ids)
        return found

    def add(self, version: int, before: Point | None) -> Point:
        """Builds the artifacts of a version and adds it to the document.

        Args:
            before: the previous version, to build from it; otherwise the version is built from all its files.

        Raises:
            InvalidDeltaTableError: the log, a vector or a file is broken.
            UnsupportedDeltaTableError: there is no exact equal in Iceberg.
            FileMissingError: a file that is needed is missing.
        """
        if before is not None:
            self._last = before
        self._last = point = self._made(version, before)
        return point

    def _made(self, version: int, before: Point | None) -> Point:
        if before is None or before.version != version - 1 or not self._listing.has_commit(version):
            return self._whole(self._snapshot(version), parent=None)
        try:
            commit = self._log.commit(version, before.metadata, before.protocol)
        except DamagedFileError:
            # a checkpoint may hold the state
            return self._whole(self._snapshot(version), parent=None)
        metadata, protocol = commit.metadata or before.metadata, commit.protocol or before.protocol
        check_readable(protocol, metadata)
        if commit.metadata is not None and self._must_be_whole(before.metadata, commit):
            return self._whole(self._snapshot(version), parent=before)
        self._add_work(commit.adds, metadata)
        try:
            manifests = self._table_manifests.successor(
                self._context(version, metadata), before.manifests, commit
            )
        except TwoVectorsError:
            return self._whole(self._snapshot(version), parent=before)
        self._note(manifests, commit.timestamp_ms, metadata, commit)
        return Point(manifests, protocol, metadata)

    def _snapshot(self, version: int) -> Snapshot:
        if self._listing.after is not None:
            # only new versions were listed; a state needs older files too
            self._listing = self._log.listing()
        return self._log.snapshot(self._listing, version)

    def _must_be_whole(self, before: Metadata, commit: Commit) -> bool:
        """Whether entries of older files are wrong under the new schema."""
        if commit.metadata is None:
            return False
        old, new = self.translated(before), self.translated(commit.metadata)
        try:
            return check_widening(old, new) or self._renumbered(old, new)
        except UnsupportedDeltaTableError:
            # a replaced table may change any type: no file of the old one is left
            if self._replaces_all(commit):
                return True
            raise

    @staticmethod
    def _renumbered(old: TranslatedSchema, new: TranslatedSchema) -> bool:
        ids = {leaf.physical_path: leaf.field_id for leaf in old.leaves}
        return any(ids.get(leaf.physical_path, leaf.field_id) != leaf.field_id for leaf in new.leaves)

    def _replaces_all(self, commit: Commit) -> bool:
        files = self._snapshot(commit.version).files
        return bool(pc.all(pc.is_in(files["path"], value_set=commit.adds["path"])).as_py() in (True, None))

    def _whole(self, snapshot: Snapshot, parent: Point | None) -> Point:
        check_readable(snapshot.protocol, snapshot.metadata)
        commit = None
        if self._listing.has_commit(snapshot.version):
            # the state is known without this commit
            with suppress(DamagedFileError):
                commit = self._log.commit(snapshot.version, snapshot.metadata, snapshot.protocol)
        context = self._context(snapshot.version, snapshot.metadata)
        added = commit.adds["path"].combine_chunks() if commit and snapshot.version > 0 else None
        old_files = len(snapshot.files) - (len(added) if added is not None else 0)
        if parent is None and old_files > 0:
            check_type_changes(snapshot.metadata)
            self._check_since_last(snapshot)
        self._add_work(snapshot.files, snapshot.metadata)
        manifests = self._table_manifests.whole(
            context,
            snapshot,
            added,
            parent=parent.version if parent else None,
            next_row_id=self._document.next_row_id,
        )
        self._note(manifests, snapshot.timestamp_ms, snapshot.metadata, commit)
        return Point(manifests, snapshot.protocol, snapshot.metadata)

    def _check_since_last(self, snapshot: Snapshot) -> None:
        """Checks changes of types since the last version built, those that no schema records included.

        Versions in between were refused, maybe for a change of type; later ones may have the same files.
        """
        last = self._last
        if last is None or last.version >= snapshot.version:
            return
        try:
            check_widening(self.translated(last.metadata), self.translated(snapshot.metadata))
        except UnsupportedDeltaTableError:
            older = self._snapshot(last.version).files["path"]
            # in parts: a set of values holds 2 GiB of text
            for start in range(0, len(older), _PATHS_AT_ONCE):
                some = older.slice(start, _PATHS_AT_ONCE)
                if pc.any(pc.is_in(snapshot.files["path"], value_set=some)).as_py():
                    raise

    def _add_work(self, files: pa.Table, metadata: Metadata) -> None:
        try:
            self._options.check_read(placed_files(files))
        except BadRequestError as error:
            # the table's fault, not the request's: other versions may be readable
            raise UnsupportedDeltaTableError(error.message) from None
        if self._work is not None:
            self._work.add(
                files,
                read_footers=self._options.read_footers,
                all_files=bool(self.translated(metadata).without_field_ids),
                copies_vectors=self._options.format_version >= 3,
            )

    def _context(self, version: int, metadata: Metadata) -> VersionContext:
        translated = self.translated(metadata)
        if translated.format_version > self._options.format_version:
            raise FormatVersionError(
                f"Version {version} has types that need Iceberg format version {translated.format_version}"
            )
        fields = partition_fields(translated, self.names)
        options = self._options
        return VersionContext(
            location=self._log.location,
            paths=options.paths,
            version=version,
            translated=translated,
            schema=translated.schema.with_schema_id(self._document.schema(translated.schema)),
            spec=PartitionSpec(self._document.spec(fields), fields),
            format_version=options.format_version,
            position_delete_format=options.position_delete_format,
            read_footers=options.read_footers,
            required_ids=required_field_ids(translated, self.ids),
            columns=known_columns(translated, self.ids),
            may_copy_files=options.may_copy_files,
            work=self._work,
            footer_bytes=self._log.bounds.limits.delta_footer_bytes,
            lost_specs=self._document.lost_specs(translated.schema),
        )

    def _note(
        self, manifests: VersionManifests, timestamp_ms: int, metadata: Metadata, commit: Commit | None
    ) -> None:
        self.ids.hide(sorted(manifests.columns.hidden))
        # raises the generation of the ids, so that all artifacts are made again
        self.ids.set_apart(sorted(manifests.columns.partitions))
        if not self.history or self.history[-1][1] != metadata:
            self.history.append((manifests.version, metadata))
        self.vectorized = self.vectorized and manifests.vectorized
        self._document.add(
            VersionSnapshot(
                version=manifests.version,
                timestamp_ms=self._later(manifests.version, timestamp_ms, metadata),
                schema_id=self._document.schema(self.translated(metadata).schema),
                manifest_list=manifests.manifest_list,
                summary=snapshot_summary(manifests, commit.commit_info if commit else None),
                first_row_id=manifests.first_row_id,
                added_rows=manifests.added_row_ids,
            )
        )

    def _later(self, version: int, timestamp_ms: int, metadata: Metadata) -> int:
        """A time after that of the previous version, as clocks of file systems may go back.

        In-commit timestamps stay; they never go back.
        """
        if has_in_commit_timestamps(metadata):
            return timestamp_ms
        before = max((held for held in self._document.versions if held < version), default=None)
        snapshot = None if before is None else self._document.snapshot(before)
        return timestamp_ms if snapshot is None else max(timestamp_ms, snapshot["timestamp-ms"] + 1)


def build_versions(
    builder: VersionBuilder, versions: Sequence[int], start: Point | None, *, must_have: int | None
) -> Point | None:
    """Adds versions in order. Unreadable ones are left out, unless they must be there.

    Old versions often are unreadable: `VACUUM` removes their files and deletion vectors.
    """
    point = start
    for version in versions:
        try:
            point = builder.add(version, point)
        except UNREADABLE as error:
            if version == must_have:
                raise
            _log.info("version %d is left out: %s", version, error.message)
            point = None
    return point
