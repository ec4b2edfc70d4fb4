"""The gate before what a process has few of: threads, memory, turns.

A request that finds too few free units waits. Accounts take turns, so that the requests of one do not keep
those of others waiting. A group, as the requests for one object store, has a share and leaves the rest to
others.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from threading import Lock
from typing import Final, Generic, TypeVar

__all__ = ["FairQueue", "Gate", "LockedGate", "Turn", "Waiter", "current_account", "name_account"]

_account: ContextVar[Hashable] = ContextVar("account", default=None)


def name_account(account: Hashable) -> None:
    """Says which account takes its turn with what waits in this context from now on."""
    _account.set(account)


def current_account() -> Hashable:
    """The account that was named in this context."""
    return _account.get()


class Waiter:
    """A request at the gate.

    Attributes:
        account: whose turn it needs: the one that is named in the context.
        group: whose share it needs.
        units: what it needs, at most all units.
    """

    __slots__ = ("account", "group", "units")

    def __init__(self, units: int, group: Hashable = None) -> None:
        self.account = current_account()
        self.group = group
        self.units = units


W = TypeVar("W", bound=Waiter)


class FairQueue(Generic[W]):
    """Items of several accounts. Those of one account keep their order."""

    def __init__(self) -> None:
        self._items: dict[Hashable, deque[W]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[W]:
        """The items, the next one first."""
        for items in self._items.values():
            yield from items

    def waiting(self, account: Hashable) -> int:
        """The number of items of an account."""
        return len(self._items.get(account, ()))

    @property
    def first(self) -> W:
        """The item that comes next; there must be one."""
        return next(iter(self._items.values()))[0]

    def append(self, item: W) -> None:
        """Adds an item behind those of its account."""
        self._items.setdefault(item.account, deque()).append(item)
        self._size += 1

    def popleft(self) -> W:
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

    def remove(self, item: W) -> bool:
        """Takes an item out, wherever it is; `False` if it is not there."""
        items = self._items.get(item.account)
        if items is None or item not in items:
            return False
        items.remove(item)
        self._size -= 1
        if not items:
            del self._items[item.account]
        return True

    def make_room(self, account: Hashable) -> W | None:
        """Takes out the newest item of the account with most items.

        Args:
            account: who needs the place.

        Returns:
            None if no account has at least two items more than this one.
        """
        most: deque[W] = max(self._items.values(), key=len, default=deque())
        if len(most) < len(self._items.get(account, ())) + 2:
            return None
        newest = most[-1]
        self.remove(newest)
        return newest


class Gate(Generic[W]):
    """Grants units to requests, in their order, and to accounts by turns. Its owner has the lock.

    Attributes:
        units: of all requests together.
        free: units that nobody has.
    """

    def __init__(
        self, units: int, *, most_of_group: int | None = None, most_waiting: int | None = None
    ) -> None:
        """Sets the bounds.

        Args:
            units: of all requests together.
            most_of_group: units of a group, fewer beside others; None for any number.
            most_waiting: requests of a group that wait; None for any number.
        """
        self.units = units
        self.free = units
        self._most_of_group = units if most_of_group is None else most_of_group
        self._most_waiting = most_waiting
        self._taken: defaultdict[Hashable, int] = defaultdict(int)
        self._waiting: dict[Hashable, FairQueue[W]] = {}
        """Queues by group; none is empty."""
        self._first: deque[W] = deque()

    def __len__(self) -> int:
        """The number of requests that wait."""
        return len(self._first) + sum(map(len, self._waiting.values()))

    def waiting(self, account: Hashable, group: Hashable = None) -> int:
        """The number of requests of an account that wait in a group."""
        queue = self._waiting.get(group)
        return 0 if queue is None else queue.waiting(account)

    def enter(self, waiter: W, *, first: bool = False) -> bool:
        """Grants a request its units, if they are free and no other one waits for them.

        Args:
            waiter: the request.
            first: whether it goes before all others: it holds units that they wait for.
        """
        if (not first and (self._first or waiter.group in self._waiting)) or not self._has_room(waiter):
            return False
        self._take(waiter)
        return True

    def wait(self, waiter: W, *, first: bool = False) -> W | None:
        """Has a request wait.

        Returns:
            The request that found no place to wait: this one, or in its place the newest one of the account
            with most. None if all have a place.
        """
        if first:
            self._first.appendleft(waiter)
            return None
        refused = None
        queue = self._waiting.get(waiter.group)
        if queue is None:
            queue = self._waiting[waiter.group] = FairQueue()
        elif self._most_waiting is not None and len(queue) >= self._most_waiting:
            refused = queue.make_room(waiter.account)
            if refused is None:
                return waiter
        queue.append(waiter)
        return refused

    def leave(self, units: int, group: Hashable = None) -> list[W]:
        """Takes units back.

        Returns:
            Requests that have theirs now.
        """
        self.free += units
        self._taken[group] -= units
        return self.grant()

    def withdraw(self, waiter: W) -> bool:
        """Takes a request away, if it waits; `grant` then may find units for others."""
        if waiter in self._first:
            self._first.remove(waiter)
            return True
        queue = self._waiting.get(waiter.group)
        if queue is None or not queue.remove(waiter):
            return False
        self._drop_empty(waiter.group)
        return True

    def grant(self) -> list[W]:
        """Grants free units to those that wait, and returns these."""
        granted: list[W] = []
        while self._first and self._has_room(self._first[0]):
            granted.append(self._first.popleft())
            self._take(granted[-1])
        while self._waiting and not self._first and self.free > 0:
            several = len(self._waiting) > 1
            # groups with few units first
            for group in sorted(self._waiting, key=self._taken.__getitem__) if several else self._waiting:
                if self._has_room(self._waiting[group].first):
                    break
            else:
                break
            granted.append(self._waiting[group].popleft())
            self._take(granted[-1])
            self._drop_empty(group)
        return granted

    def open(self) -> list[W]:
        """Grants units to all that wait, free or not: the process ends."""
        granted = [waiter for queue in self._waiting.values() for waiter in queue]
        self._waiting.clear()
        for waiter in granted:
            self._take(waiter)
        return granted

    def _has_room(self, waiter: W) -> bool:
        """Whether a request may begin: its group has nothing, or less than a multiple of what is free.

        Alone, a group takes `most_of_group`. However many groups hang, they leave some, so that another one
        finds one.
        """
        if waiter.units > self.free:
            return False
        taken = self._taken[waiter.group]
        return not taken or taken * (self.units - self._most_of_group) < self._most_of_group * self.free

    def _take(self, waiter: W) -> None:
        self.free -= waiter.units
        self._taken[waiter.group] += waiter.units

    def _drop_empty(self, group: Hashable) -> None:
        if not self._waiting[group]:
            del self._waiting[group]


class Turn(Waiter):
    """A request that a thread or a task waits for.

    Attributes:
        granted: done when the request has its units.
    """

    __slots__ = ("granted",)

    def __init__(self, units: int = 1) -> None:
        super().__init__(units)
        self.granted: Final[Future[None]] = Future()
        self.granted.set_running_or_notify_cancel()  # it can no longer be cancelled


class LockedGate:
    """A gate with a lock. Thread-safe."""

    def __init__(self, units: int, *, most_waiting: int | None = None) -> None:
        """Sets the bounds.

        Args:
            units: of all requests together.
            most_waiting: requests that wait; None for any number.
        """
        self._gate: Gate[Turn] = Gate(units)
        self._most_waiting = most_waiting
        self._lock = Lock()

    @property
    def is_waited_for(self) -> bool:
        """Whether requests wait for units that others hold."""
        return bool(self._gate)

    @property
    def spare(self) -> int:
        """The number of units that nobody has or waits for."""
        return 0 if self._gate else self._gate.free

    def waiting(self, account: Hashable) -> int:
        """The number of requests of an account that wait."""
        with self._lock:
            return self._gate.waiting(account)

    def ask(self, turn: Turn, *, first: bool = False) -> bool:
        """Asks for units; False if too many requests wait.

        Args:
            turn: needs at most all units.
            first: whether others are holding units for this: those who hold some and wait for more go first.
        """
        with self._lock:
            if self._gate.enter(turn, first=first):
                turn.granted.set_result(None)
            elif self._most_waiting is not None and len(self._gate) >= self._most_waiting:
                return False
            else:
                self._gate.wait(turn, first=first)
        return True

    def withdraw(self, turn: Turn) -> bool:
        """Stops waiting; `False` if the units were granted meanwhile."""
        with self._lock:
            is_withdrawn = self._gate.withdraw(turn)
            granted = self._gate.grant()
        _grant(granted)
        return is_withdrawn

    def give_back(self, units: int) -> None:
        """Ends the use of granted units."""
        with self._lock:
            granted = self._gate.leave(units)
        _grant(granted)


def _grant(turns: list[Turn]) -> None:
    for turn in turns:
        turn.granted.set_result(None)
