"""Lists in pages, whatever the pages of the catalog are."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lance_namespace.errors import InvalidInputError

__all__ = ["CatalogPage", "Listed", "collect"]


class CatalogPage(NamedTuple):
    """A page as the catalog answers it."""

    items: Sequence[str]
    next_token: str | None


class Listed(NamedTuple):
    """A page as the caller gets it."""

    items: list[str]
    page_token: str | None


def collect(
    fetch: Callable[[str | None, int | None], CatalogPage],
    limit: int | None,
    page_token: str | None,
    wanted: Callable[[Sequence[str]], Sequence[str]] = list,
) -> Listed:
    """Items up to a limit, or all of them, over as many pages of the catalog as that takes.

    Our token is the catalog's token of a page, and how many items of that page were used up: a catalog may
    ignore the size that is asked for, and of a page of many tables few may be wanted.

    Args:
        fetch: a page of the catalog, by its token and size. The token is None for all that the catalog
            answers at once, and empty for the first page.
        limit: most items; None for all.
        page_token: where to go on.
        wanted: chooses among items that were fetched, and keeps their order.

    Raises:
        InvalidInputError: the token or the limit is none.
    """
    if limit is not None and limit < 1:
        raise InvalidInputError("limit must be at least 1")
    start = None if limit is None else ""
    token, used = _decode(page_token) if page_token else (start, 0)
    found: list[str] = []
    while True:
        page = fetch(token, limit)
        rest, passed = list(page.items[used:]), min(used, len(page.items))
        used -= passed
        while rest:
            # no more are looked at than can be asked for: each may cost a request
            some = rest[: None if limit is None else limit - len(found)]
            found += wanted(some)
            rest, passed = rest[len(some) :], passed + len(some)
            if limit is not None and len(found) == limit:
                position = _encode(token, passed) if rest else page.next_token and _encode(page.next_token, 0)
                return Listed(found, position)
        if not page.next_token:
            return Listed(found, None)
        token = page.next_token


def _encode(token: str | None, used: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([token, used]).encode()).decode()


def _decode(page_token: str) -> tuple[str | None, int]:
    try:
        token, used = json.loads(base64.urlsafe_b64decode(page_token.encode()))
    except (ValueError, TypeError, binascii.Error):
        token = used = None
    if not isinstance(token, str) or not isinstance(used, int) or used < 0:
        raise InvalidInputError("The page token is not one of this list")
    return token, used
