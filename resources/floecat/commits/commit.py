"""Creates and commits of tables. A commit of one table is a transaction with one entry.

`floecat.entries.writes` makes them, and works a commit out again where another one was faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.auth.authorizer import Privilege
from floecat.catalog.open_catalog import CatalogServices
from floecat.commits.staging import Staging
from floecat.commits.table_changes import TableChange, TableChanges
from floecat.entries.calls import Call, LoadedTable
from floecat.entries.entry_locations import check_locations, check_not_chosen, chosen_location, is_default
from floecat.entries.formats import TableFormats
from floecat.entries.idempotency_keys import AnswerCodec, Finish, JsonAnswer
from floecat.entries.names import namespace_for
from floecat.entries.open_entries import EntryParts
from floecat.entries.overlaps import entry_folders
from floecat.entries.prepared_changes import AnyPrepared, Prepared
from floecat.errors import BadRequestError
from floecat.iceberg.builder.metadata_builder import new_table_metadata
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.store.commits.confirmed_transactions import leave_trace
from floecat.store.database.engine import Connection

__all__ = ["CommitService", "CreateTable"]

# msgspec cannot decode an optional Raw; a field that is left out reads as null
_NULL = msgspec.Raw(b"null")

A = TypeVar("A")


class CreateTable(msgspec.Struct, frozen=True, rename="kebab"):
    """A request to create a table (Iceberg REST specification, `CreateTableRequest`)."""

    name: str
    schema: msgspec.Raw
    location: str | None = None
    partition_spec: msgspec.Raw = _NULL
    write_order: msgspec.Raw = _NULL
    stage_create: bool | None = False
    properties: dict[str, str] | None = None


class CommitService:
    """Writes table metadata."""

    def __init__(
        self, parts: EntryParts, catalog: CatalogServices, formats: TableFormats, staging: Staging
    ) -> None:
        self._store = parts.store
        self._transactions = parts.transactions
        self._clock = parts.clock
        self._entries = parts.entries
        self._files = parts.files
        self._loader = catalog.loader
        self._answers = catalog.answers
        self._keys = parts.keys
        self._writes = parts.writes
        self._overlaps = parts.overlaps
        self._staging = staging
        self._changes = TableChanges(parts.store, parts.clock, staging, parts.files, formats)

    def create_table(self, call: Call, namespace: Namespace, request: CreateTable) -> LoadedTable:
        """Creates a table and its first metadata file.

        Raises:
            BadRequestError: a name or a location is malformed.
            IllegalArgumentError: schema, spec, order or properties break the specification.
            ForbiddenError: the principal may not create the table.
            NoSuchNamespaceError: the namespace does not exist.
            AlreadyExistsError: the name is taken, by a table or a view.
            LocationNotAllowedError: the table would live outside the allowed locations.
        """
        identifier = TableIdentifier(namespace, request.name)

        def prepare() -> Sequence[Prepared[TableMetadata]]:
            namespace_id, metadata = self._initial(call, identifier, request)
            made = self._changes.new_table(call, identifier, metadata, namespace_id)
            self._files.prepare_table_location(call.catalog.storage, metadata.location)
            return [made]

        codec = self._answers.of_table(call, identifier)
        needed = (Privilege.CREATE_TABLE, call.on_entry("table", identifier))
        return self._writes.apply(
            call, [identifier], prepare, partial(self._loader.made_by, call), codec, needed
        )

    def stage_table(
        self, call: Call, namespace: Namespace, request: CreateTable, stage_id: str | None
    ) -> LoadedTable:
        """The metadata that a table would be created with. Nothing is published and no file is written.

        Args:
            namespace: where the table will be.
            request: what it is created from.
            stage_id: the client's name for this staging; the same one again gets the same answer.

        Raises:
            FloecatError: as `create_table`.
        """
        identifier = TableIdentifier(namespace, request.name)

        def work(finish: Finish[LoadedTable]) -> LoadedTable:
            _, metadata = self._initial(call, identifier, request)
            check_locations(call.catalog.allowed, metadata.location, metadata.properties)
            self._loader.make_keys(call, metadata)
            # folders are not objects; DuckDB writes into them before it commits, and does not create them
            self._files.prepare_table_location(call.catalog.storage, metadata.location)

            def keep(conn: Connection, transaction_id: UUID) -> LoadedTable:
                leave_trace(conn, transaction_id, self._clock.now_ms())
                folders = entry_folders(metadata.location, metadata.properties)
                self._overlaps.check(conn, call.catalog, {uuids.uuid7(): folders})
                staged = self._staging.keep(conn, call, identifier, metadata, stage_id)
                answer = self._loader.loaded(call.catalog, staged, None)
                finish(conn, answer)
                return answer

            return self._transactions.run(call.catalog.id, keep)

        needed = (Privilege.CREATE_TABLE, call.on_entry("table", identifier))
        return self._keys.run(call, self._answers.of_table(call, identifier), work, needed)

    def commit(self, call: Call, change: TableChange, stage_id: str | None = None) -> LoadedTable:
        """Applies a change to a table and answers its new metadata.

        Raises:
            ForbiddenError: the principal may not write the table, or not create it.
            NoSuchTableError: the table does not exist, and the change does not create it.
            CommitFailedError: a requirement does not hold on the newest metadata.
            IllegalArgumentError: an update breaks the specification.
            CommitStateUnknownError: the commit may have been applied.
        """
        codec = self._answers.of_table(call, change.identifier)
        return self._apply(call, [change], partial(self._loader.changed, call.catalog), codec, stage_id)

    def commit_transaction(self, call: Call, changes: Sequence[TableChange]) -> None:
        """Applies changes to several tables, all or none; creates among them too.

        Raises:
            BadRequestError: there is no change, or two for one table.
            FloecatError: as `commit`, for any of them; then none is applied.
        """
        self._apply(call, changes, lambda _: None, JsonAnswer(type(None)))

    def _apply(
        self,
        call: Call,
        changes: Sequence[TableChange],
        render: Callable[[Sequence[AnyPrepared]], A],
        codec: AnswerCodec[A],
        stage_id: str | None = None,
    ) -> A:
        identifiers = [change.identifier for change in changes]
        needed = [(change.privilege, call.on_entry("table", change.identifier)) for change in changes]

        def prepare() -> Sequence[AnyPrepared]:
            _check_changes(changes)
            found = self._entries.find_many(
                call, [(change.privilege, change.identifier) for change in changes]
            )
            return [
                self._changes.prepare(call, change, found.get(change.identifier), stage_id)
                for change in changes
            ]

        return self._writes.apply(call, identifiers, prepare, render, codec, *needed)

    def _initial(
        self, call: Call, identifier: TableIdentifier, request: CreateTable
    ) -> tuple[UUID, TableMetadata]:
        namespace = namespace_for(self._store, call, "table", identifier, Privilege.CREATE_TABLE)
        table_uuid = uuids.uuid7()
        location = chosen_location(
            request.location, call.catalog, namespace.properties, identifier, table_uuid
        )
        metadata = new_table_metadata(
            schema=request.schema,
            partition_spec=request.partition_spec,
            sort_order=request.write_order,
            location=location,
            properties=request.properties or {},
            table_uuid=str(table_uuid),
            now_ms=self._clock.now_ms(),
        )
        is_given = is_default(call.catalog, namespace.properties, identifier, metadata.location)
        check_not_chosen(call.catalog, metadata.location, metadata.properties, is_given=is_given)
        return namespace.id, metadata


def _check_changes(changes: Sequence[TableChange]) -> None:
    if not changes:
        raise BadRequestError("Invalid transaction: table-changes is empty")
    seen: set[TableIdentifier] = set()
    for change in changes:
        if change.identifier in seen:
            raise BadRequestError(f"Invalid transaction: more than one change for table {change.identifier}")
        seen.add(change.identifier)
