"""Answers are compressed when the client asks for it, and only then."""

from __future__ import annotations

import gzip

import httpx
import pytest

from tests.contract.client import Catalog, Namespace, Table
from tests.contract.documents import column, schema


@pytest.fixture
def wide(catalog: Catalog, namespace: Namespace) -> Table:
    fields = [column(number, f"column_{number}", "string") for number in range(1, 500)]
    return catalog.create_table(namespace, schema=schema(*fields))


def _raw(catalog: Catalog, path: str, accept: str | None) -> tuple[httpx.Response, bytes]:
    """An answer and its body as it came over the wire."""
    headers = {"accept-encoding": accept} if accept is not None else {}
    request = catalog.http.build_request("GET", catalog.root + path, headers=headers)
    if accept is None:
        del request.headers["accept-encoding"]
    answer = catalog.http.send(request, stream=True)
    body = b"".join(answer.iter_raw())
    answer.close()
    return answer, body


@pytest.mark.parametrize("accept", ["gzip", "gzip, deflate, br", "deflate, gzip;q=0.5", "GZIP", "*"])
def test_gzip_when_asked_for(catalog: Catalog, wide: Table, accept: str):
    answer, body = _raw(catalog, wide.path, accept)
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) == len(body)
    _, plain = _raw(catalog, wide.path, "identity")
    assert gzip.decompress(body) == plain
    assert len(body) < len(plain) / 3


@pytest.mark.parametrize("accept", [None, "", "identity", "br", "gzip;q=0", "deflate"])
def test_plain_otherwise(catalog: Catalog, wide: Table, accept: str | None):
    answer, body = _raw(catalog, wide.path, accept)
    assert "content-encoding" not in answer.headers
    assert int(answer.headers["content-length"]) == len(body)
    assert body.startswith(b"{")


def test_answers_say_that_they_vary(catalog: Catalog, wide: Table):
    for accept in ("gzip", "identity"):
        answer, _ = _raw(catalog, wide.path, accept)
        assert "accept-encoding" in answer.headers["vary"].lower()


def test_tag_does_not_depend_on_the_encoding(catalog: Catalog, wide: Table):
    tags = {_raw(catalog, wide.path, accept)[0].headers["etag"] for accept in ("gzip", "identity")}
    assert len(tags) == 1
    headers = {"if-none-match": tags.pop(), "accept-encoding": "gzip"}
    answer = catalog.get(wide.path, headers=headers)
    assert (answer.status_code, answer.content) == (304, b"")
    assert "content-encoding" not in answer.headers


def test_listings_are_compressed_too(catalog: Catalog, namespace: Namespace):
    for number in range(40):
        catalog.create_view(namespace, f"a_rather_long_name_of_a_view_{number}")
    answer, body = _raw(catalog, catalog.views_path(namespace), "gzip")
    assert answer.headers["content-encoding"] == "gzip"
    _, plain = _raw(catalog, catalog.views_path(namespace), None)
    assert gzip.decompress(body) == plain


def test_creates_and_commits_are_compressed_too(catalog: Catalog, wide: Table):
    answer = wide.commit([], headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.json()["metadata"] == wide.metadata()


def test_small_answers_and_errors_are_not_worth_it(catalog: Catalog):
    answer, body = _raw(catalog, "/namespaces/none", "gzip")
    assert "content-encoding" not in answer.headers
    assert body.startswith(b'{"error"')


@pytest.mark.parametrize("refs", ["all", "refs"])
def test_both_representations_are_compressed(catalog: Catalog, wide: Table, refs: str):
    answer, body = _raw(catalog, f"{wide.path}?snapshots={refs}", "gzip")
    _, plain = _raw(catalog, f"{wide.path}?snapshots={refs}", "identity")
    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == plain
