"""Page-index sidecars of the data files of a table, as index artifacts of its current snapshot."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from floecat.errors import AlreadyExistsError, FloecatError, NoSuchTableError, UnavailableError
from floecat.events.table_description import snapshot_totals
from floecat.statistics.capture.counting import FileReader, FileSource
from floecat.statistics.capture.groups import FileProblem, shortened
from floecat.statistics.capture.live_files import LiveFile, live_batches
from floecat.statistics.capture.tables import CapturedTable, find_table
from floecat.statistics.index_artifacts import IndexArtifact, IndexCoverage, artifact_of, artifact_row
from floecat.statistics.records import FileTarget
from floecat.store.database.engine import Connection
from floecat.store.database.errors import ForeignKeyError
from floecat.store.statistics import artifact_files
from floecat.store.statistics import files as file_rows
from floecat.store.statistics.snapshot_records import INDEX_ARTIFACTS

if TYPE_CHECKING:
    from floecat.entries.open_entries import EntryParts
    from floecat.planning.plans.task_chunks import ChunkedPlanner

__all__ = ["BuiltIndexes", "PageIndexes"]

_BATCH: Final = 100


class BuiltIndexes(msgspec.Struct, frozen=True):
    """What a build did."""

    snapshot_id: int
    built: int
    """Sidecars that were written."""
    kept: int
    """Data files whose sidecar was there."""
    size_bytes: int
    """Of the sidecars that were written."""
    problems: Sequence[FileProblem]
    """Data files without a sidecar, and why."""


class PageIndexes:
    """Builds sidecars. Safe to share between threads."""

    def __init__(self, parts: EntryParts, planner: ChunkedPlanner, memory_bytes: int) -> None:
        """Takes the store, what plans scans, and what may be held of a file at a time."""
        self._memory_bytes = memory_bytes
        self._parts = parts
        self._planner = planner

    def build(
        self, entry_id: UUID, progress: Callable[[int, int], None] = lambda *_: None
    ) -> BuiltIndexes | None:
        """Writes the sidecars that the current snapshot of a table lacks, and puts all of them as artifacts.

        A sidecar is named by its data file and the deletes that apply to it, so snapshots share it.

        Args:
            entry_id: the table.
            progress: called with the number of data files done, and of all.

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
        total = snapshot_totals(table.metadata, snapshot_id).data_files or 0
        batches = live_batches(self._planner.planner(), table.storage, table.metadata, snapshot_id)
        built = kept = size_bytes = 0
        problems: list[FileProblem] = []
        with FileReader(FileSource.of(table, snapshot_id), table.storage.files, self._memory_bytes) as reader:
            for live in (some for batch in batches for some in _parts(batch)):
                done = built + kept + len(problems)
                known = self._known(entry_id, live)
                made: list[IndexArtifact] = []
                for number, each in enumerate(live, done):
                    progress(number, max(total, number))
                    path = f"{table.folder}/{each.key}.page-index.parquet"
                    artifact = known.get(path)
                    if artifact is not None:
                        kept += 1
                    else:
                        try:
                            artifact, size = self._write(table, reader, each, path)
                        except UnavailableError:
                            raise
                        except FloecatError as error:
                            problems.append(FileProblem(each.file.location, shortened(error.message)))
                            continue
                        built += 1
                        size_bytes += size
                    made.append(artifact)
                self._put(table, snapshot_id, made)
        return BuiltIndexes(snapshot_id, built, kept, size_bytes, problems)

    def _known(self, entry_id: UUID, live: Sequence[LiveFile]) -> dict[str, IndexArtifact]:
        """Artifacts of data files that a snapshot has, by location."""
        with self._parts.store.read() as conn:
            bodies = artifact_files.retained(conn, entry_id, [each.storage_id for each in live])
        return {artifact.artifact_uri: artifact for artifact in map(artifact_of, bodies)}

    def _write(
        self, table: CapturedTable, reader: FileReader, live: LiveFile, path: str
    ) -> tuple[IndexArtifact, int]:
        index = reader.page_index(live.file)
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
        ), len(index.data)

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


def _parts(live: Sequence[LiveFile]) -> Iterator[Sequence[LiveFile]]:
    return (live[start : start + _BATCH] for start in range(0, len(live), _BATCH))
