"""Errors of the store.

::

    FloecatError
    ├── StoreFaultError                 a fault of the store or of this program
    ├── CommitStateUnknownError
    │   └── CommitOutcomeUnknownError   the connection was lost during COMMIT
    └── StoreUnavailableError           certainly not applied
        ├── TransactionConflictError    lost against another transaction; may be run again at once
        └── ConnectionLostError         the connection was lost before COMMIT; may be run again at once
    DuplicateKeyError                   a unique constraint; services say what it means
    ForeignKeyError                     a foreign key; services say what it means
"""

from __future__ import annotations

from floecat.errors import CommitStateUnknownError, FloecatError, StoreUnavailableError

__all__ = [
    "CommitOutcomeUnknownError",
    "ConnectionLostError",
    "DuplicateKeyError",
    "ForeignKeyError",
    "StoreFaultError",
    "StoreUnavailableError",
    "TransactionConflictError",
]


class StoreFaultError(FloecatError):
    """A fault of the store or this program: a missing table, a damaged file, a wrong statement."""


class CommitOutcomeUnknownError(CommitStateUnknownError):
    """The store went away during COMMIT. The transaction was applied as a whole or not at all."""


class TransactionConflictError(StoreUnavailableError):
    """A deadlock or a serialization failure: rolled back, and worth another try."""


class ConnectionLostError(StoreUnavailableError):
    """The store went away before COMMIT was sent. A new connection may work."""


class DuplicateKeyError(Exception):
    """A row with this key exists.

    Attributes:
        table: name of the table whose constraint refused the row, if the database names it.
    """

    def __init__(self, table: str | None = None) -> None:
        super().__init__(f"Duplicate key in {table or 'a table'}")
        self.table = table


class ForeignKeyError(Exception):
    """A row that this one points at does not exist, or rows still point at this one.

    Attributes:
        table: name of the table that holds the reference, if the database names it. SQLite does not.
    """

    def __init__(self, table: str | None = None) -> None:
        super().__init__(f"Foreign key violated in {table or 'a table'}")
        self.table = table
