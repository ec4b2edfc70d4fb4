"""Opening of a PostgreSQL store, and the meaning of its errors.

Loads the driver, so only code that works with PostgreSQL imports this module.

Three time-outs guard a statement: the server's own for statements and for locks, and a deadline in the client
for a server that does not answer at all. The driver stays in autocommit: `engine` sends BEGIN and COMMIT.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg.abc import PQGen

from floecat.errors import BadRequestError
from floecat.store.database.errors import (
    DuplicateKeyError,
    ForeignKeyError,
    StoreFaultError,
    StoreUnavailableError,
    TransactionConflictError,
)
from floecat.store.schema import POSTGRESQL_SCHEMA, WRONG_SCHEMA

__all__ = ["answers_commit", "create_engine", "postgresql_fault"]

RV = TypeVar("RV")

_MIN_CONNECT_TIMEOUT_S: Final = 2
_GRACE_S: Final = 2.0
_NOT_AVAILABLE: Final = "The store is not available"
_UNAVAILABLE: Final = {
    "53100": "The disk of the store is full",
    "53300": "The store has no free connection",
    "55P03": "The store did not get a lock in time",
    "57014": "The store did not answer in time",
}
_UNAVAILABLE_CLASSES: Final = frozenset({"08", "25", "28", "3D", "53", "55", "57", "58"})
_CONFLICTS: Final = frozenset({"40001", "40P01"})
_ENDS_SESSION: Final = frozenset({"FATAL", "PANIC"})


class _DeadlineConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server does not answer in time."""

    deadline_s: float | None = None

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        try:
            return super().wait(gen, interval, self.deadline_s if timeout is None else timeout)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                # the answer may still come, and would be taken for that of the next query
                self.pgconn.finish()
            raise


def create_engine(url: sa.URL, *, timeout_s: float | None, pool: dict[str, Any]) -> sa.Engine:
    """An engine on a database; connects on first use.

    Args:
        url: `postgresql+psycopg://…`. Its `options` are kept; the time-outs come before them.
        timeout_s: how long a connection, a lock or a statement may take; `None` for
            migrations, which may take long.
        pool: settings of the connection pool.
    """
    engine = sa.create_engine(
        url,
        connect_args=_connect_args(url, timeout_s),
        isolation_level="AUTOCOMMIT",
        use_native_hstore=False,
        hide_parameters=True,
        # otherwise the row count of an INSERT with a conflict clause is not always kept
        execution_options={"preserve_rowcount": True},
        **pool,
    )

    def connect(_dialect: object, _record: object, args: Any, parameters: Any) -> _DeadlineConnection:
        connection = _DeadlineConnection.connect(*args, **parameters)
        connection.deadline_s = None if timeout_s is None else timeout_s + _GRACE_S
        return connection

    sa.event.listen(engine, "do_connect", connect)
    return engine


def postgresql_fault(error: BaseException | None) -> Exception:
    """The meaning of an error of the driver; see `faults.fault`."""
    if not isinstance(error, psycopg.Error):
        return StoreFaultError("The store was used in a wrong way")
    state = error.sqlstate
    if state is None:
        return _stateless_fault(error)
    if state == "23505":
        return DuplicateKeyError(error.diag.table_name)
    if state in {"23503", "23001"}:
        return ForeignKeyError(error.diag.table_name)
    if state in _CONFLICTS:
        return TransactionConflictError("Another transaction was faster")
    if state[:2] in _UNAVAILABLE_CLASSES:
        return StoreUnavailableError(_UNAVAILABLE.get(state, _NOT_AVAILABLE))
    if state[:2] in {"22", "54"}:
        return BadRequestError("A value cannot be stored: it is out of range, too large or not valid text")
    if state in {"42P01", "42703", "3F000"}:
        return StoreFaultError(WRONG_SCHEMA)
    return StoreFaultError("The store failed")


def answers_commit(error: BaseException | None) -> bool:
    """Whether an error at COMMIT says that the transaction was rolled back.

    The driver's own do not. Nor do those with which a server ends a session: a shutdown during COMMIT waits
    until that is done, and behind other statements the driver may see it before the connection is closed.
    """
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return not isinstance(error, psycopg.OperationalError)
    return error.diag.severity_nonlocalized not in _ENDS_SESSION and not error.sqlstate.startswith("57P")


def _connect_args(url: sa.URL, timeout_s: float | None) -> dict[str, Any]:
    timeout_ms = 0 if timeout_s is None else math.ceil(timeout_s * 1000)
    options = (
        f"-c search_path={POSTGRESQL_SCHEMA} -c statement_timeout={timeout_ms} -c lock_timeout={timeout_ms}"
    )
    if timeout_ms:
        # a process that hangs inside a transaction must not keep its locks for ever
        options += f" -c idle_in_transaction_session_timeout={6 * timeout_ms}"
    given = url.query.get("options", "")
    return {
        "options": f"{options} {given if isinstance(given, str) else ' '.join(given)}".strip(),
        "connect_timeout": max(_MIN_CONNECT_TIMEOUT_S, math.ceil(timeout_s or 60)),
        "application_name": url.query.get("application_name", "floecat"),
        "keepalives_idle": 30,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }


def _stateless_fault(error: psycopg.Error) -> Exception:
    """Errors that the driver made itself: it could not connect, or not encode a value."""
    if isinstance(error, psycopg.OperationalError):
        return StoreUnavailableError(_NOT_AVAILABLE)
    if isinstance(error, psycopg.DataError):
        return BadRequestError("A value cannot be stored: it is out of range or not valid text")
    return StoreFaultError("The store failed")
