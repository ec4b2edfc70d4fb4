"""Listings of services, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from floecat.entries.calls import Page

__all__ = ["every"]

T = TypeVar("T")


def every(page: Callable[[str | None], Page[T]]) -> Iterator[T]:
    """The items of all pages."""
    found = page(None)
    yield from found.items
    while found.next_token is not None:
        found = page(found.next_token)
        yield from found.items
