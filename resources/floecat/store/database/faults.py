"""Driver errors in the words of the store.

One table per database says what an error code means. Messages are fixed texts: no statement, no value and no
connection string gets into them.
"""

from __future__ import annotations

import sqlite3
from typing import Final, NoReturn

import sqlalchemy as sa
import sqlalchemy.exc as sa_exc

from floecat.errors import BadRequestError
from floecat.store.database.errors import (
    CommitOutcomeUnknownError,
    ConnectionLostError,
    DuplicateKeyError,
    ForeignKeyError,
    StoreFaultError,
    StoreUnavailableError,
    TransactionConflictError,
)
from floecat.store.schema import WRONG_SCHEMA

__all__ = ["DATABASE_ERRORS", "commit_fault", "connection_lost", "fault", "raise_fault", "raise_named_fault"]

DATABASE_ERRORS: Final = (
    sa_exc.SQLAlchemyError,
    sqlite3.Error,
    UnicodeError,
    OverflowError,
)
"""Errors of statements. The last two come from the encoding of values, and nothing was sent.

What runs statements past SQLAlchemy meets the errors of psycopg as well.
"""

_SQLITE_UNAVAILABLE: Final = {
    sqlite3.SQLITE_BUSY: "The store is locked by another process",
    sqlite3.SQLITE_LOCKED: "The store is locked by another process",
    sqlite3.SQLITE_NOMEM: "The store is out of memory",
    sqlite3.SQLITE_READONLY: "The store is read-only",
    sqlite3.SQLITE_INTERRUPT: "The store is not available",
    sqlite3.SQLITE_IOERR: "The store cannot read or write its file",
    sqlite3.SQLITE_FULL: "The disk of the store is full",
    sqlite3.SQLITE_CANTOPEN: "The store cannot open its file",
    sqlite3.SQLITE_PROTOCOL: "The store is locked by another process",
    sqlite3.SQLITE_AUTH: "The store cannot open its file",
    sqlite3.SQLITE_PERM: "The store cannot open its file",
}
_SQLITE_CONFLICTS: Final = frozenset({sqlite3.SQLITE_BUSY_SNAPSHOT, sqlite3.SQLITE_BUSY_RECOVERY})
_SQLITE_DUPLICATES: Final = frozenset(
    {sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY}
)
# ON DELETE RESTRICT is a trigger inside SQLite, and reported as one; there are no others here
_SQLITE_FOREIGN_KEYS: Final = frozenset(
    {sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY, sqlite3.SQLITE_CONSTRAINT_TRIGGER}
)


def connection_lost(error: Exception) -> bool:
    """Whether the error says that the connection is dead, as after a restart of the database."""
    return isinstance(error, sa_exc.DBAPIError) and error.connection_invalidated


def fault(error: Exception) -> Exception:
    """The meaning of a failed statement; the transaction around it is surely not applied.

    Args:
        error: one of `DATABASE_ERRORS`.
    """
    if connection_lost(error):
        return ConnectionLostError("The connection to the store was lost")
    if isinstance(error, sa_exc.TimeoutError):
        return StoreUnavailableError("All connections to the store are in use")
    driver = error.orig if isinstance(error, sa_exc.StatementError) else error
    if isinstance(driver, sqlite3.Error):
        return _sqlite_fault(driver)
    if hasattr(driver, "sqlstate"):
        # the driver is there if it raised; a process without PostgreSQL never loads it
        from floecat.store.database.postgresql import postgresql_fault

        return postgresql_fault(driver)
    if isinstance(driver, UnicodeError | OverflowError):
        return BadRequestError("A value cannot be stored: it is out of range or not valid text")
    return StoreFaultError("The store was used in a wrong way")


def commit_fault(error: Exception) -> Exception:
    """The meaning of a failed COMMIT.

    A server that answers with an error has rolled back; one that does not answer may have committed. A SQLite
    file that could not be synchronised may hold the transaction after a crash.
    """
    driver = error.orig if isinstance(error, sa_exc.StatementError) else error
    if isinstance(driver, sqlite3.Error):
        is_unknown = _sqlite_code(driver) & 0xFF == sqlite3.SQLITE_IOERR
    elif hasattr(driver, "sqlstate"):
        from floecat.store.database.postgresql import answers_commit

        is_unknown = not answers_commit(driver)
    else:
        is_unknown = False
    if is_unknown or connection_lost(error):
        return CommitOutcomeUnknownError("The store did not say whether the change was applied")
    return fault(error)


def raise_fault(error: Exception, *, committing: bool = False) -> NoReturn:
    """Raises what a failed statement or COMMIT means.

    The driver's error is kept as the cause where it helps an operator, and left out where it quotes values.
    """
    meaning = commit_fault(error) if committing else fault(error)
    if isinstance(meaning, DuplicateKeyError | ForeignKeyError | BadRequestError):
        raise meaning from None
    raise meaning from (error.orig if isinstance(error, sa_exc.StatementError) else error)


def raise_named_fault(error: Exception, url: sa.URL) -> NoReturn:
    """Raises as `raise_fault`, with the place of the store and the driver's reason in the message.

    For commands and the start of a service, whose messages an operator reads; never for an answer.
    """
    meaning = fault(error)
    driver = error.orig if isinstance(error, sa_exc.StatementError) else error
    if not isinstance(meaning, StoreUnavailableError | StoreFaultError):
        raise_fault(error)
    # libpq quotes host, port, user and database, never a password
    reason = (str(driver).strip() or type(driver).__name__).splitlines()[0]
    raise type(meaning)(f"{meaning.message}: {_place(url)}: {reason}") from driver


def _place(url: sa.URL) -> str:
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    host = url.host or url.query.get("host") or "the local socket"
    return f"database {url.database or url.username} at {host}, port {url.port or 5432}"


def _sqlite_fault(error: sqlite3.Error) -> Exception:
    code = _sqlite_code(error)
    if code in _SQLITE_DUPLICATES:
        return DuplicateKeyError(_sqlite_table(error))
    if code in _SQLITE_FOREIGN_KEYS:
        return ForeignKeyError()
    if code in _SQLITE_CONFLICTS:
        return TransactionConflictError("Another transaction was faster")
    if code & 0xFF in _SQLITE_UNAVAILABLE:
        return StoreUnavailableError(_SQLITE_UNAVAILABLE[code & 0xFF])
    if code & 0xFF == sqlite3.SQLITE_TOOBIG or isinstance(error, sqlite3.DataError):
        return BadRequestError("A value cannot be stored: it is too large")
    if code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return StoreFaultError("The file of the store is damaged, or is no SQLite database")
    if "no such table" in str(error) or "no such column" in str(error):
        return StoreFaultError(WRONG_SCHEMA)
    return StoreFaultError("The store failed")


def _sqlite_code(error: sqlite3.Error) -> int:
    # errors that the module makes up itself carry no code
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)


def _sqlite_table(error: sqlite3.Error) -> str | None:
    # "UNIQUE constraint failed: entries.namespace_id, entries.name"
    _, found, columns = str(error).partition(": ")
    return columns.partition(".")[0] if found else None
