"""A service that advertises a separator of its own (case O08)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, as_sent
from tests.services.catalog import running_catalog

DOT = "%2E"


@pytest.fixture(scope="module")
def dotted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """A catalog whose separator is a dot, with the namespaces a, a.b and a.b.c."""
    environment = {"FLOECAT_GATEWAY_NAMESPACE_SEPARATOR": DOT}
    with running_catalog(tmp_path_factory.mktemp("dotted"), environment) as server:
        client = Catalog(server.base_url, server.warehouse)
        client.create_namespace(("a", "b", "c"))
        client.create_table(("a", "b"), "t")
        yield client
        client.close()


def test_config_gives_the_separator_url_encoded(dotted: Catalog):
    assert dotted.config["overrides"]["namespace-separator"] == DOT


@pytest.mark.parametrize("written", ["a%2Eb", "a.b", "a%1Fb", "a%2eb", "a%1fb"])
def test_both_separators_in_a_path(dotted: Catalog, written: str):
    answer = dotted.get(f"/namespaces/{written}")
    assert (answer.status_code, as_sent(answer)) == (200, {"namespace": ["a", "b"], "properties": {}})
    assert dotted.names(f"/namespaces/{written}/tables") == ["t"]
    assert dotted.head(f"/namespaces/{written}/tables/t").status_code == 204


@pytest.mark.parametrize("written", ["a%2Eb", "a.b", "a%1Fb"])
def test_both_separators_in_parent(dotted: Catalog, written: str):
    answer = dotted.get(f"/namespaces?parent={written}")
    assert answer.json() == {"namespaces": [["a", "b", "c"]], "next-page-token": None}


@pytest.mark.parametrize("written", [".a", "a.", "a..b", "a%2E%2Eb", "a%2E", "a%1F"])
def test_an_empty_level_does_not_exist(dotted: Catalog, written: str):
    for below, kind in (
        ("", "Namespace"),
        ("/tables", "Namespace"),
        ("/tables/t", "Table"),
        ("/views/v", "View"),
    ):
        answer = dotted.get(f"/namespaces/{written}{below}")
        assert_error(answer, 404, f"NoSuch{kind}Exception")
        assert dotted.head(f"/namespaces/{written}{below}").status_code == 404
    assert_error(dotted.get(f"/namespaces?parent={written}"), 404, "NoSuchNamespaceException")
    assert_error(dotted.post(f"/namespaces/{written}/properties", {}), 400, "BadRequestException")


@pytest.mark.parametrize("level", ["x.y", ".", "x\x1fy"])
def test_level_that_holds_a_separator_is_400(dotted: Catalog, level: str):
    assert_error(dotted.post("/namespaces", {"namespace": [level]}), 400, "BadRequestException")


def test_table_names_may_hold_the_separator(dotted: Catalog):
    table = dotted.create_table(("a",), "x.y")
    assert table.metadata() == table.created.json()["metadata"]
    table.drop()
