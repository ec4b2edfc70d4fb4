"""Writers that remember what they were told, and the history that must explain all of it.

Four kinds of work go on at once: appends to shared tables, with and without idempotency keys; transactions
that set one mark on three tables; creates and drops. After faults of any kind the catalog must hold a linear
history: each acknowledged change exactly once and in order, none that was refused, and of those with an
unknown outcome all or nothing.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.faults.answers import Answer, Fate, Sender
from tests.faults.requests import appending, creating, setting, table_path, transaction, unique_key

__all__ = ["Event", "History", "Workload", "check_order"]

_PAUSE_S = 0.02
_APPENDED = ("a0", "a1")
_MARKED = ("m0", "m1", "m2")


class Event(NamedTuple):
    """One change as its client saw it; times are monotonic seconds."""

    name: str
    """What the change left behind if it was made: a snapshot id, a mark, a table."""
    fate: Fate
    began: float
    ended: float


class History:
    """Events of all writers, by what they worked on. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[str, list[Event]] = {}
        self.done = 0
        """Acknowledged changes so far."""
        self.failures: list[BaseException] = []
        """Answers that no client should see."""

    def add(self, of: str, event: Event) -> None:
        with self._lock:
            self._events.setdefault(of, []).append(event)
            self.done += event.fate == "done"

    def events(self, of: str) -> list[Event]:
        return list(self._events.get(of, ()))

    def fates(self) -> dict[str, int]:
        """How many changes ended how; for the message of a failure."""
        counts: dict[str, int] = {}
        for event in itertools.chain(*self._events.values()):
            counts[event.fate] = counts.get(event.fate, 0) + 1
        return counts


class Workload:
    """Eight writers, or more, that go on through every fault until they are stopped.

    Writer `n` talks to the service `n` modulo their number.
    """

    def __init__(self, base_urls: Sequence[str], *, seed: int = 1, rounds: int = 1) -> None:
        """Makes what the writers share; the services must be up."""
        self.history = History()
        self._senders = [Sender(url) for url in base_urls]
        self._stopped = threading.Event()
        self._replays: list[tuple[str, str, Any, Answer]] = []
        sender = self._senders[0]
        assert sender.send("POST", "/namespaces", {"namespace": ["ns"]}).status in (200, 409)
        for name in (*_APPENDED, *_MARKED):
            assert sender.send("POST", "/namespaces/ns/tables", creating(name)).status == 200
        works: list[Callable[[int, random.Random], None]] = [
            lambda n, _: self._append(n, _APPENDED[n % 2], keyed=False),
            lambda n, _: self._append(n, _APPENDED[n % 2], keyed=True),
            self._mark,
            self._create_and_drop,
        ]
        self._threads = [
            threading.Thread(target=self._work, args=(work, number, seed), daemon=True)
            for number, work in enumerate(works * 2 * rounds)
        ]

    def __enter__(self) -> Workload:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(120)

    def wait_for(self, count: int, *, within_s: float = 60.0) -> None:
        """Waits until so many more changes have been acknowledged."""
        wanted, deadline = self.history.done + count, time.monotonic() + within_s
        while self.history.done < wanted:
            assert not self.history.failures, self.history.failures[0]
            assert time.monotonic() < deadline, f"no progress: {self.history.fates()}"
            time.sleep(0.01)

    def check(self) -> None:
        """Holds the catalog against the history. To be called after the block, with the services up."""
        assert not any(thread.is_alive() for thread in self._threads), "a writer hangs"
        if self.history.failures:
            raise self.history.failures[0]
        self._check_replays()
        for name in _APPENDED:
            self._check_appends(name)
        self._check_marks()
        self._check_tables()

    def _work(self, work: Callable[[int, random.Random], None], number: int, seed: int) -> None:
        chance = random.Random(seed * 1000 + number)
        while not self._stopped.is_set():
            try:
                work(number, chance)
            except BaseException as error:  # noqa: BLE001 - shown by `check`
                self.history.failures.append(error)
                return
            time.sleep(chance.uniform(0, _PAUSE_S))

    def _sender(self, number: int) -> Sender:
        return self._senders[number % len(self._senders)]

    def _change(self, of: str, name: str, send: Callable[[], Answer]) -> Answer:
        began = time.monotonic()
        answer = send()
        self.history.add(of, Event(name, answer.fate, began, time.monotonic()))
        return answer

    def _append(self, number: int, name: str, *, keyed: bool) -> None:
        sender, path = self._sender(number), table_path(name)
        loaded = sender.send("GET", path)
        if loaded.fate != "done":
            assert loaded.fate != "refused", loaded
            return
        snapshot_id = random.SystemRandom().getrandbits(62)
        body = appending(snapshot_id, loaded.body["metadata"])
        if keyed:
            key = unique_key()
            answer = self._change(name, str(snapshot_id), lambda: self._persist(sender, path, body, key))
            if answer.fate == "done":
                self._replays.append((path, key, body, answer))
        else:
            self._change(name, str(snapshot_id), lambda: sender.send("POST", path, body))

    def _persist(self, sender: Sender, path: str, body: Any, key: str) -> Answer:
        """Sends with an idempotency key until the answer is definite, as careful clients do."""
        while True:
            answer = sender.send("POST", path, body, key=key)
            if answer.fate in ("done", "refused") or self._stopped.is_set():
                return answer
            time.sleep(0.1)

    def _mark(self, number: int, _: random.Random) -> None:
        mark = f"mark-{number}-{time.monotonic_ns()}"
        names = _MARKED if number % 3 else _MARKED[::-1]
        body = transaction({name: setting({mark: "1", "last": mark}) for name in names})
        answer = self._change(
            "marks", mark, lambda: self._sender(number).send("POST", "/transactions/commit", body)
        )
        assert answer.fate != "refused", answer

    def _create_and_drop(self, number: int, chance: random.Random) -> None:
        sender, name = self._sender(number), f"t-{number}-{time.monotonic_ns()}"
        create = lambda: sender.send("POST", "/namespaces/ns/tables", creating(name))  # noqa: E731
        answer = self._change("creates", name, create)
        assert answer.fate != "refused", answer
        if answer.fate == "done" and chance.random() < 0.5:
            dropped = self._change("drops", name, lambda: sender.send("DELETE", table_path(name)))
            assert dropped.fate != "refused", dropped

    def _check_replays(self) -> None:
        for path, key, body, first in self._replays[-20:]:
            again = self._senders[-1].send("POST", path, body, key=key)
            assert (again.status, again.body) == (first.status, first.body)

    def _check_appends(self, name: str) -> None:
        metadata = self._senders[0].metadata(table_path(name))
        snapshots = metadata["snapshots"]
        parents = {each["snapshot-id"]: each.get("parent-snapshot-id") for each in snapshots}
        assert len(parents) == len(snapshots), "a snapshot is there twice"
        chain: list[int] = []
        at = metadata.get("current-snapshot-id")
        while at is not None and at != -1:
            chain.append(at)
            at = parents[at]
        chain.reverse()
        assert set(chain) == set(parents), "a snapshot is beside the history"
        assert [entry["snapshot-id"] for entry in metadata["snapshot-log"]] == chain
        assert metadata["last-sequence-number"] == len(chain)
        check_order(self.history.events(name), [str(each) for each in chain])

    def _check_marks(self) -> None:
        held = [self._senders[0].metadata(table_path(name))["properties"] for name in _MARKED]
        marks = [{key for key in properties if key.startswith("mark-")} for properties in held]
        assert marks[0] == marks[1] == marks[2], "half a transaction"
        assert len({properties.get("last") for properties in held}) == 1, "transactions crossed each other"
        check_order(self.history.events("marks"), sorted(marks[0]), ordered=False)
        last = next((each for each in self.history.events("marks") if each.name == held[0].get("last")), None)
        if last is not None:
            later = [
                each
                for each in self.history.events("marks")
                if each.began > last.ended and each.fate == "done"
            ]
            assert not later, "an acknowledged transaction was overwritten by an earlier one"

    def _check_tables(self) -> None:
        listed = self._senders[0].send("GET", "/namespaces/ns/tables")
        names = {each["name"] for each in listed.body["identifiers"]}
        drops = {event.name: event.fate for event in self.history.events("drops")}
        for event in self.history.events("creates"):
            dropped = drops.get(event.name)
            if event.fate == "done" and dropped in (None, "not applied"):
                assert event.name in names, "an acknowledged table is gone"
            if event.fate == "not applied" or dropped == "done":
                assert event.name not in names, "a table that was dropped or never made is there"


def check_order(events: Sequence[Event], found: Sequence[str], *, ordered: bool = True) -> None:
    """Holds what is found against what was told.

    Args:
        events: changes of one object.
        found: names of the changes that are there, oldest first.
        ordered: whether `found` has an order.
    """
    by_name = {event.name: event for event in events}
    assert len(found) == len(set(found)), "a change was made twice"
    for event in events:
        if event.fate == "done":
            assert event.name in set(found), f"an acknowledged change is lost: {event}"
        if event.fate in ("refused", "not applied"):
            assert event.name not in set(found), f"a change was made that the answer denies: {event}"
    latest_begin = 0.0
    for name in found if ordered else ():
        event = by_name[name]
        assert event.ended >= latest_begin, "acknowledged changes are out of order"
        latest_begin = max(latest_begin, event.began)
