"""Listings in pages, by keyset: a page starts after the last name of the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import TypeVar

from floecat.entries.calls import Page, PageRequest
from floecat.store import page_tokens

__all__ = ["Paging"]

T = TypeVar("T")


class Paging:
    """Page sizes and tokens."""

    def __init__(self, *, default_size: int, max_size: int) -> None:
        """Takes the size of a page whose request names none, and the upper bound."""
        self._default_size = default_size
        self._max_size = max_size

    def page(
        self,
        scope: str,
        request: PageRequest,
        fetch: Callable[[str | None, int | None], list[tuple[str, T]]],
        visible: Callable[[Sequence[T]], Sequence[bool]],
    ) -> Page[T]:
        """One page of a listing, or all of it when the request has no token.

        What the principal may not see takes no room on a page, and no token is made of it.

        Args:
            scope: what is listed; a token of another listing is refused.
            request: token and size.
            fetch: rows as (key, item), ordered by key, after a key and up to a limit.
            visible: whether the principal may see each of some items.

        Raises:
            BadRequestError: the token is not one of this listing.
        """

        def shown(rows: list[tuple[str, T]]) -> Iterator[tuple[str, T]]:
            return compress(rows, visible([item for _, item in rows]))

        if request.token is None:
            return Page([item for _, item in shown(fetch(None, None))])
        after = page_tokens.decode(request.token, scope) if request.token else None
        size = min(request.size or self._default_size, self._max_size)
        rows: list[tuple[str, T]] = []
        limit = size + 1
        while len(rows) <= size:
            fetched = fetch(after, limit)
            rows += shown(fetched)
            if len(fetched) < limit:
                break
            after, limit = fetched[-1][0], 2 * limit  # few are visible: look further with each statement
        more = len(rows) > size
        token = page_tokens.encode(rows[size - 1][0], scope) if more else None
        return Page([item for _, item in rows[:size]], token)
