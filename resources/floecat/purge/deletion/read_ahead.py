"""An iteration that runs ahead in a thread of its own, so that reading and what is done with it overlap."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from queue import Full, Queue
from typing import Final, TypeVar

__all__ = ["read_ahead"]

T = TypeVar("T")

_CHUNK: Final = 500
_CHUNKS: Final = 8
_LOOK_S: Final = 0.05
"""Time between looks at a full queue, in case nobody takes from it any more."""


def read_ahead(items: Iterable[T]) -> closing[Generator[T, None, None]]:
    """The items, read up to 4,000 ahead, for a `with` statement at whose end the thread has ended.

    What the iteration raises is raised here, after the items before it.
    """
    return closing(_iterate(items))


def _iterate(items: Iterable[T]) -> Generator[T, None, None]:
    queue: Queue[list[T] | BaseException | None] = Queue(_CHUNKS)
    stop = threading.Event()
    thread = threading.Thread(target=_read, args=(iter(items), queue, stop), name="read-ahead", daemon=True)
    thread.start()
    try:
        while (chunk := queue.get()) is not None:
            if isinstance(chunk, BaseException):
                raise chunk
            yield from chunk
    finally:
        stop.set()
        thread.join()


def _read(items: Iterator[T], queue: Queue[list[T] | BaseException | None], stop: threading.Event) -> None:
    chunk: list[T] = []
    end: BaseException | None = None
    try:
        for item in items:
            chunk.append(item)
            if len(chunk) == _CHUNK:
                if not _put(queue, chunk, stop):
                    break
                chunk = []
    except BaseException as error:  # noqa: BLE001 - it is raised where the items are taken
        end = error
    finally:
        # what the iteration holds belongs to this thread
        if isinstance(items, Generator):
            items.close()
    _put(queue, chunk, stop)
    _put(queue, end, stop)


def _put(
    queue: Queue[list[T] | BaseException | None], chunk: list[T] | BaseException | None, stop: threading.Event
) -> bool:
    while not stop.is_set():
        try:
            queue.put(chunk, timeout=_LOOK_S)
        except Full:
            continue
        return True
    return False
