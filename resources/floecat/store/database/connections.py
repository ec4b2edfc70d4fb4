"""Connections as the modules of the store use them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from threading import Lock
from typing import Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor

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
    TwoChanges,
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
P = TypeVar("P")


class StatementCounter:
    """The number of statements sent to the database while the counter was installed.

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
_NOTHING_TO_READ: Final = sa.select(sa.literal(1))


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

    @property
    def joins_changes(self) -> bool:
        """Whether one statement can change several tables, as on PostgreSQL."""
        return False

    def change_both(self, changes: TwoChanges, parameters: Parameters) -> int:
        """Makes two changes.

        Args:
            parameters: of both.

        Returns:
            How many rows the first one changed; the second one is made if that is one.
        """
        if self.joins_changes:
            return self.change(changes.joined, parameters)
        changed = self.change(changes.first, parameters)
        if changed:
            self.change(changes.second, parameters)
        return changed

    @abstractmethod
    def change_many(self, statement: Statement, parameters: Sequence[Parameters]) -> None:
        """Runs an INSERT, UPDATE or DELETE once for each set of parameters; nothing for none."""

    def change_later(self, statement: Statement, *parameters: Parameters) -> None:
        """Runs `change_many` with the next statement or COMMIT, for a change whose row count does not matter.

        PostgreSQL gets both in one message, so that one answer less is waited for. If the change fails, that
        statement raises the error, and the connection is closed.
        """
        self.change_many(statement, parameters)


class TransactionConnection(Connection):
    """Runs statements inside one transaction.

    Attributes:
        failed: a statement failed. PostgreSQL takes no others then, so SQLite gets none either.
        pooled: the connection on which it runs.
    """

    __slots__ = ("_dialect", "_later", "_statements", "failed", "pooled")

    def __init__(
        self, pooled: sa.PoolProxiedConnection, statements: PreparedStatements, dialect: sa.Dialect
    ) -> None:
        """Takes a connection in autocommit, on which `control` will open the transaction."""
        self.pooled = pooled
        self._statements = statements
        self._dialect = dialect
        self._later: list[tuple[PreparedStatement, Sequence[Parameters]]] = []
        self.failed = False

    @property
    def joins_changes(self) -> bool:
        """Whether one statement can change several tables."""
        return self._dialect.name != "sqlite"

    def all(self, statement: Statement, parameters: Parameters = NOTHING) -> Sequence[Row]:
        """All rows of a query, or of a change with RETURNING."""
        prepared = self._statements.get(statement, parameters)
        return self._run(prepared.execute, parameters, prepared.fetched)

    def change(self, statement: Statement, parameters: Parameters = NOTHING) -> int:
        """Runs an INSERT, UPDATE or DELETE and answers how many rows it changed."""
        prepared = self._statements.get(statement, parameters)
        return self._run(prepared.execute, parameters, _row_count)

    def change_many(self, statement: Statement, parameters: Sequence[Parameters]) -> None:
        """Runs an INSERT, UPDATE or DELETE once for each set of parameters; nothing for none."""
        if len(parameters) < 2:
            # psycopg would open a pipeline for the one, with four round trips more
            for only in parameters:
                self.change(statement, only)
            return
        prepared = self._statements.get(statement, parameters[0])
        self._run(prepared.execute_many, parameters, _row_count)

    def change_later(self, statement: Statement, *parameters: Parameters) -> None:
        """Runs `change_many` with the next statement or COMMIT; see `Connection.change_later`."""
        if not self.joins_changes:
            self.change_many(statement, parameters)
        elif parameters:
            count_statement()
            self._later.append((self._statements.get(statement, parameters[0]), parameters))

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The errors that `control` may raise."""
        return (*DATABASE_ERRORS, self._dialect.loaded_dbapi.Error)

    def sharing(self) -> TransactionConnection:
        """The same connection for other work in the same transaction, which fails for itself."""
        return TransactionConnection(self.pooled, self._statements, self._dialect)

    def finish_later(self) -> None:
        """Makes the changes that wait for another statement.

        Raises:
            Exception: as `change`.
        """
        if self._later:
            self.all(_NOTHING_TO_READ)

    def control(self, text: str) -> None:
        """Runs statements that open or end a transaction.

        Raises:
            ConnectionLostError: the connection is dead.
            Exception: the driver's own error if it fails otherwise.
        """
        driver = self._driver()
        try:
            if self.joins_changes:
                driver.execute(text, prepare=False)
            else:
                driver.execute(text)
        except self._dialect.loaded_dbapi.Error as error:
            self._forget_dead(driver, error)
            raise

    def commit(self) -> None:
        """Sends COMMIT behind the changes that waited for it.

        Raises:
            CommitOutcomeUnknownError: the connection died; the transaction may have been committed.
            Exception: as `control`, also for a change that waited.
        """
        try:
            driver = self._driver()
            if self._later:
                self._run_later(driver, lambda driver: driver.execute("COMMIT"))
                return
            try:
                # the drivers' own way is cheaper than a cursor; without a transaction it does nothing
                if self.joins_changes or driver.in_transaction:
                    driver.commit()
                else:
                    raise StoreFaultError("The store has rolled the transaction back")
            except self._dialect.loaded_dbapi.Error as error:
                self._forget_dead(driver, error)
                raise
        except ConnectionLostError as error:
            raise CommitOutcomeUnknownError(
                "The store did not say whether the change was applied"
            ) from error.__cause__

    def discard(self) -> None:
        """Closes the connection to the database, which rolls back what is open on it."""
        if self.pooled.is_valid:
            self.pooled.invalidate()

    def close(self) -> None:
        """Gives the connection back to the pool."""
        if self.pooled.is_valid:
            self.pooled.close()

    def _driver(self) -> DBAPIConnection:
        driver = self.pooled.dbapi_connection
        if driver is None:
            raise ConnectionLostError("The connection to the store was lost")
        return driver

    def _forget_dead(self, driver: DBAPIConnection, error: Exception) -> None:
        """Raises `ConnectionLostError` if an error says that the connection is dead."""
        if is_dead(error, driver, self._dialect):
            self.discard()
            raise ConnectionLostError("The connection to the store was lost") from error

    def _run(
        self,
        execute: Callable[[DBAPIConnection, P], DBAPICursor],
        parameters: P,
        outcome: Callable[[DBAPICursor], T],
    ) -> T:
        if self.failed:
            raise StoreFaultError("A failed statement was ignored; the transaction will be rolled back")
        count_statement()
        try:
            driver = self._driver()
            if self._later:
                return outcome(self._run_later(driver, lambda driver: execute(driver, parameters)))
            try:
                return outcome(execute(driver, parameters))
            except self._dialect.loaded_dbapi.Error as error:
                self._forget_dead(driver, error)
                raise
        except driver_errors(self._dialect) as error:
            self.failed = True
            raise_fault(error)
        except BaseException:
            self.failed = True
            raise

    def _run_later(self, driver: DBAPIConnection, last: Callable[[DBAPIConnection], T]) -> T:
        """Runs the changes that waited and something behind them in one message."""
        later, self._later = self._later, []
        try:
            with driver.pipeline():
                for prepared, parameters in later:
                    if len(parameters) == 1:
                        prepared.execute(driver, parameters[0])
                    else:
                        prepared.execute_many(driver, parameters)
                return last(driver)
        except self._dialect.loaded_dbapi.Error as error:
            self._forget_dead(driver, error)
            # the driver takes statements for prepared that the server has skipped after the error
            self.discard()
            raise


def _row_count(cursor: DBAPICursor) -> int:
    count = cursor.rowcount
    cursor.close()
    return count


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
    """The errors that can be met past SQLAlchemy, which would wrap those of the driver."""
    return (*DATABASE_ERRORS, dialect.loaded_dbapi.Error)


def is_dead(error: Exception, connection: DBAPIConnection, dialect: sa.Dialect) -> bool:
    """Whether an error of the driver says that its connection is dead."""
    return isinstance(error, dialect.loaded_dbapi.Error) and dialect.is_disconnect(error, connection, None)
