"""Errors of PostgreSQL and its driver in the words of the store, by SQLSTATE.

Loads the driver; only code that works with PostgreSQL imports it.
"""

from __future__ import annotations

from typing import Final

import psycopg

from floecat.errors import BadRequestError
from floecat.store.database.errors import (
    DuplicateKeyError,
    ForeignKeyError,
    StoreFaultError,
    StoreUnavailableError,
    TransactionConflictError,
)
from floecat.store.schema import WRONG_SCHEMA

__all__ = ["postgresql_fault"]

_NOT_AVAILABLE: Final = "The store is not available"
_UNAVAILABLE: Final = {
    "53100": "The disk of the store is full",
    "53300": "The store has no free connection",
    "55P03": "The store did not get a lock in time",
    "57014": "The store did not answer in time",
}
_UNAVAILABLE_CLASSES: Final = frozenset({"08", "25", "28", "3D", "53", "55", "57", "58"})
_CONFLICTS: Final = frozenset({"40001", "40P01"})


def postgresql_fault(error: BaseException | None) -> Exception:
    """What an error of the driver means; see `faults.fault`."""
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


def _stateless_fault(error: psycopg.Error) -> Exception:
    """Errors that the driver made itself: it could not connect, or not encode a value."""
    if isinstance(error, psycopg.OperationalError):
        return StoreUnavailableError(_NOT_AVAILABLE)
    if isinstance(error, psycopg.DataError):
        return BadRequestError("A value cannot be stored: it is out of range or not valid text")
    return StoreFaultError("The store failed")
