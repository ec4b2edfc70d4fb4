"""Finds and deletes the orphan files of tables, one table at a time.

Only the location of a table is listed, never a folder of tables: files of a table that was dropped without
purge are nobody's and must stay. Below the location these files stay, too:

- what anything in any catalog leads to, and what open purges and staged tables have;
- files younger than the grace time, since a commit under way may be about to name them;
- everything below the location of another table, of a catalog or not;
- files below folders whose name starts with `_` or `.`, which engines skip as well.

A file that metadata may name in another spelling (scheme, bucket, percent-encoding) stops the job.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import IO, Final, NamedTuple
from uuid import UUID

import msgspec

from floecat.auth.authorizer import Privilege
from floecat.catalog.namespaces import NamespaceService
from floecat.catalog.tables import TableService
from floecat.entries.calls import Call, PageRequest
from floecat.entries.names import missing_table
from floecat.entries.open_entries import EntryParts
from floecat.errors import (
    BadRequestError,
    FileMissingError,
    FloecatError,
    InvalidMetadataError,
    NoSuchTableError,
    UnprocessableError,
    UnsupportedOperationError,
)
from floecat.fileio.base import DeleteFailure, FileEntry
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.purge.live_tables import is_foreign
from floecat.purge.location_set import file_key
from floecat.purge.orphans.needed_files import FolderNeeds, NeededFilesReader
from floecat.purge.table_purge import GC_ENABLED
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store import commit_log

__all__ = ["DEFAULT_GRACE_MS", "LEAST_GRACE_MS", "OrphanFiles", "OrphanProgress", "OrphanReport"]

LEAST_GRACE_MS: Final = 86_400_000
"""A day: jobs that write and have not committed yet are younger."""
DEFAULT_GRACE_MS: Final = 3 * LEAST_GRACE_MS

_ALL: Final = PageRequest()
_METADATA_FILES: Final = (".metadata.json", ".metadata.json.gz")
_LOGS_OF_OTHERS: Final = frozenset({"_delta_log", ".hoodie", "_versions"})
_KEPT_NAMES: Final = frozenset({"version-hint.text"})
_MOST_FAILURES: Final = 100
_LOOKED_UP_AT_ONCE: Final = 500


class OrphanReport(msgspec.Struct, kw_only=True):
    """What was found below the location of one table, in numbers of files."""

    table: str
    location: str = ""
    listed: int = 0
    orphans: int = 0
    orphan_bytes: int = 0
    oldest_modified_at_ms: int | None = None
    """Of the orphans."""
    needed: int = 0
    """Stay, because something leads to them, or another table is there."""
    young: int = 0
    """Stay, because they were written within the grace time."""
    hidden: int = 0
    """Stay, because their name, or a folder, starts with `_` or `.`."""
    deleted: int = 0
    deleted_bytes: int = 0
    failures: list[DeleteFailure] = []
    """The first of those that could not be deleted."""
    failed: int = 0
    """How many could not be deleted."""
    problem: str | None = None
    """Why the table was left alone, in a run over several tables."""


class OrphanProgress(NamedTuple):
    """How far a run is."""

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


class OrphanFiles:
    """Finds and deletes orphan files. Safe to share between threads."""

    def __init__(
        self,
        parts: EntryParts,
        namespaces: NamespaceService,
        tables: TableService,
        needed: NeededFilesReader,
        *,
        batch_size: int,
    ) -> None:
        """Puts it together.

        Args:
            parts: look tables up, and read metadata files.
            namespaces: lists namespaces.
            tables: lists tables.
            needed: reads what must stay.
            batch_size: files in one call to storage.
        """
        self._parts = parts
        self._namespaces = namespaces
        self._tables = tables
        self._needed = needed
        self._batch_size = batch_size

    def find(
        self,
        call: Call,
        identifier: TableIdentifier,
        *,
        older_than_ms: int = DEFAULT_GRACE_MS,
        delete: bool = False,
        found: Callable[[FileEntry], None] = lambda _: None,
        progress: Callable[[OrphanProgress], None] = lambda _: None,
    ) -> OrphanReport:
        """Finds the orphan files of a table, and deletes them if that is wanted.

        Args:
            call: who asks.
            identifier: the table.
            older_than_ms: files that were written later than so long ago stay.
            delete: whether to delete; only a report is made otherwise.
            found: called with each orphan, before anything is deleted.
            progress: called now and then.

        Raises:
            BadRequestError: the grace time is shorter than a day.
            ForbiddenError: the principal may not read the table, or not purge it.
            NoSuchTableError: the table does not exist.
            UnsupportedOperationError: files of the table are not told by its metadata here.
            UnprocessableError: a file may be needed under another spelling; nothing was deleted.
            SharedFilesUnknownError: a table that may need files cannot be read; nothing more was deleted.
            StorageUnavailableError: storage fails.
        """
        if older_than_ms < LEAST_GRACE_MS:
            raise BadRequestError("The grace time of orphan files must be at least a day")
        metadata, metadata_location = self._table(call, identifier, delete=delete)
        storage = call.catalog.storage
        found_at = storage.allowed.check(metadata.location)
        if any(found_at.contains(root) for root in storage.allowed.roots):
            raise _refused(identifier, "it has a whole allowed location of the catalog to itself")
        location = str(found_at)
        report = OrphanReport(table=str(identifier), location=location)
        run = _Run(
            report, storage, older_than_ms=older_than_ms, now_ms=self._parts.clock.now_ms(), progress=progress
        )
        with closing(FolderNeeds(self._needed, storage, location)) as needs, run.candidates() as listed:
            needs.refresh()
            own_metadata = _metadata_folders(metadata, metadata_location)
            others = run.list_into(listed, needs, own_metadata)
            self._keep_dropped_tables(needs, storage, metadata.table_uuid, others)
            with run.candidates() as orphans:
                for entry in run.orphans_of(listed, needs):
                    orphans.add(entry)
                    found(entry)
                if delete:
                    run.delete(orphans, needs, self._batch_size)
        return report

    def find_all(
        self,
        call: Call,
        namespace: Namespace | None = None,
        *,
        older_than_ms: int = DEFAULT_GRACE_MS,
        delete: bool = False,
        found: Callable[[FileEntry], None] = lambda _: None,
        progress: Callable[[OrphanProgress], None] = lambda _: None,
    ) -> list[OrphanReport]:
        """Works on every table of a namespace, or of the catalog, that the principal may see; see `find`.

        A table that cannot be worked on has its problem in its report, and the next one follows.

        Raises:
            ForbiddenError: the principal may not use a namespace.
            NoSuchNamespaceError: the namespace does not exist.
        """
        reports = []
        wanted = self._all_namespaces(call, None) if namespace is None else iter([namespace])
        for identifier in (table for each in wanted for table in self._tables.list(call, each, _ALL).items):
            try:
                report = self.find(
                    call,
                    identifier,
                    older_than_ms=older_than_ms,
                    delete=delete,
                    found=found,
                    progress=progress,
                )
            except NoSuchTableError:
                continue  # dropped meanwhile
            except FloecatError as error:
                report = OrphanReport(table=str(identifier), problem=error.message)
            reports.append(report)
        return reports

    def _all_namespaces(self, call: Call, parent: Namespace | None) -> Iterator[Namespace]:
        for namespace in self._namespaces.list(call, parent, _ALL).items:
            yield namespace
            yield from self._all_namespaces(call, namespace)

    def _table(self, call: Call, identifier: TableIdentifier, *, delete: bool) -> tuple[TableMetadata, str]:
        if delete:
            call.check((Privilege.PURGE_TABLE, call.on_entry("table", identifier)))
        entry = self._parts.entries.find_table(call, identifier, Privilege.READ_TABLE)
        if entry is None:
            raise missing_table(identifier)
        if entry.row.format != "iceberg":
            raise _refused(identifier, f"it is a {entry.row.format} table: use the tools of its format")
        metadata = entry.document.parsed()
        if is_foreign(metadata):
            raise _refused(identifier, "its property table_type names another format")
        if metadata.properties.get(GC_ENABLED, "true").lower() == "false":
            raise _refused(identifier, f"its property {GC_ENABLED} is false")
        return metadata, entry.row.metadata_location

    def _keep_dropped_tables(
        self, needs: FolderNeeds, storage: CatalogStorage, table_uuid: str, metadata_files: list[str]
    ) -> None:
        """Keeps the files of tables that had the same location and were dropped without purge.

        Args:
            needs: where to add them.
            storage: of the catalog.
            table_uuid: of the live table.
            metadata_files: metadata files in its folders that nothing leads to.
        """
        newest: dict[UUID, str] = {}
        spellings = [spelling for file in metadata_files for spelling in _spellings(file)]
        for start in range(0, len(spellings), _LOOKED_UP_AT_ONCE):
            with self._parts.store.read() as conn:
                rows = commit_log.writers_of(conn, spellings[start : start + _LOOKED_UP_AT_ONCE])
            newest.update(rows)
        for location in set(newest.values()):
            try:
                document = self._parts.files.read(storage, location)
                written = TableMetadata.parse(document)
            except (FileMissingError, InvalidMetadataError):
                continue  # no table comes back from it
            if written.table_uuid.lower() != table_uuid.lower():
                self._needed.add_reachable(needs.files, storage, location, document)


class _Run:
    """One run over one table."""

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
            if report.listed % _LOOKED_UP_AT_ONCE == 0:
                self._tell()
            folders, _, name = entry.location[len(report.location) :].strip("/").rpartition("/")
            self._refuse_other_formats(folders)
            if name.endswith(_METADATA_FILES) and entry.location not in needs.files:
                folder = entry.location.rpartition("/")[0]
                if _folder_key(folder) in own_metadata:
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

    def delete(self, orphans: _Candidates, needs: FolderNeeds, batch_size: int) -> None:
        batch: list[FileEntry] = []
        for entry in orphans:
            batch.append(entry)
            if len(batch) == batch_size:
                self._delete(batch, needs)
                batch.clear()
        self._delete(batch, needs)

    def _delete(self, batch: list[FileEntry], needs: FolderNeeds) -> None:
        if not batch:
            return
        report = self._report
        if needs.refresh():
            still = [entry for entry in batch if entry.location not in needs.files]
            report.needed += len(batch) - len(still)
            batch = still
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


def _metadata_folders(metadata: TableMetadata, metadata_location: str) -> frozenset[bytes]:
    files = [metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)]
    folders = {file.rpartition("/")[0] for file in files}
    folders.add(f"{metadata.location.rstrip('/')}/metadata")
    if written := metadata.properties.get("write.metadata.path"):
        folders.add(written.rstrip("/"))
    return frozenset(map(_folder_key, folders))


def _folder_key(folder: str) -> bytes:
    return file_key(f"{folder}/_")


def _spellings(location: str) -> list[str]:
    """How writers may have written a location that was listed."""
    scheme, _, rest = location.partition("://")
    if scheme == "s3":
        return [f"{alias}://{rest}" for alias in ("s3", "s3a", "s3n")]
    if scheme == "file":
        return [location, f"file:{rest}", rest]
    return [location]


def _refused(identifier: TableIdentifier, reason: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(f"Orphan files of table {identifier} are not looked for: {reason}")
