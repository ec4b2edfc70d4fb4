"""Connections for reads, each statement its own snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection

from floecat.store.database.connections import NOTHING, Connection, count_statement, driver_errors, is_dead
from floecat.store.database.errors import StoreUnavailableError
from floecat.store.database.faults import DATABASE_ERRORS, connection_lost, raise_fault
from floecat.store.database.prepared_statements import (
    Parameters,
    PreparedStatement,
    PreparedStatements,
    Row,
    Statement,
)

__all__ = ["AtOnceConnection", "ReadConnection"]


class _QueriesOnly(Connection):
    """Refuses changes: one that is repeated on another connection might be made twice."""

    __slots__ = ()

    def change(self, statement: Statement, parameters: Parameters = NOTHING) -> int:  # noqa: ARG002
        """Refuses."""
        raise _needs_transaction()

    def change_many(self, statement: Statement, parameters: Sequence[Parameters]) -> None:  # noqa: ARG002
        """Refuses."""
        raise _needs_transaction()


class ReadConnection(_QueriesOnly):
    """Runs queries, each for itself; one that meets a dead connection is repeated on a new one."""

    __slots__ = ("_engine", "_pooled", "_statements")

    def __init__(self, engine: sa.Engine, statements: PreparedStatements) -> None:
        """Takes a connection from the pool of an engine that works in autocommit."""
        self._engine = engine
        self._statements = statements
        try:
            self._pooled: sa.PoolProxiedConnection | None = engine.raw_connection()
        except driver_errors(engine.dialect) as error:
            raise_fault(error)

    def all(self, statement: Statement, parameters: Parameters = NOTHING) -> Sequence[Row]:
        """All rows of a query."""
        prepared = _query(self._statements, statement, parameters)
        count_statement()
        connection = None if self._pooled is None else self._pooled.dbapi_connection
        if connection is None:
            return self._run_on_another(prepared.statement, parameters)
        try:
            return prepared.rows(connection, parameters)
        except driver_errors(self._engine.dialect) as error:
            if not is_dead(error, connection, self._engine.dialect):
                raise_fault(error)
        self._discard()
        return self._run_on_another(prepared.statement, parameters)

    def close(self) -> None:
        """Gives the connection back to the pool."""
        if self._pooled is not None:
            self._pooled.close()
            self._pooled = None

    def _discard(self) -> None:
        if self._pooled is not None:
            self._pooled.invalidate()
            self._pooled = None

    def _run_on_another(self, query: sa.Executable, parameters: Parameters) -> Sequence[Row]:
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

    __slots__ = ("_connection", "_engine", "_lock", "_statements")

    def __init__(self, engine: sa.Engine, statements: PreparedStatements) -> None:
        """Takes what makes connections, and the statements.

        Args:
            engine: of a SQLite file, in autocommit, without a pool and without a wait for locks.
            statements: of that database.
        """
        self._engine = engine
        self._statements = statements
        self._connection: DBAPIConnection | None = None
        self._lock = Lock()

    def all(self, statement: Statement, parameters: Parameters = NOTHING) -> Sequence[Row]:
        """All rows of a query."""
        prepared = _query(self._statements, statement, parameters)
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


def _query(statements: PreparedStatements, statement: Statement, parameters: Parameters) -> PreparedStatement:
    prepared = statements.get(statement, parameters)
    if not prepared.is_query:
        raise _needs_transaction()
    return prepared


def _needs_transaction() -> RuntimeError:
    return RuntimeError("a change needs a connection of Store.write() or Store.run()")
