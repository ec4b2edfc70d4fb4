"""A service that looks for the metadata file at each load, as the reference implementation does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.answers import assert_error, etag_of
from tests.contract.client import Catalog, unique
from tests.contract.files import path_of
from tests.services.catalog import running_catalog


@pytest.fixture(scope="module")
def verifying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    environment = {"FLOECAT_GATEWAY_VERIFY_METADATA_FILE": "true"}
    with running_catalog(tmp_path_factory.mktemp("verifying"), environment) as server:
        client = Catalog(server.base_url, server.warehouse)
        yield client
        client.close()


@pytest.mark.parametrize("text", ["small", "x" * (1 << 20)], ids=["plain", "compressed"])
def test_lost_file_is_404_in_the_words_of_the_reference(verifying: Catalog, text: str):
    namespace = verifying.create_namespace((unique("ns"),))
    table = verifying.create_table(namespace, properties={"text": text})
    location = table.get()["metadata-location"]
    path_of(location).rename(path_of(location).with_suffix(".moved"))
    for headers in ({}, {"if-none-match": etag_of(table.created)}):
        answer = verifying.get(table.path, headers=headers)
        assert_error(answer, 404, "NotFoundException", f"Failed to open input stream for file: {location}")
    path_of(location).with_suffix(".moved").rename(path_of(location))
    assert table.get() == table.created.json()


def test_listing_and_existence_do_not_look(verifying: Catalog):
    namespace = verifying.create_namespace((unique("ns"),))
    table = verifying.create_table(namespace, "t")
    path_of(table.get()["metadata-location"]).unlink()
    assert verifying.names(verifying.tables_path(namespace)) == ["t"]
    assert table.exists()
    table.drop()
