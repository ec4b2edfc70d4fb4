"""What a connector finds: checked, chosen by its policy, and loaded some tables ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from floecat.connectors.selection import Selection
from floecat.connectors.spi import Connector, DiscoveredTable, Discovery, UnreadablePlace
from floecat.errors import BadRequestError
from floecat.working_memory import Reservation, WorkingMemoryError, new_part_of_work

__all__ = ["FoundTable", "discovered", "load_ahead"]

_CHECK_S: Final = 0.5

T = TypeVar("T")


def discovered(
    connector: Connector, location: str, selection: Selection, check: Callable[[], None]
) -> Iterator[Discovery]:
    """What a connector finds and its policy takes. A third party may have written the connector.

    Args:
        location: that it searches.
        check: called with each thing that was found; raises what must end the search.

    Yields:
        Tables whose description is valid, and places that could not be read.
    """
    for each in connector.discover():
        check()
        if isinstance(each, UnreadablePlace):
            yield each
            continue
        try:
            table = _checked(each)
        except BadRequestError as error:
            yield UnreadablePlace(location, error)
            continue
        if selection.takes(table.namespace, table.name):
            yield table


class FoundTable(NamedTuple, Generic[T]):
    """A table that was found, and how to have it loaded."""

    table: DiscoveredTable
    loaded: Callable[[], T]
    """Gives what loading it gives, or raises what loading it raises."""


def load_ahead(
    found: Iterator[Discovery],
    load: Callable[[DiscoveredTable], T],
    needed: Callable[[DiscoveredTable], bool],
    most: int,
    check: Callable[[], None],
) -> Iterator[FoundTable[T] | UnreadablePlace]:
    """Loads tables in threads while those before them are worked on. The order stays.

    A table for which there is no working memory at once is loaded when it is its turn. As many as are loaded
    at once are held in memory.

    Args:
        load: loads a table; called by several threads at once.
        needed: whether a table is loaded at all.
        most: tables that are loaded at once.
        check: called while a table is waited for; raises what must end that.
    """
    pool = ThreadPoolExecutor(most, thread_name_prefix="connector-load")
    window: deque[_Ahead[T] | UnreadablePlace] = deque()
    problem: Exception | None = None
    try:
        while True:
            try:
                each = next(found)
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001 - raised once what was found before is worked on
                check()
                problem = error
                break
            if isinstance(each, UnreadablePlace):
                window.append(each)
            else:
                window.append(_Ahead(each, load, pool if most > 1 and needed(each) else None))
            if len(window) > most:
                yield from _next(window, check)
        while window:
            yield from _next(window, check)
        if problem is not None:
            raise problem
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for left in window:
            if isinstance(left, _Ahead):
                left.release()


def _next(
    window: deque[_Ahead[T] | UnreadablePlace], check: Callable[[], None]
) -> Iterator[FoundTable[T] | UnreadablePlace]:
    first = window[0]
    if isinstance(first, _Ahead):
        first.wait(check)
        if first.is_loaded_late:
            # what those behind it hold, it would wait for
            for each in window:
                if isinstance(each, _Ahead):
                    each.give_back()
        yield FoundTable(first.table, first.result)
        first.release()
    else:
        yield first
    window.popleft()


class _Ahead(Generic[T]):
    """A table that is loaded before it is its turn."""

    def __init__(
        self, table: DiscoveredTable, load: Callable[[DiscoveredTable], T], pool: ThreadPoolExecutor | None
    ) -> None:
        self.table = table
        self._load = load
        self._part: Reservation | None = None
        self._was_given_back = False
        self._future: Future[T] | None = None
        if pool is not None:
            self._part = new_part_of_work()
            if self._part is not None:
                self._part.waits = False  # what is to be worked on before may wait for memory
            self._future = pool.submit(copy_context().run, self._run)

    def wait(self, check: Callable[[], None]) -> None:
        while self._future is not None and not wait([self._future], _CHECK_S).done:
            check()

    def result(self) -> T:
        if self._future is not None:
            return self._future.result()
        return self._load(self.table)

    @property
    def is_loaded_late(self) -> bool:
        """Whether it was to be loaded ahead, and there was no memory for it."""
        if self._future is None:
            return self._was_given_back
        return isinstance(self._future.exception(), WorkingMemoryError)

    def give_back(self) -> None:
        """Gives up what was loaded, and its memory: it is loaded when it is its turn."""
        future, self._future = self._future, None
        if future is not None:
            self._was_given_back = True
            future.cancel()
            future.add_done_callback(lambda _: self.release())

    def release(self) -> None:
        if self._part is not None:
            self._part.release()

    def _run(self) -> T:
        if self._part is None:
            return self._load(self.table)
        return self._part.lend(lambda: self._load(self.table))


def _checked(found: object) -> DiscoveredTable:
    if not isinstance(found, DiscoveredTable):
        raise BadRequestError(f"The connector found something that is not a table: {type(found).__name__}")
    try:
        return msgspec.convert(msgspec.structs.asdict(found), DiscoveredTable)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"The connector found a table with an invalid description: {error}") from None
