"""Reads that wait for nothing, for a thread that others wait for: the one of an event loop.

Taking a connection from the pool and giving it back costs twice what a read by key of a local file does. The
connection here stays open beside the pool, and gives up where another one would wait for a lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection

from floecat.store.database.connections import (
    Connection,
    Parameters,
    Row,
    Statement,
    count_statement,
    needs_transaction,
    query_for,
)
from floecat.store.database.errors import StoreUnavailableError
from floecat.store.database.faults import DATABASE_ERRORS, raise_fault
from floecat.store.database.prepared_queries import PreparedQueries

__all__ = ["AtOnceConnection"]

_NOTHING: Final[Parameters] = {}


class AtOnceConnection(Connection):
    """Runs queries on a SQLite file, each its own snapshot. Opens when it is first used, and after an error.

    `StoreUnavailableError` may also say that an answer would have taken a wait.
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
        prepared = self._queries.get(query_for(statement, self._engine.dialect))
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

    def change(self, statement: Statement, parameters: Parameters = _NOTHING) -> int:  # noqa: ARG002
        """Refuses: only reads can be given up."""
        raise needs_transaction()

    def change_many(self, statement: Statement, parameters: Sequence[Parameters]) -> None:  # noqa: ARG002
        """Refuses, as `change`."""
        raise needs_transaction()

    def close(self) -> None:
        """Closes the file; the next query opens it again."""
        with self._lock:
            self._close()

    def _open(self) -> DBAPIConnection:
        lent = self._engine.raw_connection()
        connection = lent.dbapi_connection
        if connection is None:
            raise StoreUnavailableError("The store gave no connection")
        lent.detach()  # it is closed here, and not when nobody holds `lent` any more
        self._connection = connection
        return connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
