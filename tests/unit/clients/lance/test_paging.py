from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_namespace.errors import InternalError, InvalidInputError

from floecat.clients.lance.configuration import Configuration
from floecat.clients.lance.paging import CatalogPage
from floecat.clients.lance.paging import collect as collect_pages

MOST = Configuration.parse({"endpoint": "http://c", "root": ""}).max_pages
collect = partial(collect_pages, max_pages=MOST)
NAMES = [f"t{number:02}" for number in range(23)]


class Catalog:
    """Lists names; a page is as large as is asked for, or of a size of its own."""

    def __init__(self, page_size: int | None = None) -> None:
        self._page_size = page_size
        self.fetches: list[tuple[str | None, int | None]] = []

    def fetch(self, token: str | None, size: int | None) -> CatalogPage:
        self.fetches.append((token, size))
        length = self._page_size or (size if token is not None else None) or len(NAMES)
        start = int(token or 0)
        return CatalogPage(
            NAMES[start : start + length], str(start + length) if start + length < len(NAMES) else None
        )


def test_without_a_limit_everything_comes_over_all_pages():
    catalog = Catalog(page_size=10)
    assert collect(catalog.fetch, None, None) == (NAMES, None)
    assert catalog.fetches == [(None, None), ("10", None), ("20", None)]


def test_paging_is_started_where_there_is_a_limit():
    catalog = Catalog()
    listed = collect(catalog.fetch, 5, None)
    assert listed.items == NAMES[:5]
    assert catalog.fetches == [("", 5)]


@given(
    st.integers(1, 30),
    st.none() | st.integers(1, 30),
    st.sets(st.sampled_from(NAMES)),
    st.data(),
)
def test_pages_joined_are_the_whole(limit: int, page_size: int | None, kept: set[str], data: st.DataObject):
    def wanted(names: Sequence[str]) -> list[str]:
        return [name for name in names if name in kept]

    catalog, token, found = Catalog(page_size), None, []
    for _ in NAMES:
        listed = collect(catalog.fetch, limit, token, wanted)
        assert len(listed.items) <= limit
        found += listed.items
        token = listed.page_token
        if not token:
            break
        limit = data.draw(st.integers(1, 30))  # a caller may change its mind
    else:
        found += collect(catalog.fetch, None, token, wanted).items
    assert found == wanted(NAMES)


def test_no_more_is_looked_at_than_the_limit_takes():
    looked_at: list[str] = []

    def wanted(names: Sequence[str]) -> Sequence[str]:
        looked_at.extend(names)
        return names

    collect(Catalog(page_size=20).fetch, 3, None, wanted)
    assert looked_at == NAMES[:3]


@pytest.mark.parametrize("token", ["x", "e30=", "WzEsIDJd", "WyIxIiwgLTFd", "ü"])
def test_foreign_tokens_are_refused(token: str):
    with pytest.raises(InvalidInputError, match="page token"):
        collect(Catalog().fetch, 1, token)


@pytest.mark.parametrize("limit", [0, -1])
def test_limits_below_one_are_refused(limit: int):
    with pytest.raises(InvalidInputError, match="limit must be at least 1"):
        collect(Catalog().fetch, limit, None)


@pytest.mark.parametrize("limit", [None, 5])
def test_a_catalog_that_always_names_a_next_page(limit: int | None):
    fetched = 0

    def fetch(_token: str | None, _size: int | None) -> CatalogPage:
        nonlocal fetched
        fetched += 1
        return CatalogPage([], "next")

    with pytest.raises(InternalError, match=r"more than 10000 pages for this list \(max_pages\)"):
        collect(fetch, limit, None)
    assert fetched == MOST


def test_a_deep_page_token_is_none_of_this_list():
    token = base64.urlsafe_b64encode(b"[" * 100_000).decode()
    with pytest.raises(InvalidInputError, match="not one of this list"):
        collect(Catalog().fetch, 5, token)
