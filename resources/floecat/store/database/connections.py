"""Connections as the modules of the store use them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from operator import attrgetter, methodcaller
from threading import Lock
from typing import Any, NamedTuple, TypeAlias, TypeVar

import sqlalchemy as sa

from floecat.store.database.errors import StoreFaultError
from floecat.store.database.faults import DATABASE_ERRORS, raise_fault

__all__ = [
    "Connection",
    "Parameters",
    "PerDialect",
    "Query",
    "Row",
    "Statement",
    "StatementCounter",
    "TransactionConnection",
    "active_counter",
    "count_statement",
    "count_transaction",
    "for_dialect",
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

    Methods raise the errors of `store.database.errors` in place of the driver's. Statements are built once,
    when their module is imported.
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

    def sharing(self) -> TransactionConnection:
        """The same connection for other work in the same transaction, which fails for itself."""
        return TransactionConnection(self._sql)

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
            return fetch(self._sql.execute(for_dialect(statement, self._sql.dialect), parameters))
        except DATABASE_ERRORS as error:
            self.failed = True
            raise_fault(error)


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


def for_dialect(statement: Statement, dialect: sa.Dialect) -> sa.Executable:
    """The statement as a database writes it."""
    if isinstance(statement, PerDialect):
        return statement.sqlite if dialect.name == "sqlite" else statement.postgresql
    return statement
