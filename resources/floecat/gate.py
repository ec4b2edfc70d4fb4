"""The gate before what a process has few of: threads, memory, turns.

A request that finds too few free units waits. Accounts take turns, so that the requests of one do not keep
those of others waiting. A group, as the requests for one object store, has a share and leaves the rest to
others.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from floecat.fair_queue import FairQueue, current_account

__all__ = ["Gate", "Waiter"]


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
