"""Queries: leases under which a client reads several tables, each in one state.

A query pins a table when it first touches it. Later requests see the same state, however the table changes;
one that asks for another state is refused. A scan plan is a query of one table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.entries.lookup import Entry
from floecat.errors import AlreadyExistsError, NoSuchQueryError, PinMismatchError, UnavailableError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.planning.table_states import CurrentTables, PinKind, snapshot_of
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import TransactionConflictError
from floecat.store.planning import queries
from floecat.store.planning.queries import PinRow, QueryRow

__all__ = [
    "DEFAULT_TTL_MS",
    "LONGEST_TTL_MS",
    "OpenQueries",
    "Query",
    "QueryService",
    "TableObligations",
    "pin_identity",
    "pin_row",
]

DEFAULT_TTL_MS = 60_000
LONGEST_TTL_MS = 600_000
_GRACE_MS = 15_000


class TableObligations(msgspec.Struct, frozen=True, kw_only=True):
    """The obligations of an engine that shows rows of a table."""

    table_id: UUID
    masks: Mapping[str, str] = {}
    """Expressions in place of columns, by name."""
    row_filter: str = ""
    """Expression that is true for the rows that may be shown; empty for all."""


class Query(msgspec.Struct, frozen=True):
    """A query."""

    row: QueryRow
    pins: Sequence[PinRow] = ()
    obligations: Sequence[TableObligations] = ()


class OpenQueries:
    """Bounds how many queries are open."""

    def __init__(self, *, per_catalog: int, per_principal: int) -> None:
        self._per_catalog = per_catalog
        self._per_principal = per_principal

    def check(self, conn: Connection, call: Call, now_ms: int) -> None:
        """Refuses a further query.

        Raises:
            UnavailableError: too many are open, of the catalog or of the principal.
        """
        bounds = (
            (self._per_principal, call.principal.name, "open-queries-per-principal"),
            (self._per_catalog, None, "open-queries"),
        )
        for most, principal, setting in bounds:
            if queries.count_open(conn, call.catalog.id, now_ms, most, principal) >= most:
                raise UnavailableError(
                    f"Too many queries and scan plans are open: floecat.limits.{setting} is {most}."
                    " End or cancel some, or wait until they expire",
                    retry_after_s=_GRACE_MS // 1000,
                )


class QueryService:
    """Begins, renews and ends queries, and pins tables for them."""

    def __init__(self, store: Store, clock: Clock, tables: CurrentTables, bounds: OpenQueries) -> None:
        self._store = store
        self._clock = clock
        self._tables = tables
        self._bounds = bounds

    def begin(
        self,
        call: Call,
        *,
        ttl_ms: int = DEFAULT_TTL_MS,
        query_id: UUID | None = None,
        as_of_default_ms: int | None = None,
        obligations: Sequence[TableObligations] = (),
    ) -> Query:
        """Begins a query.

        Args:
            ttl_ms: until when it lives without renewal, in ms from now; at most `LONGEST_TTL_MS`.
            query_id: its id, if the client has one.
            as_of_default_ms: tables that are asked for without a time are read as of this one.
            obligations: of tables that it will read.

        Raises:
            AlreadyExistsError: there is a query of this id.
            UnavailableError: too many queries are open.
        """
        now_ms = self._clock.now_ms()
        row = QueryRow(
            id=query_id or uuids.uuid7(),
            catalog_id=call.catalog.id,
            principal=call.principal.name,
            state="submitted",
            obligations=msgspec.json.encode(obligations).decode(),
            as_of_default_ms=as_of_default_ms,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + min(ttl_ms, LONGEST_TTL_MS),
        )

        def insert(conn: Connection) -> bool:
            self._bounds.check(conn, call, now_ms)
            return queries.insert(conn, row)

        if not self._store.run(insert):
            raise AlreadyExistsError(f"Query already exists: {row.id}")
        return Query(row, obligations=obligations)

    def get(self, call: Call, query_id: UUID) -> Query:
        """A query with what it has pinned.

        Raises:
            NoSuchQueryError: it does not exist, has expired, or is another principal's.
        """
        with self._store.read() as conn:
            row = self._own(conn, call, query_id)
            pins = queries.list_pins(conn, query_id)
        return Query(row, pins, msgspec.json.decode(row.obligations, type=list[TableObligations]))

    def renew(self, call: Call, query_id: UUID, ttl_ms: int = DEFAULT_TTL_MS) -> int:
        """Extends a query; never shortens it.

        Returns:
            When it expires, in ms since the epoch.

        Raises:
            NoSuchQueryError: as `get`, or it was ended.
        """
        now_ms = self._clock.now_ms()

        def renew(conn: Connection) -> int:
            row = self._own(conn, call, query_id)
            expires_at_ms = max(row.expires_at_ms, now_ms + min(ttl_ms, LONGEST_TTL_MS))
            if not queries.renew(conn, query_id, expires_at_ms, now_ms):
                raise NoSuchQueryError(f"Query was ended: {query_id}")
            return expires_at_ms

        return self._store.run(renew)

    def complete(self, call: Call, query_id: UUID, *, failed: bool = False) -> None:
        """Notes that planning has succeeded, or failed; a query that was ended stays as it is.

        Raises:
            NoSuchQueryError: as `get`.
        """
        state = "failed" if failed else "completed"

        def complete(conn: Connection) -> None:
            self._own(conn, call, query_id)
            queries.set_state(conn, query_id, state, self._clock.now_ms())

        self._store.run(complete)

    def end(self, call: Call, query_id: UUID, *, commit: bool) -> None:
        """Ends a query; it can be looked at for some seconds. Ending it again changes nothing.

        Raises:
            NoSuchQueryError: as `get`.
        """
        state = "ended_commit" if commit else "ended_abort"

        def end(conn: Connection) -> None:
            self._own(conn, call, query_id)
            queries.end(conn, query_id, state, self._clock.now_ms(), _GRACE_MS)

        self._store.run(end)

    def pin(
        self,
        call: Call,
        query_id: UUID,
        identifier: TableIdentifier,
        *,
        snapshot_id: int | None = None,
        as_of_ms: int | None = None,
    ) -> PinRow:
        """Pins a table, or finds the pin that the query has of it.

        Args:
            snapshot_id: the state that is wanted; without one that of `as_of_ms`.
            as_of_ms: the time whose state is wanted; without one the query's default, else the pinned state,
                else the current one.

        Raises:
            NoSuchQueryError: as `get`.
            NoSuchTableError: the table does not exist.
            BadRequestError: it has no such snapshot.
            PinMismatchError: the query has pinned another snapshot of it.
        """
        entry = self._tables.load(call, identifier)

        def pin(conn: Connection) -> PinRow:
            query = self._own(conn, call, query_id)
            as_of = query.as_of_default_ms if as_of_ms is None and snapshot_id is None else as_of_ms
            now_ms = self._clock.now_ms()
            pins = queries.list_pins(conn, query_id)
            pinned = next((pin for pin in pins if pin.table_id == entry.row.id), None)
            if pinned is not None and as_of is None and snapshot_id in (None, pinned.snapshot_id):
                return pinned  # also where the snapshot has expired since
            wanted = pin_row(query_id, entry, now_ms, snapshot_id=snapshot_id, as_of_ms=as_of)
            if pinned is None:
                if not queries.pin(conn, wanted):
                    raise TransactionConflictError("Another request pinned the table first")
                return wanted
            if pinned.snapshot_id != wanted.snapshot_id:
                raise PinMismatchError(
                    f"Query {query_id} reads snapshot {pinned.snapshot_id} of {identifier},"
                    f" and now asks for {wanted.snapshot_id}"
                )
            if as_of is not None:
                queries.touch_pin(conn, query_id, pinned.table_id, as_of)
            return pinned

        return self._store.run(pin)

    def _own(self, conn: Connection, call: Call, query_id: UUID) -> QueryRow:
        row = queries.get(conn, query_id, self._clock.now_ms())
        if row is None or row.catalog_id != call.catalog.id or row.principal != call.principal.name:
            raise NoSuchQueryError(f"Query does not exist: {query_id}")
        return row


def pin_row(
    query_id: UUID,
    entry: Entry[TableMetadata],
    now_ms: int,
    *,
    snapshot_id: int | None = None,
    as_of_ms: int | None = None,
) -> PinRow:
    """The pin of a table in the state that is asked for; see `QueryService.pin`."""
    metadata = entry.document.parsed()
    snapshot = snapshot_of(metadata, snapshot_id=snapshot_id, as_of_ms=as_of_ms)
    kind: PinKind = "snapshot_id" if snapshot_id is not None else "current" if as_of_ms is None else "as_of"
    read_as = None if snapshot is None or kind == "current" else snapshot.schema_id
    return PinRow(
        query_id=query_id,
        table_id=entry.row.id,
        kind=kind,
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        metadata_location=entry.row.metadata_location,
        schema_id=metadata.current_schema_id if read_as is None else read_as,
        first_as_of_ms=as_of_ms,
        last_as_of_ms=as_of_ms,
        pinned_at_ms=now_ms,
    )


def pin_identity(pin: PinRow) -> str:
    """Names what is pinned: equal for pins of the same state that was asked for in the same way."""
    named = f"{pin.kind}|{pin.table_id.hex}|{pin.snapshot_id}|{pin.metadata_location}"
    return sha256(named.encode()).hexdigest()
