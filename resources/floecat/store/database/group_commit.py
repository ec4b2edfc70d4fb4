"""Transactions of one process that share a COMMIT, and so one sync of the disk.

Writers of a SQLite file queue here, or those of one catalog of PostgreSQL. The first in the queue leads: it
begins a transaction, runs its own work, then that of the writers behind it, each under a savepoint, and
commits for all. Work that fails is rolled back to its savepoint and fails alone. The leader then hands the
lead to the next in the queue.
"""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from floecat.errors import FloecatError
from floecat.store.database.connections import Connection, TransactionConnection, count_transaction
from floecat.store.database.errors import (
    CommitOutcomeUnknownError,
    StoreFaultError,
    StoreUnavailableError,
    TransactionConflictError,
)

__all__ = ["GroupCommit"]

T = TypeVar("T")

_MOST_MEMBERS: Final = 64
_LONGEST_S: Final = 0.05
"""Time after which a leader takes no further member into its transaction."""
_STORE_ERRORS: Final = (StoreUnavailableError, StoreFaultError, CommitOutcomeUnknownError)
"""Errors that do not depend on the rows that a work saw."""


class GroupCommit:
    """The queue of writers of one process."""

    def __init__(
        self,
        transaction: Callable[[float], AbstractContextManager[TransactionConnection]],
        *,
        timeout_s: float,
    ) -> None:
        """Sets up an empty queue.

        Args:
            transaction: a transaction that is committed at the end of its block; takes the `time.monotonic`
                until which it may wait to begin.
            timeout_s: how long a writer waits until its work begins, in the queue and for the transaction.
        """
        self._transaction = transaction
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._waiting: deque[_Member[Any]] = deque()
        self._is_led = False

    def run(self, work: Callable[[Connection], T]) -> T:
        """Runs `work` in a transaction, in this thread or the leader's, and returns once that is committed.

        Raises:
            TransactionConflictError: the work of another member broke the transaction; nothing was applied.
            StoreUnavailableError: the turn did not come in time, or as `Store.write`.
            CommitOutcomeUnknownError: as `Store.write`.
        """
        member = _Member(work, ends_at=time.monotonic() + self._timeout_s)
        self._enter(member)
        if member.leads:
            self._lead(member)
        return member.result()

    @contextmanager
    def alone(self) -> Iterator[TransactionConnection]:
        """A transaction that no other work shares, as a block in this thread."""
        ends_at = time.monotonic() + self._timeout_s
        self._enter(_Member(_no_work, ends_at=ends_at, is_alone=True))
        try:
            with self._transaction(ends_at) as connection:
                yield connection
        finally:
            self._leave()

    @property
    def waiting(self) -> int:
        """The number of writers that wait for their work to begin."""
        return len(self._waiting)

    def _enter(self, member: _Member[T]) -> None:
        """Returns when the member leads, or when a leader has committed its work."""
        with self._lock:
            if not self._is_led:
                self._is_led = member.leads = True
                return
            self._waiting.append(member)
        try:
            if member.wait(max(0.0, member.ends_at - time.monotonic())):
                return
            if self._withdraw(member):
                raise StoreUnavailableError("The store did not get a lock in time")
            member.wait()  # a leader has just taken it, or made it the next leader
        except BaseException:
            # as by a signal: the queue must not wait for a leader that is gone
            if not self._withdraw(member) and member.leads:
                self._leave()
            raise

    def _withdraw(self, member: _Member[T]) -> bool:
        """Takes a member out of the queue; `False` if it is not there any more."""
        with self._lock:
            if member not in self._waiting:
                return False
            self._waiting.remove(member)
            return True

    def _leave(self) -> None:
        with self._lock:
            if not self._waiting:
                self._is_led = False
                return
            successor = self._waiting.popleft()
            successor.leads = True
        successor.wake()

    def _lead(self, own: _Member[Any]) -> None:
        group = [own]
        try:
            with self._transaction(own.ends_at) as connection:
                own.run(connection)
                for member in self._followers(group):
                    _run_under_savepoint(member, connection)
        except Exception as error:  # noqa: BLE001 - the outcome of each member, raised in its thread
            own.fail(error)
            if isinstance(error, FloecatError):
                for member in group[1:]:
                    shared = copy.copy(error)
                    shared.__cause__ = error.__cause__
                    member.fail(shared)
        else:
            for member in group:
                member.is_committed = True
        finally:
            self._leave()
            for member in group[1:]:
                if not member.leads:
                    member.wake()

    def _followers(self, group: list[_Member[Any]]) -> Iterator[_Member[Any]]:
        """Moves members from the queue to the group, one by one."""
        ends_at = time.monotonic() + _LONGEST_S
        for _ in range(_MOST_MEMBERS - 1):
            with self._lock:
                if not self._waiting or self._waiting[0].is_alone or time.monotonic() >= ends_at:
                    return
                # in this order: an interrupt in between must leave no member that nobody wakes
                member = self._waiting[0]
                group.append(member)
                self._waiting.popleft()
            yield member


class _Member(Generic[T]):
    """A writer in the queue, and what became of its work.

    Attributes:
        ends_at: until when the work may wait to begin, by `time.monotonic`.
        leads: the thread of this writer works the queue off.
        saw_others: the work ran behind that of others, in their transaction.
        is_committed: the transaction with the work is committed.
        is_alone: the writer has a block of its own instead of work that another thread can run.
    """

    def __init__(self, work: Callable[[Connection], T], *, ends_at: float, is_alone: bool = False) -> None:
        self.ends_at = ends_at
        self.leads = False
        self.saw_others = False
        self.is_committed = False
        self.is_alone = is_alone
        self._work = work
        self._context = copy_context()
        self._results: list[T] = []
        self._error: Exception | None = None
        self._woken = Lock()
        self._woken.acquire()

    def wait(self, timeout_s: float = -1) -> bool:
        """Waits for `wake`; returns whether it came in time."""
        return self._woken.acquire(timeout=timeout_s)

    def wake(self) -> None:
        """Ends the wait."""
        self._woken.release()

    def run(self, connection: TransactionConnection) -> None:
        """Runs the work in the context of its writer.

        Raises:
            Exception: what the work raises.
            StoreFaultError: the work swallowed the error of a statement.
        """
        self._context.run(self._run, connection)

    def fail(self, error: Exception) -> None:
        """Makes an error the outcome, unless the work itself failed before.

        Args:
            error: of the work, or of the transaction around all work of a group.
        """
        if self._error is None:
            self._error = error

    def result(self) -> T:
        """The result of the work.

        Raises:
            Exception: what it raised, or what the transaction failed with.
            TransactionConflictError: it was refused over changes that were not committed.
            CommitOutcomeUnknownError: the leader was interrupted, perhaps during COMMIT.
        """
        error, self._error = self._error, None
        if error is not None:
            if self.saw_others and not self.is_committed and not isinstance(error, _STORE_ERRORS):
                raise TransactionConflictError("Another change broke the transaction") from None
            raise error
        if not self.is_committed:
            raise CommitOutcomeUnknownError("The store did not say whether the change was applied")
        return self._results[0]

    def _run(self, connection: TransactionConnection) -> None:
        count_transaction()
        self._results[:] = [self._work(connection)]
        connection.finish_later()
        if connection.failed:
            raise StoreFaultError("A failed statement was ignored; the transaction was rolled back")


def _run_under_savepoint(member: _Member[Any], connection: TransactionConnection) -> None:
    """Runs the work of one member; if that fails, the transaction is as it was before.

    Raises:
        TransactionConflictError: the database has rolled back the whole transaction, as on a full disk.
    """
    member.saw_others = True
    try:
        connection.control("SAVEPOINT member")
        try:
            member.run(connection.sharing())
        except Exception as error:  # noqa: BLE001 - the outcome of that member alone, raised in its thread
            member.fail(error)
            connection.control("ROLLBACK TO member")
        connection.control("RELEASE member")
    except connection.errors as error:
        raise TransactionConflictError("Another change broke the transaction") from error


def _no_work(_connection: Connection) -> None:
    """Stands for the block of a writer that is alone."""
