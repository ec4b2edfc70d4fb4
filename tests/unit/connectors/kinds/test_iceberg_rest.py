"""Another Iceberg REST catalog: what is found and loaded there, and catalogs that answer nonsense."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from floecat.connectors.kinds.iceberg_rest import IcebergRestConnector
from floecat.connectors.selection import Selection
from floecat.connectors.spi import ConnectorSource, DiscoveredTable, UnreadablePlace
from floecat.errors import (
    BadRequestError,
    FloecatError,
    LocationNotAllowedError,
    NoSuchTableError,
    NoSuchViewError,
    UnavailableError,
    UnprocessableError,
    UpstreamRefusedError,
)
from floecat.store.catalogs.connector_policies import ConnectorPolicy
from tests.services.rest_catalog import ScriptedCatalog, scripted_catalog


@pytest.fixture
def upstream() -> Iterator[ScriptedCatalog]:
    with scripted_catalog() as made:
        made.namespaces = {("a",): ["t", "u/ü"], ("a", "b.c"): ["t"], ("z",): ["t"]}
        made.views = {("a",): ["v"]}
        yield made


def connector(upstream: ScriptedCatalog, **changes: Any) -> IcebergRestConnector:
    options = changes.pop("options", {})
    fields: dict[str, Any] = {"allowed_hosts": ["127.0.0.1"], "catalog_id": "own", **changes}
    location = fields.pop("location", upstream.url)
    no_storage: Any = None
    return IcebergRestConnector(ConnectorSource(location, options, no_storage, **fields))


def found(made: IcebergRestConnector) -> list[str]:
    return [
        ("/".join((*each.namespace, each.name)) + f" {each.kind}")
        if isinstance(each, DiscoveredTable)
        else f"! {each.error.message}"
        for each in made.discover()
    ]


class TestDiscovery:
    def test_tables_and_views_of_nested_namespaces(self, upstream):
        made = connector(upstream, options={"warehouse": "my lake", "header.X-Key": "1"})
        assert found(made) == ["a/t table", "a/u/ü table", "a/v view", "a/b.c/t table", "z/t table"]
        assert upstream.asked[0][1:3] == ("/v1/config", {"warehouse": ["my lake"]})
        assert {headers["x-key"] for *_, headers in upstream.asked} == {"1"}
        table = next(each for each in made.discover() if isinstance(each, DiscoveredTable))
        assert table.location == f"{upstream.url}/v1/p/namespaces/a/tables/t"
        assert table.format == "iceberg"

    def test_without_views_and_prefix(self, upstream):
        upstream.config = {"defaults": {}, "overrides": {}}
        assert found(connector(upstream)) == ["a/t table", "a/u/ü table", "a/b.c/t table", "z/t table"]
        assert not any(path.endswith("/views") for path in upstream.paths)

    def test_a_separator_of_its_own(self, upstream):
        upstream.config["overrides"]["namespace-separator"] = "%2E%2E"
        parents = []

        def listed(query: dict[str, list[str]]) -> tuple[int, Any]:
            parents.append(query.get("parent", [""])[0])
            below = {"": ["a"], "a": ["a", "b"], "a..b": ["a", "b", "c"]}.get(parents[-1])
            return 200, {"namespaces": [below] if below else []}

        upstream.answers["/v1/p/namespaces"] = listed
        found(connector(upstream))
        assert parents == ["", "a", "a..b", "a..b..c"]
        assert "/v1/p/namespaces/a%2E%2Eb%2E%2Ec/tables" in upstream.paths

    @pytest.mark.parametrize(
        ("patterns", "names", "lists"),
        [
            (["a"], ["a/t", "a/u/ü", "a/v", "a/b.c/t"], 7),
            (["a.*"], ["a/b.c/t"], 5),
            (["!a"], ["z/t"], 4),
            (["a", "!a.b*"], ["a/t", "a/u/ü", "a/v"], 4),
            (["b"], [], 1),
        ],
    )
    def test_namespaces_that_are_not_taken_are_not_listed(self, upstream, patterns, names, lists):
        selection = Selection(ConnectorPolicy(namespaces=tuple(patterns)))
        made = connector(upstream, selection=selection)
        assert [each.rpartition(" ")[0] for each in found(made)] == names
        assert len(upstream.asked) == 1 + lists

    def test_pages(self, upstream):
        def page(query: dict[str, list[str]]) -> tuple[int, Any]:
            number = int(query.get("pageToken", ["0"])[0] or "0")
            names = [{"namespace": ["a"], "name": f"t{number}"}, {"namespace": ["a"], "name": "twice"}]
            return 200, {"identifiers": names, "next-page-token": str(number + 1) if number < 2 else None}

        upstream.answers["/v1/p/namespaces/a/tables"] = page
        names = found(connector(upstream, selection=Selection(ConnectorPolicy(namespaces=("a", "!a.*")))))
        assert names == ["a/t0 table", "a/twice table", "a/t1 table", "a/t2 table", "a/v view"]

    def test_a_catalog_that_answers_the_top_level_whatever_is_asked_for(self, upstream):
        upstream.answers["/v1/p/namespaces"] = (200, {"namespaces": [["a"], ["z"]]})
        assert found(connector(upstream)) == ["a/t table", "a/u/ü table", "a/v view", "z/t table"]

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            ((200, {"identifiers": [], "next-page-token": "1"}), "a page token comes again"),
            ((200, b"<html>"), "is not that of an Iceberg REST catalog"),
            ((200, b"[" * 100_000), "is not that of an Iceberg REST catalog"),
            ((200, {"identifiers": [{"name": "t"}]}), "is not that of an Iceberg REST catalog"),
            ((200, b" " * (17 << 20)), "larger than 16777216 bytes"),
            ((403, {"error": {"type": "ForbiddenException", "message": "hush"}}), "does not allow"),
            ((500, {"error": {"type": "<b>", "message": "hush"}}), r"status 500$"),
            ((404, {"error": {"type": "NoSuchNamespaceException"}}), "NoSuchNamespaceException"),
            ((418, b""), "status 418"),
            ((200, {"message": "down for a while"}), "is no listing"),
            ((500, b'{"a":' * 100_000), r"status 500$"),
        ],
    )
    def test_a_namespace_that_cannot_be_listed_is_named_and_the_others_are_found(
        self, upstream, answer, message
    ):
        upstream.answers["/v1/p/namespaces/a/tables"] = answer
        places = [each for each in connector(upstream).discover() if isinstance(each, UnreadablePlace)]
        assert [each.location for each in places] == [f"{upstream.url}/v1/p/namespaces/a"]
        with pytest.raises(FloecatError, match=message):
            raise places[0].error
        assert "hush" not in places[0].error.message
        assert found(connector(upstream))[-1] == "z/t table"

    def test_endless_pages_end_with_the_scan(self, upstream):
        """Each with a token of its own: what the scan counts ends them."""
        numbers = iter(range(1_000_000))
        upstream.answers["/v1/p/namespaces"] = lambda _query: (
            200,
            {"namespaces": [], "next-page-token": str(next(numbers))},
        )
        places = []

        def looks_into(place: str) -> None:
            places.append(place)
            if len(places) > 50:
                raise UnprocessableError("more than 50 folders")

        with pytest.raises(UnprocessableError, match="more than 50 folders"):
            found(connector(upstream, looks_into=looks_into))

    def test_endless_names_in_a_namespace_are_no_endless_memory(self, upstream, monkeypatch):
        monkeypatch.setattr("floecat.connectors.kinds.iceberg_rest.LONGEST_ANSWER_BYTES", 10_000)
        upstream.namespaces = {(f"{number}",): [] for number in range(100)}
        with pytest.raises(UnprocessableError, match="lists too many namespaces"):
            found(connector(upstream))

    def test_a_catalog_that_is_away_ends_the_search(self, upstream):
        upstream.namespaces = {(str(number),): [] for number in range(10)}
        for number in range(10):
            upstream.answers[f"/v1/p/namespaces/{number}/tables"] = (503, b"")
        with pytest.raises(UnavailableError, match="status 503"):
            found(connector(upstream))

    @pytest.mark.parametrize(
        ("config", "message"),
        [
            ({"overrides": {"floecat.catalog-id": "own"}}, "is this one"),
            ({"overrides": {"uri": "http://127.0.0.1:1/"}}, "to another address"),
            ({"overrides": {"prefix": "../../admin"}}, "a prefix that is none"),
            ({"overrides": {"prefix": "a?b"}}, "a prefix that is none"),
            ({"overrides": {"namespace-separator": "/"}}, "a separator that is none"),
            ({"overrides": []}, "is not that of an Iceberg REST catalog"),
        ],
    )
    def test_catalogs_that_cannot_be_followed(self, upstream, config, message):
        upstream.config = config
        with pytest.raises(UnprocessableError, match=message):
            connector(upstream).check_root()


class TestLoads:
    TABLE = DiscoveredTable("t", "", ("a",), "iceberg")

    def test_a_state_is_loaded_once(self, upstream):
        made = connector(upstream)
        first = made.load(self.TABLE, None)
        assert first is not None
        assert first.metadata_location == "s3://lake/t/metadata/1.json"
        assert first.document == b'{"location": "s3://lake/t", "table-uuid": "t"}'
        assert made.load(self.TABLE, first.state) is None
        assert made.load(self.TABLE, '"other"') == first

    def test_without_etags_the_place_of_the_metadata_is_the_state(self, upstream):
        upstream.etags = False
        made = connector(upstream)
        first = made.load(self.TABLE, None)
        assert first is not None
        assert first.state == first.metadata_location
        assert made.load(self.TABLE, first.state) is None

    def test_what_is_gone(self, upstream):
        made = connector(upstream)
        with pytest.raises(NoSuchTableError, match=r"has no table a\.x"):
            made.load(DiscoveredTable("x", "", ("a",), "iceberg"), None)
        with pytest.raises(NoSuchViewError, match=r"has no view a\.x"):
            made.load(DiscoveredTable("x", "", ("a",), "iceberg", "view"), None)

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            ((200, {"metadata": {}}), "does not say where the metadata"),
            ((200, {"metadata-location": "s3://x"}), "is not that of an Iceberg REST catalog"),
            ((200, b'{"metadata": {"a": '), "is not that of an Iceberg REST catalog"),
            ((200, b" " * (65 << 20)), "larger than 67108864 bytes"),
        ],
    )
    def test_nonsense(self, upstream, answer, message):
        upstream.answers["/v1/p/namespaces/a/tables/t"] = answer
        with pytest.raises(UnprocessableError, match=message):
            connector(upstream).load(self.TABLE, None)


class TestLogins:
    def test_a_token_that_ends_before_its_time_is_got_anew(self, upstream):
        upstream.token = "second"
        tokens = iter(["first", "second"])
        upstream.answers["/token"] = lambda _query: (
            200,
            {"access_token": next(tokens), "expires_in": 3600},
        )
        client = {"client-id": "me", "client-secret": "hush", "scope": "PRINCIPAL_ROLE:ALL"}
        credentials = {"scheme": "oauth2", "token-endpoint": f"{upstream.url}/token", **client}
        assert len(found(connector(upstream, credentials=credentials))) == 5
        assert len(upstream.forms) == 2

    def test_wrong_credentials_end_the_search(self, upstream):
        upstream.token = "right"
        made = connector(upstream, credentials={"scheme": "bearer", "token": "wrong"})
        with pytest.raises(UpstreamRefusedError, match=r"refuses the credentials of the connector$"):
            found(made)
        assert len(upstream.asked) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warehouses": "x"}, "Unknown option: 'warehouses'"),
        ({"tables": "a"}, "Unknown option: 'tables'"),
        ({"header.Authorization": "Bearer x"}, r"header\.Authorization"),
        ({"header.X Y": "x"}, "header"),
        ({"header.X": "a\r\nY: b"}, "control character"),
    ],
)
def test_options_that_are_none(upstream, options, message):
    with pytest.raises(BadRequestError, match=message):
        connector(upstream, options=options)


def test_hosts_that_are_not_allowed(upstream):
    with pytest.raises(LocationNotAllowedError, match="allowed-hosts"):
        connector(upstream, allowed_hosts=[])
    with pytest.raises(BadRequestError, match="http or https"):
        connector(upstream, location="s3://lake/x")
    with pytest.raises(BadRequestError, match="no query"):
        connector(upstream, location=f"{upstream.url}?x=y")
