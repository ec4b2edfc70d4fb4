"""Data files of a snapshot that are stored, and their sidecars.

Of each file a capture holds 16 bytes, so that a million of them fit in the memory of a service. Where the
merged columns of a captured snapshot were kept whose files are all in this one, only manifests are read that
differ: an append costs its new files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from floecat.errors import FloecatError
from floecat.statistics.capture.reading.file_groups import has_columns
from floecat.statistics.capture.reading.files_with_deletes import LiveFile, added_files, live_batches
from floecat.statistics.capture.reading.sidecars import (
    FILE_HASH_BYTES,
    FilesSummary,
    Sidecar,
    file_hash,
    read_summary,
)
from floecat.statistics.capture.reading.snapshot_coverage import coverage_of
from floecat.statistics.capture.reading.tables import CapturedSnapshot, CapturedTable
from floecat.store.statistics import captures
from floecat.store.statistics import files as file_rows
from floecat.store.statistics.captures import CaptureRow
from floecat.store.statistics.files import FILES_AT_ONCE, SidecarRow

if TYPE_CHECKING:
    from floecat.planning.plans.task_chunks import ChunkedPlanner
    from floecat.store.database.engine import Store

__all__ = ["Base", "FileSearch", "SnapshotFiles", "UsedSidecar"]

_MOST_CHANGED: Final = 10_000
"""Files in manifests that two snapshots do not share, beyond which all files are looked up."""

_log = logging.getLogger(__name__)


class Base(NamedTuple):
    """The merged columns of a captured snapshot whose files are all in another one."""

    snapshot_id: int
    sidecar: Sidecar
    summary: FilesSummary


class UsedSidecar:
    """A sidecar with files of a snapshot."""

    def __init__(self, row: SidecarRow) -> None:
        self.row = row
        self.hashes = bytearray()
        """Hashes of the files, one after the other; see `file_hash`."""
        self.size_bytes = 0
        """Bytes of the files."""

    @property
    def is_whole(self) -> bool:
        """Whether all its files are in the snapshot, and none twice."""
        if len(self.hashes) != self.row.files * FILE_HASH_BYTES:
            return False
        starts = range(0, len(self.hashes), FILE_HASH_BYTES)
        return len({bytes(self.hashes[start : start + FILE_HASH_BYTES]) for start in starts}) == len(starts)


class SnapshotFiles:
    """The files of a snapshot that `FileSearch` has found.

    Attributes:
        files: its data files.
        stored: those whose statistics are stored.
        base: stored files that were merged before.
        used: sidecars of the other stored files, by path.
    """

    def __init__(self) -> None:
        self.files = self.stored = 0
        self.base: Base | None = None
        self.used: dict[str, UsedSidecar] = {}

    def add(self, live: Sequence[LiveFile], held: Mapping[str, SidecarRow]) -> None:
        """Adds files, and the sidecars of those that are stored."""
        self.files += len(live)
        for each in live:
            row = held.get(each.key)
            if row is not None:
                used = self.used.get(row.path) or self.used.setdefault(row.path, UsedSidecar(row))
                used.hashes += file_hash(each.key)
                used.size_bytes += each.file.size_bytes
                self.stored += 1


class FileSearch:
    """Looks up data files. Safe to share between threads."""

    def __init__(self, store: Store, planner: ChunkedPlanner) -> None:
        self._store = store
        self._planner = planner

    def missing(
        self,
        files: SnapshotFiles,
        snapshot: CapturedSnapshot,
        *,
        own: CaptureRow | None = None,
        only_by: UUID | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> Iterator[list[LiveFile]]:
        """Yields the files of a snapshot that are not stored, some at a time.

        Args:
            files: is filled meanwhile.
            own: the capture of the snapshot, if there is one.
            only_by: only what was submitted for this capture counts as stored.
            check: called now and then; raises to stop.

        Raises:
            FloecatError: a manifest cannot be read, or storage or the store fails.
        """
        table = snapshot.table
        batches: Iterable[list[LiveFile]] | None = None
        if only_by is None:
            batches = self._beside_base(files, snapshot, own)
        if batches is None:
            planner = self._planner.planner()
            batches = live_batches(planner, table.storage, table.metadata, snapshot.id, check, table.own)
        usable: dict[str, bool] = {}

        def is_usable(row: SidecarRow) -> bool:
            if only_by is not None and not row.result_id.startswith(str(only_by)):
                return False
            found = usable.get(row.columns)
            if found is None:
                found = has_columns(row.columns, snapshot.columns, table.metadata.current_schema)
                usable[row.columns] = found
            return found

        for batch in batches:
            for start in range(0, len(batch), FILES_AT_ONCE):
                some = batch[start : start + FILES_AT_ONCE]
                with self._store.read() as conn:
                    held = file_rows.sidecars_of(conn, table.row.id, [each.key for each in some])
                held = {key: row for key, row in held.items() if is_usable(row)}
                files.add(some, held)
                missing = [each for each in some if each.key not in held]
                if missing:
                    yield missing

    def stored_after(
        self, table: CapturedTable, snapshot_id: int, after: str, limit: int
    ) -> list[tuple[LiveFile, SidecarRow]]:
        """Stored files of a snapshot with their sidecars, in order of storage ids.

        Args:
            after: storage id before the first one.
            limit: most files, and at least one.

        Raises:
            FloecatError: a manifest cannot be read, or storage or the store fails.
        """
        page: dict[str, tuple[LiveFile, SidecarRow]] = {}
        last: str | None = None
        planner = self._planner.planner()
        for batch in live_batches(planner, table.storage, table.metadata, snapshot_id, own=table.own):
            # keys begin with storage ids, so they are in the same order
            some = [each for each in batch if each.storage_id > after and (last is None or each.key < last)]
            if not some:
                continue
            with self._store.read() as conn:
                held = file_rows.sidecars_of(conn, table.row.id, [each.key for each in some])
            page |= {each.key: (each, held[each.key]) for each in some if each.key in held}
            page = {key: page[key] for key in sorted(page)[:limit]}
            last = max(page) if len(page) == limit else None
        return list(page.values())

    def _beside_base(
        self, files: SnapshotFiles, snapshot: CapturedSnapshot, own: CaptureRow | None
    ) -> Iterable[list[LiveFile]] | None:
        """The files beside those of a captured snapshot, which count as stored; None without such a one."""
        table, snapshot_id = snapshot.table, snapshot.id
        with self._store.read() as conn:
            newest = captures.newest_finalized(conn, table.row.id)
        for row in (own, newest):
            if row is None:
                continue
            coverage = coverage_of(row)
            if coverage is None or coverage.merged is None or row.problem is not None:
                continue
            if table.metadata.snapshot(row.snapshot_id) is None:
                continue
            if not has_columns(row.columns, snapshot.columns, table.metadata.current_schema):
                continue
            with self._store.read() as conn:
                # one that is not needed does not keep the sidecars that it was merged from
                if not file_rows.is_needed(conn, table.row.id, coverage.merged.path):
                    continue
            try:
                added: list[LiveFile] | None = []
                if row.snapshot_id != snapshot_id:
                    planner = self._planner.planner()
                    added = added_files(
                        planner,
                        table.storage,
                        table.metadata,
                        snapshot_id,
                        row.snapshot_id,
                        _MOST_CHANGED,
                        table.own,
                    )
                if added is None:
                    continue
                summary = read_summary(table.storage, coverage.merged)
            except FloecatError as error:
                _log.info("snapshot %s is captured without another one: %s", snapshot_id, error.message)
                continue
            files.base = Base(row.snapshot_id, coverage.merged, summary)
            files.files = files.stored = coverage.files
            return [added]
        return None
