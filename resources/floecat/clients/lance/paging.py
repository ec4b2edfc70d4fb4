"""Pages of lists, independent of the pages of the catalog."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lance_namespace.errors import InternalError, InvalidInputError

__all__ = ["CatalogPage", "Listed", "collect"]


class CatalogPage(NamedTuple):
    """A page of the catalog."""

    items: Sequence[str]
    next_token: str | None


class Listed(NamedTuple):
    """A page for the caller."""

    items: list[str]
    page_token: str | None


def collect(
    fetch: Callable[[str | None, int | None], CatalogPage],
    limit: int | None,
    page_token: str | None,
    wanted: Callable[[Sequence[str]], Sequence[str]] = list,
    *,
    max_pages: int,
) -> Listed:
    """Items up to a limit, or all of them, from as many pages of the catalog as needed.

    Our token holds the catalog's token of a page and the number of items of that page that were used: a
    catalog may ignore the requested size, and few tables of a page may be wanted.

    Args:
        fetch: a page of the catalog by token and size. The token is empty for the first page, and None for
            everything that the catalog answers at once.
        limit: most items; None for all.
        page_token: where to continue.
        wanted: chooses among fetched items, in their order.
        max_pages: most pages that are fetched: a catalog may name a next one for ever.

    Raises:
        InternalError: there are more pages.
        InvalidInputError: the limit is below 1, or the token is malformed.
    """
    if limit is not None and limit < 1:
        raise InvalidInputError("limit must be at least 1")
    start = None if limit is None else ""
    token, used = _decode(page_token) if page_token else (start, 0)
    found: list[str] = []
    for _ in range(max_pages):
        page = fetch(token, limit)
        rest, passed = list(page.items[used:]), min(used, len(page.items))
        used -= passed
        while rest:
            # `wanted` may cost a request for each item, so it sees no more than the limit leaves room for
            some = rest[: None if limit is None else limit - len(found)]
            found += wanted(some)
            rest, passed = rest[len(some) :], passed + len(some)
            if limit is not None and len(found) == limit:
                position = _encode(token, passed) if rest else page.next_token and _encode(page.next_token, 0)
                return Listed(found, position)
        if not page.next_token:
            return Listed(found, None)
        token = page.next_token
    raise InternalError(f"The catalog has more than {max_pages} pages for this list (max_pages)")


def _encode(token: str | None, used: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([token, used]).encode()).decode()


def _decode(page_token: str) -> tuple[str | None, int]:
    try:
        token, used = json.loads(base64.urlsafe_b64decode(page_token.encode()))
    except (ValueError, TypeError, RecursionError, binascii.Error):
        token = used = None
    if not isinstance(token, str) or not isinstance(used, int) or used < 0:
        raise InvalidInputError("The page token is not one of this list")
    return token, used
