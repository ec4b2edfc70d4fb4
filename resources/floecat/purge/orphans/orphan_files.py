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

from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import chain
from typing import Final
from uuid import UUID

from floecat.auth.authorizer import Privilege
from floecat.catalog.namespaces import NamespaceService
from floecat.catalog.tables import TableService
from floecat.entries.areas import folder_text
from floecat.entries.calls import Call, PageRequest
from floecat.entries.formats import is_derived
from floecat.entries.names import missing_table
from floecat.entries.open_entries import EntryParts
from floecat.errors import (
    BadRequestError,
    FileMissingError,
    FloecatError,
    InvalidMetadataError,
    NoSuchTableError,
    UnsupportedOperationError,
)
from floecat.fileio.base import FileEntry
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.identifiers.written_names import written
from floecat.jobs.kinds import JobKind
from floecat.purge.deletion.table_purge import GC_ENABLED, PurgeTarget, Sidecars
from floecat.purge.orphans.needed_files import FolderNeeds, NeededFilesReader
from floecat.purge.orphans.orphan_jobs import OrphanJobs
from floecat.purge.orphans.orphan_run import OrphanProgress, OrphanReport, OrphanRun, folder_key
from floecat.purge.sharing.kept_files import KeptFiles
from floecat.purge.sharing.live_tables import is_foreign
from floecat.purge.sharing.shared_files import PurgeTurns
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.commits import commit_log
from floecat.store.entries.tables import EntryRow

__all__ = ["DEFAULT_GRACE_MS", "LEAST_GRACE_MS", "OrphanFiles"]

LEAST_GRACE_MS: Final = 86_400_000
"""A day: jobs that write and have not committed yet are younger."""
DEFAULT_GRACE_MS: Final = 3 * LEAST_GRACE_MS

_ALL: Final = PageRequest()
_LOOKED_UP_AT_ONCE: Final = 500


class OrphanFiles:
    """Finds and deletes orphan files. Safe to share between threads."""

    def __init__(
        self,
        parts: EntryParts,
        namespaces: NamespaceService,
        tables: TableService,
        needed: NeededFilesReader,
        jobs: OrphanJobs,
        *,
        batch_size: int,
        sidecars: Sequence[Sidecars] = (),
    ) -> None:
        """`batch_size`: files in one call to storage; `sidecars` find further files that stay."""
        self._sidecars = sidecars
        self._parts = parts
        self._namespaces = namespaces
        self._tables = tables
        self._needed = needed
        self._jobs = jobs
        self._batch_size = batch_size

    @property
    def kind(self) -> JobKind:
        """The kind of its jobs."""
        return self._jobs.kind

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
        metadata, row = self._table(call, identifier, delete=delete)
        metadata_location = row.metadata_location
        storage = call.catalog.storage
        found_at = storage.allowed.check(metadata.location)
        if any(found_at.contains(root) for root in storage.allowed.roots):
            raise _refused(identifier, "it has a whole allowed location of the catalog to itself")
        location = str(found_at)
        report = OrphanReport(table=written(identifier, call.catalog.schema_separator), location=location)
        run = OrphanRun(
            report, storage, older_than_ms=older_than_ms, now_ms=self._parts.clock.now_ms(), progress=progress
        )
        with closing(FolderNeeds(self._needed, storage, location)) as needs, run.candidates() as listed:
            needs.refresh()
            target = PurgeTarget(metadata.table_uuid, metadata_location, storage, entry_id=row.id)
            for sidecar in chain.from_iterable(find(target) for find in self._sidecars):
                needs.files.add(sidecar)
            own_metadata = _metadata_folders(metadata, metadata_location)
            others = run.list_into(listed, needs, own_metadata)
            self._keep_dropped_tables(needs, storage, metadata.table_uuid, others)
            with run.candidates() as orphans:
                for entry in run.orphans_of(listed, needs):
                    orphans.add(entry)
                    found(entry)
                if delete and report.orphans:
                    with self._jobs.running(call, identifier, location) as job:
                        turns = PurgeTurns(self._needed.live, job.lease, [folder_text(found_at)])
                        kept = KeptFiles(needs.files, lambda _: needs.refresh(), turns)
                        run.delete(orphans, kept, job.check, self._batch_size)
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
        """Works on each table of a catalog, or of a namespace and those below it, that the principal may see.

        See `find`.

        A table that cannot be worked on has its problem in its report, and the next one follows.

        Raises:
            ForbiddenError: the principal may not use a namespace.
            NoSuchNamespaceError: the namespace does not exist.
        """
        reports = []
        wanted = chain(() if namespace is None else (namespace,), self._namespaces.walk(call, namespace))
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
                report = OrphanReport(
                    table=written(identifier, call.catalog.schema_separator), problem=error.message
                )
            reports.append(report)
        return reports

    def _table(
        self, call: Call, identifier: TableIdentifier, *, delete: bool
    ) -> tuple[TableMetadata, EntryRow]:
        if delete:
            call.check((Privilege.PURGE_TABLE, call.on_entry("table", identifier)))
        entry = self._parts.entries.find_table(call, identifier, Privilege.READ_TABLE)
        if entry is None:
            raise missing_table(identifier)
        if is_derived(entry.row.format):
            raise _refused(identifier, f"it is a {entry.row.format} table: use the tools of its format")
        metadata = entry.document.parsed()
        if is_foreign(metadata):
            raise _refused(identifier, "its property table_type names another format")
        if metadata.properties.get(GC_ENABLED, "true").lower() == "false":
            raise _refused(identifier, f"its property {GC_ENABLED} is false")
        return metadata, entry.row

    def _keep_dropped_tables(
        self, needs: FolderNeeds, storage: CatalogStorage, table_uuid: str, metadata_files: list[str]
    ) -> None:
        """Keeps the files of tables that had the same location and were dropped without purge.

        Args:
            needs: where to add them.
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


def _metadata_folders(metadata: TableMetadata, metadata_location: str) -> frozenset[bytes]:
    files = [metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)]
    folders = {file.rpartition("/")[0] for file in files}
    folders.add(f"{metadata.location.rstrip('/')}/metadata")
    if written := metadata.properties.get("write.metadata.path"):
        folders.add(written.rstrip("/"))
    return frozenset(map(folder_key, folders))


def _spellings(location: str) -> list[str]:
    """The spellings that writers may have used for a location that was listed."""
    scheme, _, rest = location.partition("://")
    if scheme == "s3":
        return [f"{alias}://{rest}" for alias in ("s3", "s3a", "s3n")]
    if scheme == "abfss":
        blob = rest.replace(".dfs.", ".blob.", 1)
        return [
            f"{alias}://{where}" for alias in ("abfss", "abfs", "wasbs", "wasb") for where in (rest, blob)
        ]
    if scheme == "file":
        return [location, f"file:{rest}", rest]
    return [location]


def _refused(identifier: TableIdentifier, reason: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(f"Orphan files of table {identifier} are not looked for: {reason}")
