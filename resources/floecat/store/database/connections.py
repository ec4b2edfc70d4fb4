"""Connections as the modules of the store use them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from threading import Lock
from typing import Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection

from floecat.store.database.errors import (
    CommitOutcomeUnknownError,
    ConnectionLostError,
    StoreFaultError,
)
from floecat.store.database.faults import DATABASE_ERRORS, raise_fault
from floecat.store.database.prepared_statements import (
    Parameters,
    PreparedStatement,
    PreparedStatements,
    Row,
    Statement,
)

__all__ = [
    "NOTHING",
    "Connection",
    "StatementCounter",
    "TransactionConnection",
    "active_counter",
    "count_statement",
    "count_transaction",
    "driver_errors",
    "is_dead",
]

T = TypeVar("T")


class StatementCounter:
    """What was sent to the database while it was installed.

    Attributes:
        statements: statements, without those that open and end transactions.
        transactions: transactions that were begun.
    """

    def __init__(self) -> None:
        self.statements = 0
        self.transactions = 0
        self._lock = Lock()

    @property
    def total(self) -> int:
        """Round trips: every statement, and two for each transaction."""
        return self.statements + 2 * self.transactions

    def count_statement(self) -> None:
        """Counts one statement; `executemany` is one."""
        with self._lock:
            self.statements += 1

    def count_transaction(self) -> None:
        """Counts one BEGIN."""
        with self._lock:
            self.transactions += 1


active_counter: ContextVar[StatementCounter | None] = ContextVar("floecat_statement_counter", default=None)
"""The counter of this context, in tests."""

NOTHING: Final[Parameters] = {}


class Connection(ABC):
    """A connection that the store lends out: for single reads, or for one transaction.

    Methods raise the errors of `store.database.errors` in place of the driver's. Statements are built once,
    when their module is imported.
    """

    __slots__ = ()

    @abstractmethod
    def all(self, statement: Statement, parameters: Parameters = NOTHING) -> Sequence[Row]:
        """All rows of a query, or of a change with RETURNING."""

    def first(self, statement: Statement, parameters: Parameters = NOTHING) -> Row | None:
        """The only row of a query for at most one, or `None`."""
        rows = self.all(statement, parameters)
        return rows[0] if rows else None

    @abstractmethod
    def change(self, statement: Statement, parameters: Parameters = NOTHING) -> int:
        """Runs an INSERT, UPDATE or DELETE.

        Returns:
            How many rows it changed.
        """

    @abstractmethod
    def change_many(self, statement: Statement, parameters: Sequence[Parameters]) -> None:
        """Runs an INSERT, UPDATE or DELETE once for each set of parameters; nothing for none."""

    def change_last(self, statement: Statement, parameters: Sequence[Parameters]) -> None:
        """As `change_many`, at the latest with COMMIT: for a change under a lock that others wait for.

        PostgreSQL gets it in one message with COMMIT, so that they wait for one answer less. Any other
        statement of the transaction sends it first.
        """
        self.change_many(statement, parameters)


class TransactionConnection(Connection):
    """Runs statements inside one transaction.

    Attributes:
        failed: a statement failed. PostgreSQL takes no others then, so SQLite gets none either.
    """

    __slots__ = ("_last", "_sql", "_statements", "failed")

    def __init__(self, sql: sa.Connection, statements: PreparedStatements) -> None:
        """Takes a connection in autocommit, on which `control` will open the transaction."""
        self._sql = sql
        self._statements = statements
        self._last: list[tuple[PreparedStatement, Sequence[Parameters]]] = []
        self.failed = False

    def all(self, statement: Statement, parameters: Parameters = NOTHING) -> Sequence[Row]:
        """All rows of a query, or of a change with RETURNING."""
        prepared = self._statements.get(statement, parameters)
        if prepared.is_fixed:
            return self._run(lambda driver: prepared.rows(driver, parameters))
        return self._run(lambda _: self._sql.execute(prepared.statement, parameters).all())

    def change(self, statement: Statement, parameters: Parameters = NOTHING) -> int:
        """Runs an INSERT, UPDATE or DELETE and answers how many rows it changed."""
        prepared = self._statements.get(statement, parameters)
        if prepared.is_fixed:
            return self._run(lambda driver: prepared.change(driver, parameters))
        return self._run(lambda _: self._sql.execute(prepared.statement, parameters).rowcount)

    def change_many(self, statement: Statement, parameters: Sequence[Parameters]) -> None:
        """Runs an INSERT, UPDATE or DELETE once for each set of parameters; nothing for none."""
        if len(parameters) < 2:
            # psycopg would open a pipeline for the one, with four round trips more
            for only in parameters:
                self.change(statement, only)
            return
        prepared = self._statements.get(statement, parameters[0])
        if prepared.is_fixed:
            self._run(lambda driver: prepared.change_many(driver, parameters))
        else:
            self._run(lambda _: self._sql.execute(prepared.statement, parameters))

    def change_last(self, statement: Statement, parameters: Sequence[Parameters]) -> None:
        """As `change_many`, with COMMIT or before the next statement; see `Connection.change_last`."""
        if self._sql.dialect.name == "sqlite":
            self.change_many(statement, parameters)
        elif parameters:
            count_statement()
            self._last.append((self._statements.get(statement, parameters[0]), parameters))

    def sharing(self) -> TransactionConnection:
        """The same connection for other work in the same transaction, which fails for itself."""
        return TransactionConnection(self._sql, self._statements)

    def control(self, text: str) -> None:
        """Runs a statement that opens or ends a transaction, with the driver's own error if it fails."""
        self._sql.exec_driver_sql(text)

    def commit(self) -> None:
        """Sends COMMIT behind the changes that waited for it.

        Raises:
            CommitOutcomeUnknownError: the connection died; the transaction may have been committed.
            Exception: as `control`, also for a change that waited.
        """
        last, self._last = self._last, []
        driver = self._sql.connection.dbapi_connection
        if not last or driver is None:
            self.control("COMMIT")
            return
        dialect = self._sql.dialect
        try:
            with driver.pipeline():
                for prepared, parameters in last:
                    for each in parameters:
                        prepared.send(driver, each)
                driver.execute("COMMIT")
        except dialect.loaded_dbapi.Error as error:
            dead = is_dead(error, driver, dialect)
            # the driver takes statements for prepared that the server has skipped after the error
            self._sql.invalidate(error)
            if not dead:
                raise
            raise CommitOutcomeUnknownError("The store did not say whether the change was applied") from error

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

    def _run(self, work: Callable[[DBAPIConnection], T]) -> T:
        if self.failed:
            raise StoreFaultError("A failed statement was ignored; the transaction will be rolled back")
        count_statement()
        dialect = self._sql.dialect
        try:
            driver = self._sql.connection.dbapi_connection
            if driver is None:
                raise ConnectionLostError("The connection to the store was lost")
            try:
                if self._last:
                    last, self._last = self._last, []
                    for prepared, parameters in last:
                        for each in parameters:
                            prepared.change(driver, each)
                return work(driver)
            except dialect.loaded_dbapi.Error as error:
                if is_dead(error, driver, dialect):
                    self._sql.invalidate(error)
                    raise ConnectionLostError("The connection to the store was lost") from error
                raise
        except driver_errors(dialect) as error:
            self.failed = True
            raise_fault(error)
        except BaseException:
            self.failed = True
            raise


def count_statement() -> None:
    """Counts one statement in the counter of this context, if it has one."""
    counter = active_counter.get()
    if counter is not None:
        counter.count_statement()


def count_transaction() -> None:
    """Counts one transaction in the counter of this context, if it has one."""
    counter = active_counter.get()
    if counter is not None:
        counter.count_transaction()


def driver_errors(dialect: sa.Dialect) -> tuple[type[Exception], ...]:
    """What can be met past SQLAlchemy, which would wrap the errors of the driver."""
    return (*DATABASE_ERRORS, dialect.loaded_dbapi.Error)


def is_dead(error: Exception, connection: DBAPIConnection, dialect: sa.Dialect) -> bool:
    """Whether an error of the driver says that its connection is dead."""
    return isinstance(error, dialect.loaded_dbapi.Error) and dialect.is_disconnect(error, connection, None)
