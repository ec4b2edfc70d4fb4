"""Counting statements, so that tests can hold a look-up to its number of round trips."""

from __future__ import annotations

from threading import Lock

__all__ = ["StatementCounter"]


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
