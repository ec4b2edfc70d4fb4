"""Tables as entries: listing, existence, loading, rename, removal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from uuid import UUID

import msgspec

from floecat.auth.authorizer import Privilege
from floecat.catalog.load_table import TableLoader
from floecat.catalog.replayed_answers import TableAnswers
from floecat.entries.calls import Call, LoadedTable, Page, PageRequest
from floecat.entries.drops_and_renames import DropsAndRenames
from floecat.entries.idempotency_keys import Finish, IdempotencyKeys, JsonAnswer
from floecat.entries.listing import EntryListing
from floecat.entries.names import existing_entry, missing_table
from floecat.errors import UnsupportedOperationError
from floecat.events.table_description import TableDescription, describe
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.store.database.engine import Connection, Store
from floecat.store.entries import tables
from floecat.store.entries.documents import decompress

__all__ = ["DescribedTable", "TableService"]


class DescribedTable(msgspec.Struct, frozen=True, rename="kebab"):
    """A table for a person who looks at it. Times in ms since the epoch."""

    namespace: Namespace
    name: str
    id: UUID
    format: str
    table_uuid: str
    metadata_location: str
    created_at_ms: int
    updated_at_ms: int
    protected: bool
    """Whether it may not be removed."""
    partition_fields: Sequence[str]
    """Fields of the default spec, as `bucket[16](id)`."""
    snapshots: int
    properties: Mapping[str, str]
    description: TableDescription


class TableService:
    """Everything about tables that writes no metadata."""

    def __init__(
        self,
        store: Store,
        listing: EntryListing,
        loader: TableLoader,
        changes: DropsAndRenames,
        keys: IdempotencyKeys,
        answers: TableAnswers,
    ) -> None:
        self._store = store
        self._listing = listing
        self._loader = loader
        self._changes = changes
        self._keys = keys
        self._answers = answers

    def list(
        self, call: Call, namespace: Namespace, page: PageRequest, of_type: str | None = None
    ) -> Page[TableIdentifier]:
        """Tables of a namespace, by name; see `EntryListing.list`.

        Raises:
            BadRequestError: no table can be of the type.
            NoSuchNamespaceError: the namespace does not exist.
        """
        return self._listing.list(call, namespace, "table", page, of_type)

    def list_all(self, call: Call, within: Namespace = ()) -> Iterator[tables.ListedTable]:
        """The tables of all namespaces that the principal may see; see `EntryListing.list_all`."""
        return self._listing.list_all(call, "table", within)

    def exists(self, call: Call, identifier: TableIdentifier) -> None:
        """Fails unless the table exists.

        Raises:
            ForbiddenError: the principal may not read it.
            NoSuchTableError: it does not.
        """
        existing_entry(self._store, call, "table", identifier, Privilege.READ_TABLE)

    def describe(self, call: Call, identifier: TableIdentifier) -> DescribedTable:
        """A table as its newest metadata shows it.

        Raises:
            ForbiddenError: the principal may not read it.
            NoSuchTableError: it does not exist.
            FloecatError: it is of another format and cannot be read.
        """
        metadata = TableMetadata.parse(self._loader.load(call, identifier).metadata)
        row = existing_entry(self._store, call, "table", identifier, Privilege.READ_TABLE)
        names = {field.id: field.name for field in metadata.current_schema.struct.fields}
        spec = next(spec for spec in metadata.partition_specs if spec.spec_id == metadata.default_spec_id)
        return DescribedTable(
            namespace=identifier.namespace,
            name=identifier.name,
            id=row.id,
            format=row.format,
            table_uuid=row.object_uuid,
            metadata_location=row.metadata_location,
            created_at_ms=row.created_at_ms,
            updated_at_ms=row.updated_at_ms,
            protected=row.protected,
            partition_fields=[
                f"{field.transform}({', '.join(names.get(each, field.name) for each in field.sources)})"
                for field in spec.fields
            ],
            snapshots=len(metadata.snapshots),
            properties=dict(metadata.properties),
            description=describe(metadata),
        )

    def load(
        self,
        call: Call,
        identifier: TableIdentifier,
        snapshots: str = "all",
        if_none_match: str | None = None,
    ) -> LoadedTable:
        """A table by name; see `TableLoader.load`."""
        return self._loader.load(call, identifier, snapshots, if_none_match)

    def rename(self, call: Call, source: TableIdentifier, destination: TableIdentifier) -> None:
        """Renames or moves a table; see `DropsAndRenames.rename`."""

        def work(finish: Finish[None]) -> None:
            self._changes.rename(call, source, destination, "table", lambda conn: finish(conn, None))

        self._keys.run(call, JsonAnswer(type(None)), work)

    def drop(
        self,
        call: Call,
        identifier: TableIdentifier,
        also: Callable[[Connection, tables.EntryRow], None] | None = None,
        *,
        purge: bool = False,
    ) -> None:
        """Removes the entry and leaves every file.

        Args:
            also: what else happens in the transaction.
            purge: whether the files are to be deleted later, which needs a privilege of its own.

        Raises:
            ForbiddenError: the principal may not drop the table, or not purge it.
            NoSuchTableError: the table does not exist.
        """
        privileges = (Privilege.DROP_TABLE, Privilege.PURGE_TABLE) if purge else (Privilege.DROP_TABLE,)

        def work(finish: Finish[None]) -> None:
            def within(conn: Connection, row: tables.EntryRow) -> None:
                if also is not None:
                    also(conn, row)
                finish(conn, None)

            self._changes.remove(call, identifier, "table", privileges, "drop", within, purge=purge)

        self._keys.run(call, JsonAnswer(type(None)), work)

    def unregister(
        self,
        call: Call,
        identifier: TableIdentifier,
        also: Callable[[Connection, tables.EntryRow], None] = lambda _conn, _row: None,
    ) -> LoadedTable:
        """Forgets a table and answers its last metadata: with every commit before, and none after.

        Args:
            also: what else happens in the transaction.

        Raises:
            ForbiddenError: the principal may not drop it, or not read it.
            NoSuchTableError: the table does not exist.
            UnsupportedOperationError: it has no metadata to answer yet.
        """

        def work(finish: Finish[LoadedTable]) -> LoadedTable:
            answer: LoadedTable | None = None

            def within(conn: Connection, row: tables.EntryRow) -> None:
                nonlocal answer
                if not row.has_metadata:
                    raise UnsupportedOperationError(
                        f"Table {identifier} was never read, so it has no metadata yet:"
                        " load it first, or drop it"
                    )
                document = decompress(tables.document(conn, row.id) or b"")
                answer = self._loader.removed(call.catalog, row, document)
                also(conn, row)
                finish(conn, answer)

            privileges = (Privilege.DROP_TABLE, Privilege.READ_TABLE)
            self._changes.remove(call, identifier, "table", privileges, "unregister", within)
            if answer is None:
                raise missing_table(identifier)
            return answer

        return self._keys.run(call, self._answers.of_table(call, identifier), work)
