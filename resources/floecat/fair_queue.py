"""Queues in which accounts take turns, so that the requests of one do not keep those of others waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from contextvars import ContextVar
from typing import Generic, Protocol, TypeVar

__all__ = ["FairQueue", "Owned", "current_account", "name_account"]

_account: ContextVar[Hashable] = ContextVar("account", default=None)


def name_account(account: Hashable) -> None:
    """Says which account takes its turn with what waits in this context from now on."""
    _account.set(account)


def current_account() -> Hashable:
    """The account that was named in this context."""
    return _account.get()


class Owned(Protocol):
    """An item that can be queued."""

    @property
    def account(self) -> Hashable:
        """The account whose turn it needs."""
        ...


T = TypeVar("T", bound=Owned)


class FairQueue(Generic[T]):
    """Items of several accounts. Those of one account keep their order."""

    def __init__(self) -> None:
        self._items: dict[Hashable, deque[T]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T]:
        """The items, the next one first."""
        for items in self._items.values():
            yield from items

    def waiting(self, account: Hashable) -> int:
        """The number of items of an account."""
        return len(self._items.get(account, ()))

    @property
    def first(self) -> T:
        """The item that comes next; there must be one."""
        return next(iter(self._items.values()))[0]

    def append(self, item: T) -> None:
        """Adds an item behind those of its account."""
        self._items.setdefault(item.account, deque()).append(item)
        self._size += 1

    def popleft(self) -> T:
        """Takes the first item of the account whose turn it is.

        Raises:
            StopIteration: the queue is empty.
        """
        account = next(iter(self._items))
        items = self._items.pop(account)
        item = items.popleft()
        if items:
            self._items[account] = items  # behind all others
        self._size -= 1
        return item

    def remove(self, item: T) -> bool:
        """Takes an item out, wherever it is; `False` if it is not there."""
        items = self._items.get(item.account)
        if items is None or item not in items:
            return False
        items.remove(item)
        self._size -= 1
        if not items:
            del self._items[item.account]
        return True

    def make_room(self, account: Hashable) -> T | None:
        """Takes out the newest item of the account with most items.

        Args:
            account: who needs the place.

        Returns:
            None if no account has at least two items more than this one.
        """
        most: deque[T] = max(self._items.values(), key=len, default=deque())
        if len(most) < len(self._items.get(account, ())) + 2:
            return None
        newest = most[-1]
        self.remove(newest)
        return newest
