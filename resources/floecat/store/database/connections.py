"""Connections as the modules of the store use them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection

from floecat.store.database.errors import StoreFaultError
from floecat.store.database.faults import DATABASE_ERRORS, connection_lost, raise_fault
from floecat.store.database.prepared_queries import PreparedQueries
from floecat.store.database.statement_counter import StatementCounter

__all__ = [
    "Connection",
    "Parameters",
    "PerDialect",
    "Query",
    "ReadConnection",
    "Row",
    "Statement",
    "TransactionConnection",
    "active_counter",
    "count_statement",
    "needs_transaction",
    "query_for",
]

T = TypeVar("T")

active_counter: ContextVar[StatementCounter | None] = ContextVar("floecat_statement_counter", default=None)
"""The counter of this context, in tests."""

Query: TypeAlias = sa.Select[*tuple[Any, ...]]
Row: TypeAlias = Sequence[Any]
Parameters: TypeAlias = Mapping[str, Any]
_Result: TypeAlias = sa.CursorResult[*tuple[Any, ...]]


class PerDialect(NamedTuple):
    """A statement that the two databases write differently."""

    sqlite: sa.Executable
    postgresql: sa.Executable


Statement: TypeAlias = sa.Executable | PerDialect

_NOTHING: Parameters = {}
_all: Callable[[_Result], Sequence[Row]] = methodcaller("all")
_rowcount: Callable[[_Result], int] = attrgetter("rowcount")


class Connection(ABC):
    """A connection that the store lends out: for single reads, or for one transaction.

    Every method that runs a statement raises what `store.database.faults` makes of the driver's error.
    Statements are made once, when their module is imported.
    """

    __slots__ = ()

    @abstractmethod
    def all(self, statement: Statement, parameters: Parameters = _NOTHING) -> Sequence[Row]:
        """All rows of a query, or of a change with RETURNING."""

    def first(self, statement: Statement, parameters: Parameters = _NOTHING) -> Row | None:
        """The only row of a query for at most one, or `None`."""
        rows = self.all(statement, parameters)
        return rows[0] if rows else None

    @abstractmethod
    def change(self, statement: Statement, parameters: Parameters = _NOTHING) -> int:
        """Runs an INSERT, UPDATE or DELETE.

        Returns:
            How many rows it changed.
        """

    @abstractmethod
    def change_many(self, statement: Statement, parameters: Sequence[Parameters]) -> None:
        """Runs an INSERT, UPDATE or DELETE once for each set of parameters; nothing for none."""


class ReadConnection(Connection):
    """Runs queries, each for itself; one that meets a dead connection is repeated on a new one."""

    __slots__ = ("_engine", "_pooled", "_queries")

    def __init__(self, engine: sa.Engine, queries: PreparedQueries) -> None:
        """Takes a connection from the pool of an engine that works in autocommit."""
        self._engine = engine
        self._queries = queries
        try:
            self._pooled: sa.PoolProxiedConnection | None = engine.raw_connection()
        except _driver_errors(engine) as error:
            raise_fault(error)

    def all(self, statement: Statement, parameters: Parameters = _NOTHING) -> Sequence[Row]:
        """All rows of a query."""
        query = query_for(statement, self._engine.dialect)
        count_statement()
        connection = None if self._pooled is None else self._pooled.dbapi_connection
        prepared = self._queries.get(query)
        if connection is None or prepared is None:
            self.close()
            return self._run_anew(query, parameters)
        try:
            return prepared.rows(connection, parameters)
        except _driver_errors(self._engine) as error:
            if not self._is_dead(error, connection):
                raise_fault(error)
        self._discard()
        return self._run_anew(query, parameters)

    def change(self, statement: Statement, parameters: Parameters = _NOTHING) -> int:  # noqa: ARG002
        """Refuses: a change that is repeated might be made twice."""
        raise needs_transaction()

    def change_many(self, statement: Statement, parameters: Sequence[Parameters]) -> None:  # noqa: ARG002
        """Refuses, as `change`."""
        raise needs_transaction()

    def close(self) -> None:
        """Gives the connection back to the pool."""
        if self._pooled is not None:
            self._pooled.close()
            self._pooled = None

    def _is_dead(self, error: Exception, connection: DBAPIConnection) -> bool:
        dialect = self._engine.dialect
        return isinstance(error, dialect.loaded_dbapi.Error) and dialect.is_disconnect(
            error, connection, None
        )

    def _discard(self) -> None:
        if self._pooled is not None:
            self._pooled.invalidate()
            self._pooled = None

    def _run_anew(self, query: Query, parameters: Parameters) -> Sequence[Row]:
        """Runs a query on another connection of the pool, by SQLAlchemy alone.

        That connection may be dead too, after a restart: then SQLAlchemy forgets all that are as old, and a
        new one is made.
        """
        for last in (False, True):
            try:
                with self._engine.connect() as connection:
                    return connection.execute(query, parameters).all()
            except DATABASE_ERRORS as error:
                if last or not connection_lost(error):
                    raise_fault(error)
        raise AssertionError("the last try returns or raises")


class TransactionConnection(Connection):
    """Runs statements inside one transaction.

    Attributes:
        failed: a statement failed. PostgreSQL takes no others then, so SQLite gets none either.
    """

    __slots__ = ("_sql", "failed")

    def __init__(self, sql: sa.Connection) -> None:
        """Takes a connection in autocommit, on which `control` will open the transaction."""
        self._sql = sql
        self.failed = False

    def all(self, statement: Statement, parameters: Parameters = _NOTHING) -> Sequence[Row]:
        """All rows of a query, or of a change with RETURNING."""
        return self._run(statement, parameters, _all)

    def change(self, statement: Statement, parameters: Parameters = _NOTHING) -> int:
        """Runs an INSERT, UPDATE or DELETE and answers how many rows it changed."""
        return self._run(statement, parameters, _rowcount)

    def change_many(self, statement: Statement, parameters: Sequence[Parameters]) -> None:
        """Runs an INSERT, UPDATE or DELETE once for each set of parameters; nothing for none."""
        if parameters:
            self._run(statement, parameters, _rowcount)

    def control(self, text: str) -> None:
        """Runs a statement that opens or ends a transaction, with the driver's own error if it fails."""
        self._sql.exec_driver_sql(text)

    def reconnect(self) -> None:
        """Takes another connection from the pool, in place of a dead one."""
        engine = self._sql.engine
        self._sql.close()
        self._sql = engine.connect()

    def discard(self) -> None:
        """Closes the connection to the database, which rolls back what is open on it."""
        self._sql.invalidate()

    def close(self) -> None:
        """Gives the connection back to the pool."""
        self._sql.close()

    def _run(
        self,
        statement: Statement,
        parameters: Parameters | Sequence[Parameters],
        fetch: Callable[[_Result], T],
    ) -> T:
        if self.failed:
            raise StoreFaultError("A failed statement was ignored; the transaction will be rolled back")
        count_statement()
        try:
            return fetch(self._sql.execute(_for_dialect(statement, self._sql.dialect), parameters))
        except DATABASE_ERRORS as error:
            self.failed = True
            raise_fault(error)


def query_for(statement: Statement, dialect: sa.Dialect) -> Query:
    """The query that a statement is in a database.

    Raises:
        RuntimeError: it is a change.
    """
    query = _for_dialect(statement, dialect)
    if not isinstance(query, sa.Select):
        raise needs_transaction()
    return query


def count_statement() -> None:
    """Tells the counter of this context about one statement."""
    counter = active_counter.get()
    if counter is not None:
        counter.count_statement()


def needs_transaction() -> RuntimeError:
    """What a connection for reads says to a change."""
    return RuntimeError("a change needs a connection of Store.write() or Store.run()")


def _driver_errors(engine: sa.Engine) -> tuple[type[Exception], ...]:
    """What can be met past SQLAlchemy, which would wrap the errors of the driver."""
    return (*DATABASE_ERRORS, engine.dialect.loaded_dbapi.Error)


def _for_dialect(statement: Statement, dialect: sa.Dialect) -> sa.Executable:
    if isinstance(statement, PerDialect):
        return statement.sqlite if dialect.name == "sqlite" else statement.postgresql
    return statement
