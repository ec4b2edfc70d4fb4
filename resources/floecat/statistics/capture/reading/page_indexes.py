"""Page-index sidecars of the data files of a table, as index artifacts of its current snapshot."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

import msgspec

from floecat.errors import AlreadyExistsError, NoSuchTableError
from floecat.events.table_description import snapshot_totals
from floecat.statistics.capture.reading.counting import FileReader, FileSource
from floecat.statistics.capture.reading.file_groups import FileProblem, read_elsewhere, read_file
from floecat.statistics.capture.reading.files_with_deletes import LiveFile, live_batches
from floecat.statistics.capture.reading.processes import Check, RunWork
from floecat.statistics.capture.reading.tables import CapturedTable, find_table
from floecat.statistics.files.page_index import PageIndex
from floecat.statistics.files.summaries import DataFile
from floecat.statistics.index_artifacts import IndexArtifact, IndexCoverage, artifact_of, artifact_row
from floecat.statistics.records import FileTarget
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.database.engine import Connection
from floecat.store.database.errors import ForeignKeyError
from floecat.store.statistics import artifact_files
from floecat.store.statistics import files as file_rows
from floecat.store.statistics.snapshot_records import INDEX_ARTIFACTS

if TYPE_CHECKING:
    from floecat.entries.open_entries import EntryParts
    from floecat.planning.plans.task_chunks import ChunkedPlanner

__all__ = ["BuiltIndexes", "PageIndexes", "ReadIndexes"]

ReadIndexes: TypeAlias = Callable[
    [CapturedTable, FileSource, Sequence[DataFile]], Iterable[PageIndex | FileProblem]
]
"""Makes the sidecars of data files, or says why not; raises `UnavailableError` if storage fails."""

_BATCH: Final = 100


class BuiltIndexes(msgspec.Struct, frozen=True):
    """The result of a build."""

    snapshot_id: int
    built: int
    """Sidecars that were written."""
    kept: int
    """Data files whose sidecar was there."""
    size_bytes: int
    """Size of the sidecars that were written."""
    problems: Sequence[FileProblem]
    """Data files without a sidecar, and why."""


class PageIndexes:
    """Builds sidecars. Safe to share between threads."""

    def __init__(self, parts: EntryParts, planner: ChunkedPlanner, run: RunWork, memory_bytes: int) -> None:
        self._run = run
        self._memory_bytes = memory_bytes
        self._parts = parts
        self._planner = planner

    def build(
        self,
        entry_id: UUID,
        progress: Callable[[int, int], None] = lambda *_: None,
        read_large: ReadIndexes | None = None,
        large_bytes: int = 0,
    ) -> BuiltIndexes | None:
        """Writes the sidecars that the current snapshot of a table lacks, and puts all of them as artifacts.

        A sidecar is named by its data file and the deletes that apply to it, so snapshots share it.

        Args:
            progress: called with the number of data files done, and of all.
            read_large: reads the data files in other processes if there is much to read.
            large_bytes: of data files without a sidecar, from which on there is much to read.

        Returns:
            What was built; None if the table was dropped or has no snapshot.

        Raises:
            FileMissingError: a manifest is gone.
            InvalidMetadataError: a manifest is damaged.
            UnavailableError: storage or the store fails.
        """
        table = find_table(self._parts, entry_id)
        if table is None or table.metadata.current_snapshot_id is None:
            return None
        snapshot_id = table.metadata.current_snapshot_id
        totals = snapshot_totals(table.metadata, snapshot_id)
        read: ReadIndexes = self._read
        if read_large is not None and (totals.files_size is None or totals.files_size >= large_bytes):
            sizes = (
                each.file.size_bytes
                for live, known in self._batches(table, snapshot_id)
                for each in live
                if _path(table, each) not in known
            )
            if sum(sizes) >= large_bytes:
                read = read_large
        source = FileSource.of(table, snapshot_id)
        done = built = size_bytes = 0
        problems: list[FileProblem] = []
        for live, known in self._batches(table, snapshot_id):
            made = [known[path] for each in live if (path := _path(table, each)) in known]
            missing = [each for each in live if _path(table, each) not in known]
            done += len(made)
            found = read(table, source, [each.file for each in missing]) if missing else ()
            for each, index in zip(missing, found, strict=True):
                progress(done, max(totals.data_files or 0, done))
                done += 1
                if isinstance(index, FileProblem):
                    problems.append(index)
                    continue
                made.append(self._write(table, each, index))
                built += 1
                size_bytes += len(index.data)
            self._put(table, snapshot_id, made)
        return BuiltIndexes(snapshot_id, built, done - built - len(problems), size_bytes, problems)

    def _batches(
        self, table: CapturedTable, snapshot_id: int
    ) -> Iterator[tuple[Sequence[LiveFile], Mapping[str, IndexArtifact]]]:
        """Data files of a snapshot, and the artifacts of those that have a sidecar, by its location."""
        planner = self._planner.planner()
        for batch in live_batches(planner, table.storage, table.metadata, snapshot_id, own=table.own):
            for start in range(0, len(batch), _BATCH):
                live = batch[start : start + _BATCH]
                yield live, self._known(table.row.id, live)

    def _known(self, entry_id: UUID, live: Sequence[LiveFile]) -> dict[str, IndexArtifact]:
        """Artifacts of data files that a snapshot has, by location."""
        with self._parts.store.read() as conn:
            bodies = artifact_files.retained(conn, entry_id, [each.storage_id for each in live])
        return {artifact.artifact_uri: artifact for artifact in map(artifact_of, bodies)}

    def _read(
        self, table: CapturedTable, source: FileSource, files: Sequence[DataFile]
    ) -> Iterator[PageIndex | FileProblem]:
        read = partial(_page_index, source, table.storage, self._memory_bytes)
        for file in files:
            yield read_elsewhere(self._run, read, file)

    def _write(self, table: CapturedTable, live: LiveFile, index: PageIndex) -> IndexArtifact:
        path = _path(table, live)
        table.storage.allowed.check(path)
        with suppress(AlreadyExistsError):
            # the name stands for these bytes
            table.storage.files(path).write_new(path, index.data, unique_name=True)
        now_ms = self._parts.clock.now_ms()
        return IndexArtifact(
            target=FileTarget(live.file.location),
            artifact_uri=path,
            content_etag=index.sha256.hex(),
            content_sha256_b64=base64.b64encode(index.sha256).decode(),
            created_at_ms=now_ms,
            refreshed_at_ms=now_ms,
            coverage=IndexCoverage(
                rows_indexed=index.rows,
                live_rows_indexed=index.live_rows,
                pages_indexed=index.pages,
                row_groups_indexed=index.row_groups,
                bytes_scanned=live.file.size_bytes,
            ),
            source_file_format=live.file.format,
            properties={"materialization": "page_index"},
        )

    def _put(self, table: CapturedTable, snapshot_id: int, artifacts: Sequence[IndexArtifact]) -> None:
        if not artifacts:
            return
        now_ms = self._parts.clock.now_ms()
        rows = [artifact_row(snapshot_id, artifact, now_ms) for artifact in artifacts]
        paths = [artifact.artifact_uri for artifact in artifacts]

        def put(conn: Connection) -> None:
            INDEX_ARTIFACTS.put(conn, table.row.id, rows)
            file_rows.forget(conn, table.row.id, paths)  # snapshots that expired may have left them

        try:
            self._parts.store.run(put)
        except ForeignKeyError:
            # dropped meanwhile: no purge knows these files
            table.storage.delete_many(paths)
            raise NoSuchTableError(f"Table does not exist: {table.row.name}") from None


def _page_index(
    source: FileSource, storage: CatalogStorage, memory_bytes: int, file: DataFile, _check: Check
) -> PageIndex | FileProblem:
    with FileReader(source, storage.files, memory_bytes) as reader:
        return read_file(reader.page_index, file)


def _path(table: CapturedTable, live: LiveFile) -> str:
    """The location of a sidecar."""
    return f"{table.folder}/{live.key}.page-index.parquet"
