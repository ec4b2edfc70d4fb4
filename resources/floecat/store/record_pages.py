"""Pages of records that may be large: bounded in bytes, and read on working memory of the request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

import msgspec

from floecat.iceberg.values.bounds import process_bounds
from floecat.store import page_tokens
from floecat.store.database.engine import Connection, Store
from floecat.working_memory import take_memory, take_turn

__all__ = ["Fetched", "Page", "fetch_records", "fitting", "page_of"]

T = TypeVar("T")


class Fetched(NamedTuple, Generic[T]):
    """Records of a page, in the order of a listing."""

    rows: Sequence[T]
    has_more: bool


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a listing, in order; `next_token` is `None` on the last one."""

    items: list[T]
    next_token: str | None = None


def page_of(rows: Sequence[T], limit: int, scope: str, key: Callable[[T], str]) -> Page[T]:
    """The first rows, with the token of the next page if there are more.

    Args:
        rows: of the page and one further, in order.
        limit: most of a page.
        scope: of the listing, as `page_tokens.encode` takes it.
        key: of a row: what the next page begins after.
    """
    token = page_tokens.encode(key(rows[limit - 1]), scope) if len(rows) > limit else None
    return Page([*rows[:limit]], token)


def fetch_records(
    store: Store,
    sizes: Callable[[Connection, int], Sequence[int]],
    rows: Callable[[Connection, int], Sequence[T]],
    most: int,
) -> Fetched[T]:
    """Reads records for an answer, within its bound in bytes, on working memory of the request.

    Args:
        sizes: the bytes of so many records, in order.
        rows: so many records, in order.
        most: how many are wanted.

    Raises:
        WorkingMemoryError: others held the memory all the time.
        StoreUnavailableError: the store does not answer.
    """
    with store.read() as conn:
        found = sizes(conn, most + 1)
    count = fitting(found[:most], process_bounds.limits.record_page_bytes)
    size_bytes = sum(found[:count])
    take_turn(size_bytes)
    take_memory(size_bytes)
    with store.read() as conn:
        return Fetched(rows(conn, count) if count else (), len(found) > count)


def fitting(sizes: Sequence[int], most_bytes: int) -> int:
    """The number of first ones that are together no larger; one in any case, if there is one."""
    together = accumulate(sizes)
    return next((max(1, place) for place, size in enumerate(together) if size > most_bytes), len(sizes))
