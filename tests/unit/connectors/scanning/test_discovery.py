"""Tables are loaded ahead in threads: in order, no more than allowed, and no further once the scan ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count

import pytest

from floecat.connectors.scanning.discovery import FoundTable, discovered, load_ahead
from floecat.connectors.selection import Selection
from floecat.connectors.spi import ConnectorSource, DiscoveredTable, Discovery, UnreadablePlace
from floecat.errors import NoSuchTableError, StorageUnavailableError
from floecat.store.catalogs.connector_policies import ConnectorPolicy
from floecat.working_memory import WorkingMemory, part_of_work, take_memory

EVERYTHING = Selection(ConnectorPolicy())


def tables(number: int) -> Iterator[Discovery]:
    for each in range(number):
        yield DiscoveredTable(f"t{each}", f"s3://lake/t{each}")


class Upstream:
    """Loads tables slowly, and counts how many at once."""

    def __init__(self, takes_s: float = 0.02) -> None:
        self.takes_s = takes_s
        self.loaded: list[str] = []
        self.now = self.most = 0
        self._lock = threading.Lock()

    def load(self, table: DiscoveredTable) -> str:
        with self._lock:
            self.loaded.append(table.name)
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.takes_s)
        with self._lock:
            self.now -= 1
        if table.name == "t3":
            raise NoSuchTableError("gone")
        return table.name.upper()


def results(found: Iterator[FoundTable[str] | UnreadablePlace]) -> list[str]:
    given = []
    for each in found:
        assert isinstance(each, FoundTable)
        try:
            given.append(each.loaded())
        except NoSuchTableError:
            given.append("gone")
    return given


@pytest.mark.parametrize("most", [1, 2, 4])
def test_the_order_stays_and_no_more_are_loaded_at_once(most: int) -> None:
    upstream = Upstream()
    found = results(load_ahead(tables(12), upstream.load, lambda _: True, most, lambda: None))
    assert found == [f"T{each}" if each != 3 else "gone" for each in range(12)]
    assert sorted(upstream.loaded) == sorted(f"t{each}" for each in range(12))
    assert upstream.most == most


def test_a_slow_upstream_is_read_as_many_times_faster() -> None:
    took = {}
    for most in (1, 4):
        upstream, began_s = Upstream(0.05), time.monotonic()
        results(load_ahead(tables(40), upstream.load, lambda _: True, most, lambda: None))
        took[most] = time.monotonic() - began_s
    assert took[1] > 40 * 0.05
    assert took[4] < took[1] / 3


def test_what_needs_no_load_is_not_loaded() -> None:
    upstream = Upstream()
    for each in load_ahead(tables(5), upstream.load, lambda table: table.name == "t1", 4, lambda: None):
        assert isinstance(each, FoundTable)
    assert upstream.loaded == ["t1"]


def test_a_scan_that_ends_loads_no_further() -> None:
    class EndedError(Exception):
        pass

    released = threading.Event()

    def hang(_table: DiscoveredTable) -> str:
        released.wait(60)
        return ""

    checks = count()

    def check() -> None:
        if next(checks) == 3:
            raise EndedError

    loads = load_ahead(tables(100), hang, lambda _: True, 4, check)
    began_s = time.monotonic()
    with pytest.raises(EndedError):
        list(loads)
    assert time.monotonic() - began_s < 10
    released.set()


def test_places_that_cannot_be_read_keep_their_turn() -> None:
    def found() -> Iterator[Discovery]:
        yield DiscoveredTable("a", "s3://lake/a")
        yield UnreadablePlace("s3://lake/x", StorageUnavailableError("away"))
        yield DiscoveredTable("b", "s3://lake/b")

    upstream = Upstream()
    given = list(load_ahead(found(), upstream.load, lambda _: True, 4, lambda: None))
    assert [each.table.name if isinstance(each, FoundTable) else each.location for each in given] == [
        "a",
        "s3://lake/x",
        "b",
    ]


def test_documents_ahead_take_memory_and_wait_for_none() -> None:
    """The budget holds two of them: the others are loaded when those before them are done."""
    memory = WorkingMemory(8 << 20, wait_ms=1_000)

    def load(table: DiscoveredTable) -> str:
        take_memory(4 << 20)
        return table.name

    given = []
    with memory.work():
        for each in load_ahead(tables(20), load, lambda _: True, 4, lambda: None):
            assert isinstance(each, FoundTable)
            with part_of_work():
                given.append(each.loaded())
            assert memory.spare >= 0
    assert given == [f"t{each}" for each in range(20)]
    deadline_s = time.monotonic() + 10
    while memory.spare != 8 << 20 and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert memory.spare == 8 << 20


def test_what_comes_first_has_the_memory_of_those_behind_it() -> None:
    memory = WorkingMemory(8 << 20, wait_ms=1_000)
    held = threading.Semaphore(0)

    def load(table: DiscoveredTable) -> str:
        if table.name == "t0" and not held.acquire(timeout=0):
            # those behind it were faster
            for _ in range(2):
                assert held.acquire(timeout=30)
            held.release()
        take_memory(4 << 20)
        if table.name in ("t1", "t2"):
            held.release()
        return table.name

    with memory.work():
        found = load_ahead(tables(3), load, lambda _: True, 4, lambda: None)
        given = []
        for each in found:
            assert isinstance(each, FoundTable)
            with part_of_work():
                given.append(each.loaded())
    assert given == ["t0", "t1", "t2"]


class Odd:
    """A connector of somebody else."""

    def __init__(self, source: ConnectorSource) -> None:
        pass

    def discover(self) -> Iterator[Discovery]:
        yield DiscoveredTable("a", "s3://lake/a", ("n",))
        yield "no table"  # type: ignore[misc]
        yield DiscoveredTable(1, "s3://lake/b")  # type: ignore[arg-type]
        yield DiscoveredTable("b", "s3://lake/b", ("m",))


def test_what_is_no_table_is_named_and_the_rest_is_found() -> None:
    selection = Selection(ConnectorPolicy(namespaces=("n",)))
    looks: list[int] = []
    made = Odd(ConnectorSource("s3://lake", {}, None))  # type: ignore[arg-type]
    found = list(discovered(made, "s3://lake", selection, lambda: looks.append(1)))
    assert [each.name if isinstance(each, DiscoveredTable) else each.error.message for each in found] == [
        "a",
        "The connector found something that is not a table: str",
        "The connector found a table with an invalid description: Expected `str`, got `int` - at `$.name`",
    ]
    assert len(looks) == 4
