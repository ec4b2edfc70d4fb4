from __future__ import annotations

import sqlite3

import psycopg
import pytest
import sqlalchemy.exc as sa_exc
from psycopg import errors as pg_errors

from floecat.errors import BadRequestError, CommitStateUnknownError, StoreUnavailableError
from floecat.store.database.errors import (
    CommitOutcomeUnknownError,
    ConnectionLostError,
    DuplicateKeyError,
    ForeignKeyError,
    StoreFaultError,
    TransactionConflictError,
)
from floecat.store.database.faults import commit_fault, fault, raise_fault

SECRET = "host=db password=hunter2"


def sqlite_error(code: int, message: str = SECRET) -> sqlite3.Error:
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    return error


def wrapped(driver: Exception, *, lost: bool = False) -> sa_exc.DBAPIError:
    return sa_exc.DBAPIError("SELECT 'hunter2'", {"p": SECRET}, driver, connection_invalidated=lost)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("23505", DuplicateKeyError),
        ("23503", ForeignKeyError),
        ("23001", ForeignKeyError),
        ("23514", StoreFaultError),
        ("40001", TransactionConflictError),
        ("40P01", TransactionConflictError),
        ("08006", StoreUnavailableError),
        ("25006", StoreUnavailableError),
        ("25P03", StoreUnavailableError),
        ("28P01", StoreUnavailableError),
        ("3D000", StoreUnavailableError),
        ("53100", StoreUnavailableError),
        ("53300", StoreUnavailableError),
        ("55P03", StoreUnavailableError),
        ("57014", StoreUnavailableError),
        ("57P01", StoreUnavailableError),
        ("57P03", StoreUnavailableError),
        ("58030", StoreUnavailableError),
        ("22003", BadRequestError),
        ("22021", BadRequestError),
        ("54000", BadRequestError),
        ("42P01", StoreFaultError),
        ("42601", StoreFaultError),
        ("XX001", StoreFaultError),
    ],
)
def test_states_of_postgresql(state: str, expected: type[Exception]) -> None:
    driver = pg_errors.lookup(state)(SECRET)
    assert type(fault(wrapped(driver))) is expected
    assert type(fault(driver)) is expected
    assert type(commit_fault(wrapped(driver))) is (
        CommitOutcomeUnknownError if state.startswith("57P") else expected
    )
    assert "hunter2" not in str(fault(wrapped(driver)))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_BUSY, StoreUnavailableError),
        (sqlite3.SQLITE_BUSY_TIMEOUT, StoreUnavailableError),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, TransactionConflictError),
        (sqlite3.SQLITE_LOCKED, StoreUnavailableError),
        (sqlite3.SQLITE_READONLY_DBMOVED, StoreUnavailableError),
        (sqlite3.SQLITE_IOERR_READ, StoreUnavailableError),
        (sqlite3.SQLITE_FULL, StoreUnavailableError),
        (sqlite3.SQLITE_CANTOPEN, StoreUnavailableError),
        (sqlite3.SQLITE_NOMEM, StoreUnavailableError),
        (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, DuplicateKeyError),
        (sqlite3.SQLITE_CONSTRAINT_UNIQUE, DuplicateKeyError),
        (sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY, ForeignKeyError),
        (sqlite3.SQLITE_CONSTRAINT_TRIGGER, ForeignKeyError),
        (sqlite3.SQLITE_CONSTRAINT_NOTNULL, StoreFaultError),
        (sqlite3.SQLITE_TOOBIG, BadRequestError),
        (sqlite3.SQLITE_CORRUPT, StoreFaultError),
        (sqlite3.SQLITE_NOTADB, StoreFaultError),
        (sqlite3.SQLITE_ERROR, StoreFaultError),
    ],
)
def test_codes_of_sqlite(code: int, expected: type[Exception]) -> None:
    driver = sqlite_error(code)
    assert type(fault(wrapped(driver))) is expected
    assert type(fault(driver)) is expected
    assert "hunter2" not in str(fault(driver))


def test_a_lost_connection_before_and_at_the_commit() -> None:
    lost = wrapped(psycopg.OperationalError(SECRET), lost=True)
    assert type(fault(lost)) is ConnectionLostError
    assert type(commit_fault(lost)) is CommitOutcomeUnknownError
    # a shutdown may come after the commit and before its answer
    shutdown = wrapped(pg_errors.AdminShutdown(SECRET), lost=True)
    assert type(commit_fault(shutdown)) is CommitOutcomeUnknownError


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        # seen before the connection is closed
        (pg_errors.AdminShutdown(SECRET), CommitOutcomeUnknownError),
        (pg_errors.CrashShutdown(SECRET), CommitOutcomeUnknownError),
        (psycopg.OperationalError(SECRET), CommitOutcomeUnknownError),
        (pg_errors.QueryCanceled(SECRET), StoreUnavailableError),
        (pg_errors.SerializationFailure(SECRET), TransactionConflictError),
        (psycopg.DataError(SECRET), BadRequestError),
    ],
)
def test_a_commit_of_postgresql(error: Exception, expected: type[Exception]) -> None:
    assert type(commit_fault(error)) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_IOERR_FSYNC, CommitOutcomeUnknownError),
        (sqlite3.SQLITE_IOERR_WRITE, CommitOutcomeUnknownError),
        (sqlite3.SQLITE_FULL, StoreUnavailableError),
        (sqlite3.SQLITE_BUSY, StoreUnavailableError),
    ],
)
def test_a_commit_of_sqlite(code: int, expected: type[Exception]) -> None:
    assert type(commit_fault(wrapped(sqlite_error(code)))) is expected


def test_what_may_be_applied_is_never_called_unavailable() -> None:
    assert issubclass(CommitOutcomeUnknownError, CommitStateUnknownError)
    assert not issubclass(CommitOutcomeUnknownError, StoreUnavailableError)
    assert issubclass(TransactionConflictError, StoreUnavailableError)
    assert issubclass(ConnectionLostError, StoreUnavailableError)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (sa_exc.TimeoutError(), StoreUnavailableError),
        (psycopg.OperationalError(SECRET), StoreUnavailableError),
        (psycopg.DataError(SECRET), BadRequestError),
        (psycopg.ProgrammingError(SECRET), StoreFaultError),
        (sqlite3.ProgrammingError(SECRET), StoreFaultError),
        (sqlite3.DataError(SECRET), BadRequestError),
        (UnicodeEncodeError("utf-8", "x", 0, 1, "r"), BadRequestError),
        (OverflowError(SECRET), BadRequestError),
        (sa_exc.StatementError("m", "s", {}, OverflowError()), BadRequestError),
        (sa_exc.StatementError("m", "s", {}, ValueError()), StoreFaultError),
        (sa_exc.InvalidRequestError(SECRET), StoreFaultError),
    ],
)
def test_other_errors(error: Exception, expected: type[Exception]) -> None:
    assert type(fault(error)) is expected
    assert "hunter2" not in str(fault(error))


def test_a_missing_table_says_what_to_do() -> None:
    for driver in (sqlite_error(sqlite3.SQLITE_ERROR, "no such table: t"), pg_errors.UndefinedTable("t")):
        assert "floecat db upgrade" in str(fault(wrapped(driver)))


@pytest.mark.parametrize(
    ("message", "table"),
    [
        ("UNIQUE constraint failed: entries.namespace_id, entries.name", "entries"),
        ("UNIQUE constraint failed", None),
    ],
)
def test_the_table_of_a_duplicate(message: str, table: str | None) -> None:
    error = fault(sqlite_error(sqlite3.SQLITE_CONSTRAINT_UNIQUE, message))
    assert isinstance(error, DuplicateKeyError)
    assert error.table == table


def test_causes_stay_where_they_tell_no_values() -> None:
    for driver, kept in ((pg_errors.DiskFull("x"), True), (pg_errors.UniqueViolation("Key (a)=(b)"), False)):
        with pytest.raises((StoreUnavailableError, DuplicateKeyError)) as raised:
            raise_fault(wrapped(driver))
        assert (raised.value.__cause__ is driver) == kept
        assert raised.value.__suppress_context__
