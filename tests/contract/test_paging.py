"""Paging of listings (case O10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, unique

COUNT = 25


class Listing(NamedTuple):
    """A listing with `COUNT` things in it."""

    catalog: Catalog
    path: str
    params: dict[str, str]
    field: str
    expected: list[Any]

    def page(self, **params: str) -> dict[str, Any]:
        answer = self.catalog.get(self.path, params=self.params | params)
        assert answer.status_code == 200, answer.text
        assert set(answer.json()) == {self.field, "next-page-token"}
        return answer.json()

    def pages(self, size: int) -> Iterator[list[Any]]:
        token: str | None = ""
        while token is not None:
            page = self.page(pageToken=token, pageSize=str(size))
            yield page[self.field]
            token = page["next-page-token"]
            assert token != ""


def _filled(catalog: Catalog, kind: str) -> tuple[Namespace, Listing]:
    namespace = catalog.create_namespace((unique("paged"),))
    # Names whose order by text, by number and by case differ.
    names = [f"{'nN'[i % 2]}{i}" for i in range(COUNT)]
    make: dict[str, Callable[[str], object]] = {
        "namespaces": lambda name: catalog.create_namespace((*namespace, name)),
        "tables": lambda name: catalog.create_table(namespace, name),
        "views": lambda name: catalog.create_view(namespace, name),
    }
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(make[kind], names))
    if kind == "namespaces":
        expected: list[Any] = [[*namespace, name] for name in names]
        return namespace, Listing(catalog, "/namespaces", {"parent": namespace[0]}, "namespaces", expected)
    expected = [{"namespace": list(namespace), "name": name} for name in names]
    return namespace, Listing(
        catalog, f"{catalog.namespace_path(namespace)}/{kind}", {}, "identifiers", expected
    )


@pytest.fixture(scope="module", params=["namespaces", "tables", "views"])
def listing(request: pytest.FixtureRequest, catalog: Catalog) -> Iterator[Listing]:
    namespace, made = _filled(catalog, request.param)
    yield made
    catalog.clear(namespace)


def _sorted(items: list[Any]) -> list[Any]:
    return sorted(items, key=str)


@pytest.mark.parametrize("params", [{}, {"pageSize": "10"}, {"pageSize": "1"}])
def test_without_a_token_everything_comes_in_one_answer(listing: Listing, params: dict[str, str]):
    page = listing.page(**params)
    assert _sorted(page[listing.field]) == _sorted(listing.expected)
    assert page["next-page-token"] is None


@pytest.mark.parametrize("size", [1, 2, 7, 24, 25, 26, 1000, 2**31])
def test_pages_hold_everything_once(listing: Listing, size: int):
    pages = list(listing.pages(size))
    items = [item for page in pages for item in page]
    assert _sorted(items) == _sorted(listing.expected)
    full, rest = divmod(COUNT, size)
    assert [len(page) for page in pages] == [size] * full + ([rest] if rest else [])


def test_order_is_the_same_paged_or_not(listing: Listing):
    whole = listing.page()[listing.field]
    assert [item for page in listing.pages(4) for item in page] == whole


def test_empty_token_without_a_size_takes_the_default_size(listing: Listing):
    page = listing.page(pageToken="")
    assert _sorted(page[listing.field]) == _sorted(listing.expected)
    assert page["next-page-token"] is None


@pytest.mark.parametrize("size", ["0", "-1", "abc", "1.5", "", "99999999999999999999"])
def test_bad_page_size_is_400(listing: Listing, size: str):
    answer = listing.catalog.get(listing.path, params=listing.params | {"pageToken": "", "pageSize": size})
    if size == "99999999999999999999":
        # A number that no page has is a size like any other too large one.
        assert answer.status_code in (200, 400)
        return
    assert_error(answer, 400, "BadRequestException")


@pytest.mark.parametrize("token", ["x", "AAAA", "eyJ9", "%00", "☃", "a" * 5000, "null", "0"])
def test_made_up_token_is_400(listing: Listing, token: str):
    answer = listing.catalog.get(listing.path, params=listing.params | {"pageToken": token})
    assert_error(answer, 400, "BadRequestException")


def test_token_of_another_listing_is_400(catalog: Catalog, namespace: Namespace):
    other = catalog.create_namespace((*namespace, "other"))
    for name in ("a", "b", "c"):
        catalog.create_table(namespace, name)
        catalog.create_table(other, name)
        catalog.create_view(namespace, f"v{name}")
        catalog.create_namespace((*other, name))
    first = {"pageToken": "", "pageSize": "1"}
    listings = [
        (catalog.tables_path(namespace), {}),
        (catalog.tables_path(other), {}),
        (catalog.views_path(namespace), {}),
        ("/namespaces", {"parent": "\x1f".join(other)}),
        ("/namespaces", {}),
    ]
    tokens = [catalog.get(path, params=more | first).json()["next-page-token"] for path, more in listings[:4]]
    for owner, token in enumerate(tokens):
        for reader, (path, more) in enumerate(listings):
            answer = catalog.get(path, params=more | {"pageToken": token, "pageSize": "1"})
            if owner == reader:
                assert answer.status_code == 200
            else:
                assert_error(answer, 400, "BadRequestException")


def test_a_page_goes_on_after_the_last_name_also_when_that_is_dropped(catalog: Catalog, namespace: Namespace):
    tables = {name: catalog.create_table(namespace, name) for name in "abcde"}
    path = catalog.tables_path(namespace)
    first = catalog.get(path, params={"pageToken": "", "pageSize": "2"}).json()
    tables["b"].drop()
    tables["c"].drop()
    catalog.create_table(namespace, "aa")
    catalog.create_table(namespace, "dd")
    rest = catalog.get(path, params={"pageToken": first["next-page-token"], "pageSize": "10"}).json()
    assert [item["name"] for item in rest["identifiers"]] == ["d", "dd", "e"]
    assert rest["next-page-token"] is None


def test_empty_listings(catalog: Catalog, namespace: Namespace):
    for path in (catalog.tables_path(namespace), catalog.views_path(namespace)):
        for params in ({}, {"pageToken": ""}, {"pageToken": "", "pageSize": "5"}):
            assert catalog.get(path, params=params).json() == {"identifiers": [], "next-page-token": None}


@pytest.mark.parametrize("kind", ["tables", "views"])
def test_listing_of_a_missing_namespace_is_404(catalog: Catalog, namespace: Namespace, kind: str):
    answer = catalog.get(f"{catalog.namespace_path((*namespace, 'missing'))}/{kind}")
    assert_error(answer, 404, "NoSuchNamespaceException", f"Namespace does not exist: {namespace[0]}.missing")


def test_tables_and_views_are_listed_apart(catalog: Catalog, namespace: Namespace):
    table, view = catalog.create_table(namespace), catalog.create_view(namespace)
    assert catalog.names(catalog.tables_path(namespace)) == [table.name]
    assert catalog.names(catalog.views_path(namespace)) == [view.name]


def test_250_tables_in_pages_of_100(catalog: Catalog, namespace: Namespace):
    names = [f"t{i:03}" for i in range(250)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: catalog.create_table(namespace, name), names))
    path = catalog.tables_path(namespace)
    assert catalog.names(path) == names
    assert catalog.names(f"{path}?pageSize=100") == names
    made = Listing(catalog, path, {}, "identifiers", [])
    pages = [[item["name"] for item in page] for page in made.pages(100)]
    assert pages == [names[:100], names[100:200], names[200:]]
