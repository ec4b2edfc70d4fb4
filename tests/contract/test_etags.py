"""Entity tags (case O02)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import httpx
import pytest

from tests.contract.answers import assert_error, etag_of
from tests.contract.client import Catalog, Namespace, Table
from tests.contract.updates import append, set_properties


def _load(table: Table, tag: str | None = None, **params: str) -> httpx.Response:
    return table.catalog.get(table.path, params=params, headers={"if-none-match": tag} if tag else {})


class Source(NamedTuple):
    """An answer that carries a tag, and the table it is about."""

    table: Table
    answer: httpx.Response


def _created(catalog: Catalog, namespace: Namespace) -> Source:
    table = catalog.create_table(namespace)
    return Source(table, table.created)


def _committed(catalog: Catalog, namespace: Namespace) -> Source:
    table = catalog.create_table(namespace)
    return Source(table, table.commit(append(1, 1)))


def _unchanged(catalog: Catalog, namespace: Namespace) -> Source:
    table = catalog.create_table(namespace)
    return Source(table, table.commit([]))


def _loaded(catalog: Catalog, namespace: Namespace) -> Source:
    table = catalog.create_table(namespace)
    return Source(table, catalog.get(table.path))


def _registered(catalog: Catalog, namespace: Namespace) -> Source:
    table = catalog.create_table(namespace)
    location = table.created.json()["metadata-location"]
    table.drop()
    path = f"{catalog.namespace_path(namespace)}/register"
    answer = catalog.post(path, {"name": table.name, "metadata-location": location})
    return Source(table, answer)


SOURCES: list[Callable[[Catalog, Namespace], Source]] = [
    _created,
    _committed,
    _unchanged,
    _loaded,
    _registered,
]


@pytest.fixture(params=SOURCES, ids=lambda source: source.__name__.strip("_"))
def source(request: pytest.FixtureRequest, catalog: Catalog, namespace: Namespace) -> Source:
    made: Source = request.param(catalog, namespace)
    return made


def test_tag_is_that_of_the_next_load(source: Source):
    assert etag_of(_load(source.table)) == etag_of(source.answer)


def test_tag_gives_304_without_a_body(source: Source):
    answer = _load(source.table, etag_of(source.answer))
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["etag"] == etag_of(source.answer)
    assert "content-type" not in answer.headers


def test_the_header_is_spelled_as_java_looks_it_up(source: Source):
    """Iceberg 1.11 looks for `ETag` in a map of names as they came over the wire."""
    tag = etag_of(source.answer)
    unknown = _load(source.table, unknown="1")
    refs = _load(source.table, snapshots="refs")
    zipped = source.table.catalog.get(source.table.path, headers={"accept-encoding": "gzip"})
    kept = [_load(source.table, tag), _load(source.table, tag, unknown="1")]
    assert [answer.status_code for answer in kept] == [304, 304]
    for answer in (source.answer, _load(source.table), unknown, refs, zipped, *kept):
        assert [name for name, _ in answer.headers.raw if name.lower() == b"etag"] == [b"ETag"]


def test_tag_does_not_match_the_other_representation(source: Source):
    answer = _load(source.table, etag_of(source.answer), snapshots="refs")
    assert answer.status_code == 200
    refs = etag_of(answer)
    assert refs != etag_of(source.answer)
    assert _load(source.table, refs, snapshots="refs").status_code == 304
    assert _load(source.table, refs).status_code == 200


def test_tag_does_not_match_after_a_commit(source: Source):
    source.table.committed([set_properties(a="1")])
    answer = _load(source.table, etag_of(source.answer))
    assert answer.status_code == 200
    assert etag_of(answer) != etag_of(source.answer)


def test_other_tables_have_other_tags(catalog: Catalog, namespace: Namespace):
    tags = {etag_of(catalog.create_table(namespace).created) for _ in range(5)}
    assert len(tags) == 5


def test_one_metadata_file_under_two_names_has_two_tags(catalog: Catalog, namespace: Namespace):
    table = catalog.create_table(namespace)
    body = {"name": "again", "metadata-location": table.created.json()["metadata-location"]}
    answer = catalog.post(f"{catalog.namespace_path(namespace)}/register", body)
    assert etag_of(answer) != etag_of(table.created)


def test_a_table_that_was_registered_again_has_another_tag(catalog: Catalog, namespace: Namespace):
    source = _registered(catalog, namespace)
    answer = _load(source.table, etag_of(source.table.created))
    assert answer.status_code == 200
    assert etag_of(answer) == etag_of(source.answer)


@pytest.mark.parametrize(
    "spelled",
    [
        "{tag}",
        "W/{strong}",
        "{strong}",
        '"other", {tag}',
        '{tag} , W/"other"',
        '"a",{strong},"b"',
        "*",
        "{bare}",
    ],
)
def test_forms_of_if_none_match_that_match(table: Table, spelled: str):
    tag = etag_of(table.created)
    strong = tag.removeprefix("W/")
    header = spelled.format(tag=tag, strong=strong, bare=strong.strip('"'))
    assert _load(table, header).status_code == 304


@pytest.mark.parametrize("header", ['"other"', 'W/"other"', '"a", "b"', ",", '""', "W/", '"'])
def test_forms_of_if_none_match_that_do_not_match(table: Table, header: str):
    assert _load(table, header).status_code == 200


def test_several_headers_count_as_one_list(table: Table):
    headers = [("if-none-match", '"other"'), ("if-none-match", etag_of(table.created))]
    assert table.catalog.get(table.path, headers=headers).status_code == 304


def test_missing_table_is_404_also_with_if_none_match(catalog: Catalog, namespace: Namespace):
    for tag in ("*", '"any"'):
        answer = catalog.get(f"{catalog.tables_path(namespace)}/missing", headers={"if-none-match": tag})
        assert_error(answer, 404, "NoSuchTableException")


def test_a_renamed_table_has_a_tag_of_its_own(catalog: Catalog, namespace: Namespace, table: Table):
    target = {"namespace": list(namespace), "name": "renamed"}
    assert (
        catalog.post("/tables/rename", {"source": table.identifier, "destination": target}).status_code == 204
    )
    path = f"{catalog.tables_path(namespace)}/renamed"
    headers = {"if-none-match": etag_of(catalog.get(path))}
    assert catalog.get(path, headers=headers).status_code == 304
    assert catalog.get(path, headers={"if-none-match": etag_of(table.created)}).status_code == 200


def test_answers_vary_by_encoding(table: Table):
    vary = _load(table).headers["vary"].lower()
    assert "accept-encoding" in vary


def test_views_and_staged_tables_have_no_tag(catalog: Catalog, namespace: Namespace):
    view = catalog.create_view(namespace)
    assert "etag" not in view.created.headers
    assert "etag" not in catalog.get(view.path).headers
