"""Looks for orphan files below the location of a table: listing, choice, deletion."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import IO, Final, NamedTuple

import msgspec

from floecat.errors import UnprocessableError, UnsupportedOperationError
from floecat.fileio.base import DeleteFailure, FileEntry
from floecat.purge.orphans.needed_files import FolderNeeds
from floecat.purge.sharing.earlier_snapshots import is_metadata_file
from floecat.purge.sharing.kept_files import KeptFiles
from floecat.purge.sharing.location_set import file_key
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["OrphanProgress", "OrphanReport", "OrphanRun", "folder_key"]

_LOGS_OF_OTHERS: Final = frozenset({"_delta_log", ".hoodie", "_versions"})
_KEPT_NAMES: Final = frozenset({"version-hint.text"})
_MOST_FAILURES: Final = 100
_TOLD_AFTER: Final = 500


class OrphanReport(msgspec.Struct, kw_only=True, rename="kebab"):
    """The files found below the location of one table, in numbers."""

    table: str
    location: str = ""
    listed: int = 0
    orphans: int = 0
    orphan_bytes: int = 0
    oldest_modified_at_ms: int | None = None
    """Time of the oldest orphan."""
    needed: int = 0
    """Files that stay, because something leads to them, or another table is there."""
    young: int = 0
    """Files that stay, because they were written within the grace time."""
    hidden: int = 0
    """Files that stay, because their name, or a folder, starts with `_` or `.`."""
    deleted: int = 0
    deleted_bytes: int = 0
    failures: list[DeleteFailure] = []
    """The first of those that could not be deleted."""
    failed: int = 0
    """Number of files that could not be deleted."""
    problem: str | None = None
    """Reason why the table was left alone, in a run over several tables."""


class OrphanProgress(NamedTuple):
    """The progress of a run."""

    listed: int
    orphans: int
    deleted: int


class _Candidates:
    """Files that may be orphans, kept on disk: there may be millions. Closed by its user."""

    def __init__(self) -> None:
        self._lines: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115

    def add(self, entry: FileEntry) -> None:
        self._lines.write(msgspec.json.encode(entry) + b"\n")

    def __iter__(self) -> Iterator[FileEntry]:
        self._lines.seek(0)
        for line in self._lines:
            yield msgspec.json.decode(line, type=FileEntry)

    def close(self) -> None:
        self._lines.close()


class OrphanRun:
    """A run over one table."""

    def __init__(
        self,
        report: OrphanReport,
        storage: CatalogStorage,
        *,
        older_than_ms: int,
        now_ms: int,
        progress: Callable[[OrphanProgress], None],
    ) -> None:
        self._report = report
        self._storage = storage
        self._written_before_ms = now_ms - older_than_ms
        self._progress = progress

    @contextmanager
    def candidates(self) -> Iterator[_Candidates]:
        """An empty list of files on disk."""
        with closing(_Candidates()) as made:
            yield made

    def list_into(self, listed: _Candidates, needs: FolderNeeds, own_metadata: frozenset[bytes]) -> list[str]:
        """Lists the location; keeps what lies below other tables.

        Returns:
            Metadata files in the folders of the table that nothing leads to.
        """
        report, unknown = self._report, []
        for entry in self._storage.files(report.location).list(report.location):
            report.listed += 1
            if report.listed % _TOLD_AFTER == 0:
                self._tell()
            folders, _, name = entry.location[len(report.location) :].strip("/").rpartition("/")
            self._refuse_other_formats(folders)
            if is_metadata_file(name) and entry.location not in needs.files:
                folder = entry.location.rpartition("/")[0]
                if folder_key(folder) in own_metadata:
                    unknown.append(entry.location)
                else:
                    needs.files.add_folder(folder.removesuffix("/metadata"))
            if any(part.startswith(("_", ".")) for part in (*folders.split("/"), name)):
                report.hidden += 1
            elif entry.modified_at_ms > self._written_before_ms:
                report.young += 1
            elif name in _KEPT_NAMES or entry.location in needs.files:
                report.needed += 1
            else:
                listed.add(entry)
        return unknown

    def orphans_of(self, listed: _Candidates, needs: FolderNeeds) -> Iterator[FileEntry]:
        """The orphans; those that turn out to be needed are counted.

        Raises:
            UnprocessableError: a file may be needed under another spelling.
        """
        report = self._report
        for entry in listed:
            if entry.location in needs.files:
                report.needed += 1
                continue
            if needs.files.is_in_doubt(entry.location):
                raise UnprocessableError(
                    f"{entry.location} may be a file that a table needs under another scheme, bucket or"
                    " encoding: nothing was deleted"
                )
            report.orphans += 1
            report.orphan_bytes += entry.size_bytes
            oldest = report.oldest_modified_at_ms
            report.oldest_modified_at_ms = min(oldest or entry.modified_at_ms, entry.modified_at_ms)
            yield entry
        self._tell()

    def delete(
        self, orphans: _Candidates, kept: KeptFiles, check: Callable[[], None], batch_size: int
    ) -> None:
        """Deletes orphans in batches; those that were committed meanwhile stay."""
        rest = iter(orphans)
        while batch := list(islice(rest, batch_size)):
            with kept.batch():
                doomed = [entry for entry in batch if entry.location not in kept]
                self._report.needed += len(batch) - len(doomed)
                check()
                self._delete(doomed)

    def _delete(self, batch: list[FileEntry]) -> None:
        report = self._report
        outcome = self._storage.delete_many([entry.location for entry in batch])
        failed = {failure.location for failure in outcome.failures}
        gone = [entry for entry in batch if entry.location not in failed]
        report.deleted += len(gone)
        report.deleted_bytes += sum(entry.size_bytes for entry in gone)
        report.failed += len(failed)
        report.failures += outcome.failures[: _MOST_FAILURES - len(report.failures)]
        self._tell()

    def _refuse_other_formats(self, folders: str) -> None:
        for name in _LOGS_OF_OTHERS.intersection(folders.split("/")):
            raise UnsupportedOperationError(
                f"Orphan files of {self._report.table} cannot be told: another table format has its log in a"
                f" folder {name} below {self._report.location}"
            )

    def _tell(self) -> None:
        self._progress(OrphanProgress(self._report.listed, self._report.orphans, self._report.deleted))


def folder_key(folder: str) -> bytes:
    """Stands for a folder, whatever alias it was written with."""
    return file_key(f"{folder}/_")
