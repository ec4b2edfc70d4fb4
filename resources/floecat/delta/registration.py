"""Registration of Delta tables: an entry for a Delta log that is already in storage.

The entry is inserted first, in one transaction and without metadata; then the log is read. So a table that
cannot be read is in the catalog too: it is listed, and loading it reports what is wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID, uuid4

import msgspec

from floecat.auth.authorizer import Privilege
from floecat.connectors.registrations import TableOfConnector, TableRegistration
from floecat.delta import delta_rows as delta_tables
from floecat.delta.delta_format import DeltaLoads
from floecat.delta.delta_rows import DeltaTableRow
from floecat.delta.log.log_files import LOG_FOLDER, check_no_links, has_delta_log
from floecat.entries.calls import Call
from floecat.entries.idempotency_keys import Finish, JsonAnswer
from floecat.entries.names import namespace_for
from floecat.entries.open_entries import EntryParts
from floecat.entries.overlaps import entry_folders
from floecat.entries.prepared_changes import EncodedDocument, Prepared, compressed, is_purged, write_rows
from floecat.errors import (
    BadRequestError,
    ConflictError,
    FloecatError,
    UnavailableError,
)
from floecat.fileio.locations import check_new_location
from floecat.iceberg.values.text_limits import check_stored_text
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.store.database.engine import Connection
from floecat.store.database.errors import DuplicateKeyError, ForeignKeyError
from floecat.store.entries import tables
from floecat.store.entries.documents import no_metadata_location
from floecat.store.entries.tables import EntryRow

__all__ = ["RegisterDeltaService"]

FORMAT_VERSIONS = (2, 3)
"""Iceberg format versions that a Delta table can be read as."""

_log = logging.getLogger(__name__)

_ATTEMPTS = 5
_LONGEST_LOCATION = 2000
_DEFAULT_FORMAT_VERSION = 2
_NO_DOCUMENT = EncodedDocument(b"{}")


class _Kept(msgspec.Struct, frozen=True):
    """The content of an idempotency key. A replay reads the newest version again."""

    entry_id: UUID
    location: str
    table_uuid: str


class RegisterDeltaService:
    """Registers Delta tables."""

    def __init__(
        self,
        parts: EntryParts,
        loads: DeltaLoads,
        *,
        compat_location: str | None,
    ) -> None:
        """`compat_location`: holds a folder of artifacts for each table; `None` for its `metadata`."""
        self._store = parts.store
        self._guard = parts.guard
        self._clock = parts.clock
        self._entries = parts.entries
        self._keys = parts.keys
        self._storages = parts.storages
        self._overlaps = parts.overlaps
        self._loads = loads
        self._compat_location = compat_location

    def register(
        self,
        call: Call,
        namespace: Namespace,
        name: str,
        location: str,
        *,
        format_version: int | None = None,
        connector_id: UUID | None = None,
        read: bool = True,
    ) -> TableRegistration:
        """Makes a table of a Delta log, and reads the log, so that the first load finds the table ready.

        Args:
            namespace: where the table will be.
            location: absolute URI of the folder that holds `_delta_log`.
            format_version: Iceberg format version; `None` for that of the settings.
            connector_id: the connector that found the table.
            read: whether the log is read now; otherwise the first load or the pipeline reads it.

        Raises:
            BadRequestError: a name, the location or the format version is malformed, or there is no Delta log
                at the location, or one with links.
            LocationNotAllowedError: the location is outside the allowed ones.
            NoSuchNamespaceError: the namespace does not exist.
            AlreadyExistsError: the name is taken, by a table or a view.
            ConflictError: a table at this location was dropped, and its artifacts are being deleted.
            CommitStateUnknownError: the table may have been registered.
        """
        identifier = TableIdentifier(namespace, name)

        def work(finish: Finish[_Kept]) -> _Kept:
            for _ in range(_ATTEMPTS):
                change, delta = self._prepare(call, identifier, location, format_version, connector_id)
                if self._insert(call, change, delta, finish):
                    return _kept(change)
            raise UnavailableError(f"{identifier} keeps being changed by others; nothing was registered")

        kept = self._keys.run(call, JsonAnswer(_Kept), work)
        if not read:
            return TableRegistration(identifier, kept.location, kept.table_uuid, kept.entry_id)
        return self._read(call, identifier, kept)

    def root(self, call: Call, location: str) -> str:
        """The normalized location of a Delta table in storage.

        Raises:
            BadRequestError: the location is malformed, or there is no Delta log, or one with links.
            LocationNotAllowedError: it is outside the allowed ones.
        """
        root = str(call.catalog.allowed.check(location))
        check_new_location(root)  # metadata files go there
        check_stored_text(root, "location of a Delta table", _LONGEST_LOCATION)
        check_no_links(root)
        if not has_delta_log(call.catalog.storage.files(root), root):
            raise BadRequestError(f"There is no Delta table at {root}: it has no {LOG_FOLDER} with a log")
        return root

    def known(self, call: Call, location: str, /) -> list[TableIdentifier]:
        """The Delta tables of the catalog that are rooted at a normalized location."""
        with self._store.read() as conn:
            found = delta_tables.at_location(conn, location)
        return [
            TableIdentifier(table.namespace, table.name)
            for table in found
            if table.catalog_id == call.catalog.id
        ]

    def of_connector(self, connector_id: UUID, /) -> list[TableOfConnector]:
        """The tables that a connector found."""
        with self._store.read() as conn:
            return [TableOfConnector(*each) for each in delta_tables.of_connector(conn, connector_id)]

    def set_gone(self, entry_ids: Sequence[UUID], gone_at_ms: int | None, /) -> None:
        """See `delta_rows.set_gone`."""
        self._store.run(lambda conn: delta_tables.set_gone(conn, entry_ids, gone_at_ms))

    def _prepare(
        self,
        call: Call,
        identifier: TableIdentifier,
        location: str,
        format_version: int | None,
        connector_id: UUID | None,
    ) -> tuple[Prepared[EncodedDocument], DeltaTableRow]:
        if format_version not in (None, *FORMAT_VERSIONS):
            known = " or ".join(map(str, FORMAT_VERSIONS))
            raise BadRequestError(
                f"Unsupported format version: v{format_version} (a Delta table reads as version {known})"
            )
        namespace = namespace_for(self._store, call, "table", identifier, Privilege.REGISTER_TABLE)
        root = self.root(call, location)
        table_uuid = str(uuid4())
        change = Prepared(
            identifier=identifier,
            kind="table",
            operation="register",
            metadata=_NO_DOCUMENT,
            metadata_location=no_metadata_location(self._folder(root, table_uuid)),
            object_uuid=table_uuid,
            location=root,
            format_version=format_version or _DEFAULT_FORMAT_VERSION,
            base=None,
            folders=entry_folders(root, {}, f"{self._folder(root, table_uuid)}/_"),
            namespace_id=namespace.id,
            format="delta",
        )
        delta = DeltaTableRow(
            change.new_id,
            root,
            self._clock.now_ms(),
            format_version=format_version,
            connector_id=connector_id,
        )
        return change, delta

    def _folder(self, root: str, table_uuid: str) -> str:
        """The folder of a table's artifacts for its whole life, whatever later settings are."""
        return (
            f"{root}/metadata" if self._compat_location is None else f"{self._compat_location}/{table_uuid}"
        )

    def _insert(
        self,
        call: Call,
        change: Prepared[EncodedDocument],
        delta: DeltaTableRow,
        finish: Finish[_Kept],
    ) -> bool:
        """Tries once; `False` if the name or the namespace was changed meanwhile."""
        rows = [(change, compressed(change))]

        def work(conn: Connection, transaction_id: UUID) -> bool:
            purging = write_rows(
                conn,
                call.catalog.id,
                call.principal.name,
                rows,
                self._clock.now_ms(),
                transaction_id,
                call.owner,
            )
            delta_tables.insert(conn, delta)
            # after `write_rows`: its lock on the catalog orders this against the drop that makes the job
            if is_purged(conn, self._storages, call.catalog, change, change.location):
                raise ConflictError(
                    f"Cannot register {change.identifier}: files of a dropped table at {change.location}"
                    " are being deleted; try again later"
                )
            self._overlaps.check(conn, call.catalog, {change.new_id: change.folders})
            finish(conn, _kept(change))
            return purging

        try:
            self._guard.run(call.catalog.id, [change], work)
        except (DuplicateKeyError, ForeignKeyError):
            return False
        return True

    def _read(self, call: Call, identifier: TableIdentifier, kept: _Kept) -> TableRegistration:
        """Reads the log, unless that was done already, and reports the version read."""
        row = self._entry(kept.entry_id)
        problem: FloecatError | None = None
        if row is not None and (not row.has_metadata or self._loads.due(row)):
            try:
                self._loads.refresh(call, identifier, row)
            except FloecatError as error:
                problem = error
            except Exception as error:  # noqa: BLE001 - the table is registered, whatever its log holds
                _log.exception("table %s at %s could not be read", identifier, kept.location)
                problem = FloecatError(f"internal error: {type(error).__name__}")
        with self._store.read() as conn:
            delta = delta_tables.get(conn, kept.entry_id)
        version = None if delta is None else delta.version
        return TableRegistration(identifier, kept.location, kept.table_uuid, kept.entry_id, version, problem)

    def _entry(self, entry_id: UUID) -> EntryRow | None:
        with self._store.read() as conn:
            return tables.get(conn, entry_id)


def _kept(change: Prepared[EncodedDocument]) -> _Kept:
    return _Kept(change.new_id, change.location, change.object_uuid)
