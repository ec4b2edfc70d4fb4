"""A store whose COMMIT is answered by a lost connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from uuid import UUID

from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import CommitOutcomeUnknownError

__all__ = ["lose_answers"]

T = TypeVar("T")


class _NotCommittedError(Exception):
    pass


@contextmanager
def lose_answers(store: Store, *, applied: bool, times: int = 1, after: int = 0) -> Iterator[None]:
    """Makes transactions of the block end with an unknown outcome.

    Args:
        store: the store.
        applied: whether the database did commit.
        times: how many transactions.
        after: how many transactions are left alone first.
    """
    run = store.run
    left = {"after": after, "times": times}

    def losing(work: Callable[[Connection], T], *, catalog_id: UUID | None = None) -> T:
        if left["after"] > 0 or left["times"] == 0:
            left["after"] -= 1
            return run(work, catalog_id=catalog_id)
        left["times"] -= 1
        if applied:
            run(work, catalog_id=catalog_id)
        else:
            _roll_back(run, work)
        raise CommitOutcomeUnknownError("The connection was lost during COMMIT (injected)")

    store.run = losing  # type: ignore[method-assign]
    try:
        yield
    finally:
        del store.run


def _roll_back(run: Callable[[Callable[[Connection], T]], T], work: Callable[[Connection], T]) -> None:
    def undone(conn: Connection) -> T:
        work(conn)
        raise _NotCommittedError

    try:
        run(undone)
    except _NotCommittedError:
        return
