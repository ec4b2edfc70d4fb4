"""Connections for reads, which run queries that were compiled once.

SQLAlchemy writes the SQL and knows how values look in each database; running it is left to the driver, which
takes a third of the time of a full execution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.sql.compiler import SQLCompiler

from floecat.store.database.connections import (
    Connection,
    Parameters,
    Query,
    Row,
    Statement,
    count_statement,
    for_dialect,
)
from floecat.store.database.errors import StoreUnavailableError
from floecat.store.database.faults import DATABASE_ERRORS, connection_lost, raise_fault

__all__ = ["AtOnceConnection", "PreparedQueries", "ReadConnection"]

_NOTHING: Final[Parameters] = {}
_Processor: TypeAlias = Callable[[Any], Any]


class _QueriesOnly(Connection):
    """Refuses changes: one that is repeated on another connection might be made twice."""

    __slots__ = ()

    def change(self, statement: Statement, parameters: Parameters = _NOTHING) -> int:  # noqa: ARG002
        """Refuses."""
        raise _needs_transaction()

    def change_many(self, statement: Statement, parameters: Sequence[Parameters]) -> None:  # noqa: ARG002
        """Refuses."""
        raise _needs_transaction()


class ReadConnection(_QueriesOnly):
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
        query = _query_for(statement, self._engine.dialect)
        count_statement()
        connection = None if self._pooled is None else self._pooled.dbapi_connection
        prepared = self._queries.get(query)
        if connection is None or prepared is None:
            self.close()
            return self._run_on_another(query, parameters)
        try:
            return prepared.rows(connection, parameters)
        except _driver_errors(self._engine) as error:
            if not self._is_dead(error, connection):
                raise_fault(error)
        self._discard()
        return self._run_on_another(query, parameters)

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

    def _run_on_another(self, query: Query, parameters: Parameters) -> Sequence[Row]:
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


class AtOnceConnection(_QueriesOnly):
    """Runs queries on a SQLite file without waiting, for a thread that others wait for: an event loop's.

    Taking a connection from the pool and giving it back costs twice what a read by key of a local file does.
    This one stays open beside the pool. It opens when it is first used, and after an error.
    `StoreUnavailableError` may also say that another thread is reading, or a lock is held.
    """

    __slots__ = ("_connection", "_engine", "_lock", "_queries")

    def __init__(self, engine: sa.Engine, queries: PreparedQueries) -> None:
        """Takes what makes connections and queries.

        Args:
            engine: of a SQLite file, in autocommit, without a pool and without a wait for locks.
            queries: for that database.
        """
        self._engine = engine
        self._queries = queries
        self._connection: DBAPIConnection | None = None
        self._lock = Lock()

    def all(self, statement: Statement, parameters: Parameters = _NOTHING) -> Sequence[Row]:
        """All rows of a query whose SQL does not depend on the values."""
        prepared = self._queries.get(_query_for(statement, self._engine.dialect))
        if prepared is None:
            raise ValueError("the SQL of the query depends on its parameters")
        count_statement()
        if not self._lock.acquire(blocking=False):
            raise StoreUnavailableError("Another thread is reading")
        try:
            return prepared.rows(self._connection or self._open(), parameters)
        except DATABASE_ERRORS as error:
            self._close()
            raise_fault(error)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Closes the file; the next query opens it again."""
        with self._lock:
            self._close()

    def _open(self) -> DBAPIConnection:
        lent = self._engine.raw_connection()
        connection = lent.dbapi_connection
        if connection is None:
            raise StoreUnavailableError("The store gave no connection")
        lent.detach()  # it is closed here, not when `lent` is garbage-collected
        self._connection = connection
        return connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _PreparedQuery:
    """The SQL of one query, and how values go in and come out."""

    __slots__ = ("_columns", "_constants", "_parameters", "_positional", "_sql", "is_fixed", "statement")

    def __init__(self, statement: sa.Select[*tuple[Any, ...]], dialect: sa.Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        if not isinstance(compiled, SQLCompiler):
            raise TypeError("a query compiles to SQL")
        binds = compiled.binds
        self.is_fixed: Final = not any(bind.expanding for bind in binds.values())
        self.statement = statement
        self._sql: Final = str(compiled)
        self._positional: Final = compiled.positional
        self._parameters: Final[list[tuple[str, _Processor | None]]] = [
            (name, binds[name].type.dialect_impl(dialect).bind_processor(dialect))
            for name in (compiled.positiontup or compiled.params)
        ]
        self._constants: Final = {
            name: value for name, value in compiled.params.items() if not binds[name].required
        }
        processors = (
            column.type.dialect_impl(dialect).result_processor(dialect, None)
            for column in statement.selected_columns
        )
        self._columns: Final = [
            (index, processor) for index, processor in enumerate(processors) if processor is not None
        ]

    def rows(self, connection: DBAPIConnection, parameters: Mapping[str, Any]) -> list[Any]:
        """All rows, as tuples or lists of Python values.

        Args:
            connection: of the driver, in autocommit.
            parameters: a value for every parameter of the statement.

        Raises:
            KeyError: a parameter has no value.
            Exception: whatever the driver raises.
        """
        cursor = connection.cursor()
        try:
            cursor.execute(self._sql, self._bound(parameters))
            rows = cursor.fetchall()
        finally:
            cursor.close()
        return [self._converted(row) for row in rows] if self._columns else list(rows)

    def _bound(self, parameters: Mapping[str, Any]) -> Any:
        values = {**self._constants, **parameters} if self._constants else parameters
        if self._positional:
            return [
                values[name] if process is None else process(values[name])
                for name, process in self._parameters
            ]
        return {
            name: values[name] if process is None else process(values[name])
            for name, process in self._parameters
        }

    def _converted(self, row: tuple[Any, ...]) -> list[Any]:
        values = list(row)
        for index, process in self._columns:
            values[index] = process(values[index])
        return values


class PreparedQueries:
    """The prepared queries of one engine, each compiled when it is first asked for."""

    def __init__(self, dialect: sa.Dialect) -> None:
        """Takes the dialect of the engine."""
        self._dialect = dialect
        # a query keeps its statement alive, so no other statement can get the same id
        self._queries: dict[int, _PreparedQuery] = {}

    def get(self, statement: sa.Select[*tuple[Any, ...]]) -> _PreparedQuery | None:
        """The query of a statement that lives as long as the program.

        Returns:
            `None` for a statement whose SQL depends on the values, as a list after IN.
        """
        query = self._queries.get(id(statement))
        if query is None:
            query = _PreparedQuery(statement, self._dialect)
            self._queries[id(statement)] = query
        return query if query.is_fixed else None


def _query_for(statement: Statement, dialect: sa.Dialect) -> Query:
    query = for_dialect(statement, dialect)
    if not isinstance(query, sa.Select):
        raise _needs_transaction()
    return query


def _needs_transaction() -> RuntimeError:
    return RuntimeError("a change needs a connection of Store.write() or Store.run()")


def _driver_errors(engine: sa.Engine) -> tuple[type[Exception], ...]:
    """What can be met past SQLAlchemy, which would wrap the errors of the driver."""
    return (*DATABASE_ERRORS, engine.dialect.loaded_dbapi.Error)
