"""The shape of every error (case O03)."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.contract.answers import assert_error, error_of
from tests.contract.client import Catalog, Namespace, Table
from tests.contract.documents import ID_AND_DATA
from tests.services.catalog import running_catalog

JSON = {"content-type": "application/json"}

UNKNOWN_ROUTES = [
    "/v1",
    "/v2/config",
    "/v1/config/more",
    "/nothing",
    "{root}/nothing",
    "{root}/namespaces/{ns}/nothing",
    "{root}/namespaces/{ns}/tables/t/nothing",
    "/favicon.ico",
]

WRONG_METHODS = [
    ("POST", "/v1/config"),
    ("PUT", "{root}/namespaces"),
    ("PATCH", "{root}/namespaces/{ns}"),
    ("PUT", "{root}/namespaces/{ns}/tables/t"),
    ("GET", "{root}/tables/rename"),
    ("GET", "{root}/transactions/commit"),
    ("DELETE", "{root}/namespaces/{ns}/views"),
    ("GET", "/v1/oauth/tokens"),
    ("POST", "/health/live"),
    ("TRACE", "/v1/config"),
]

POST_ROUTES = [
    "/namespaces",
    "/namespaces/{ns}/properties",
    "/namespaces/{ns}/tables",
    "/namespaces/{ns}/tables/{table}",
    "/namespaces/{ns}/tables/{table}/metrics",
    "/namespaces/{ns}/register",
    "/namespaces/{ns}/views",
    "/namespaces/{ns}/views/{table}",
    "/namespaces/{ns}/register-view",
    "/tables/rename",
    "/views/rename",
    "/transactions/commit",
]

MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "white space": b"   ",
    "no JSON": b"hello",
    "cut off": b'{"name": "t", ',
    "trailing": b'{"name": "t"} x',
    "comment": b"{} // {}",
    "list": b"[]",
    "text": b'"text"',
    "number": b"1",
    "null": b"null",
    "NaN": b'{"name": NaN}',
    "control character": b'{"name": "a\nb"}',
    "invalid UTF-8": b'{"name": "\xff\xfe"}',
    "overlong UTF-8": b'{"name": "\xc0\xaf"}',
    "UTF-16": '{"name": "t"}'.encode("utf-16"),
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"name":' * 50_000 + b"1" + b"}" * 50_000,
    "deep schema": b'{"name": "t", "schema": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "nul bytes": b"\x00" * 100,
}


@pytest.mark.parametrize("path", UNKNOWN_ROUTES)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_unknown_route_is_404(catalog: Catalog, namespace: Namespace, method: str, path: str):
    answer = catalog.http.request(method, path.format(root=catalog.root, ns=namespace[0]))
    assert_error(answer, 404, "NotFoundException")


@pytest.mark.parametrize(("method", "path"), WRONG_METHODS)
def test_wrong_method_is_405(catalog: Catalog, namespace: Namespace, method: str, path: str):
    answer = catalog.http.request(method, path.format(root=catalog.root, ns=namespace[0]))
    assert_error(answer, 405, "UnsupportedOperationException")
    assert answer.headers["allow"]
    assert method not in answer.headers["allow"]


@pytest.mark.parametrize(
    "path", ["/v1/nothing/at/all", "{root}/namespaces/none", "{root}/namespaces/none/tables/t"]
)
def test_head_has_no_body_whatever_happens(catalog: Catalog, path: str):
    answer = catalog.http.head(path.format(root=catalog.root))
    assert (answer.status_code, answer.content) == (404, b"")
    assert answer.headers.get("content-length", "0") == "0"


def test_bytes_after_a_head_are_the_next_answer(catalog: Catalog):
    # A body after a HEAD would be read as the beginning of the next answer on the connection.
    parts = urlsplit(catalog.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    for path, status in ((f"{catalog.root}/namespaces/none", 404), ("/nothing", 404), ("/v1/config", None)):
        connection.request("HEAD", path)
        answer = connection.getresponse()
        assert answer.read() == b""
        assert status is None or answer.status == status
        connection.request("GET", "/v1/config")
        config = connection.getresponse()
        assert config.status == 200
        assert json.loads(config.read())["defaults"]
    connection.close()


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.parametrize("route", POST_ROUTES)
def test_malformed_body_is_400(catalog: Catalog, namespace: Namespace, route: str, data: bytes):
    table = catalog.create_table(namespace, "t")
    path = route.format(ns=namespace[0], table=table.name)
    message = assert_error(catalog.post(path, content=data, headers=JSON), 400, "BadRequestException")
    assert len(message) < 1000
    assert table.metadata() == table.created.json()["metadata"]


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "x",
    ],
)
def test_other_content_type_is_415(catalog: Catalog, namespace: Namespace, kind: str):
    data = json.dumps({"name": "t", "schema": ID_AND_DATA}).encode()
    answer = catalog.post(catalog.tables_path(namespace), content=data, headers={"content-type": kind})
    assert_error(answer, 415, "BadRequestException")
    assert catalog.names(catalog.tables_path(namespace)) == []


@pytest.mark.parametrize(
    "kind", [None, "application/json", "application/json; charset=utf-8", "APPLICATION/JSON"]
)
def test_content_types_that_are_fine(catalog: Catalog, namespace: Namespace, kind: str | None):
    data = json.dumps({"name": "t", "schema": ID_AND_DATA}).encode()
    headers = {"content-type": kind} if kind else {}
    answer = catalog.post(catalog.tables_path(namespace), content=data, headers=headers)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("accept", ["application/json", "*/*", "text/html", "application/xml", "x", ""])
def test_accept_header_is_no_matter(catalog: Catalog, table: Table, accept: str):
    good = catalog.get(table.path, headers={"accept": accept})
    assert (good.status_code, good.headers["content-type"]) == (200, "application/json")
    bad = catalog.get(f"{table.path}x", headers={"accept": accept})
    assert_error(bad, 404, "NoSuchTableException")


def test_message_names_the_field_and_not_its_value(catalog: Catalog, namespace: Namespace):
    body = {"name": ["hush-hush"], "schema": ID_AND_DATA}
    answer = catalog.post(catalog.tables_path(namespace), body)
    message = assert_error(answer, 400, "BadRequestException")
    assert "name" in message
    assert "hush" not in answer.text


def test_lone_surrogates_break_no_error_text(catalog: Catalog):
    data = b'{"source": {"namespace": ["\\ud800"], "name": "\\udfff"},'
    data += b' "destination": {"namespace": ["a"], "name": "b"}}'
    answer = catalog.post("/tables/rename", content=data, headers=JSON)
    assert answer.status_code in (400, 404)
    assert error_of(answer)["code"] == answer.status_code


def test_several_faults_of_one_request_are_one_error(catalog: Catalog, namespace: Namespace):
    answer = catalog.get(
        catalog.tables_path((*namespace, "none")), params={"pageSize": "x", "pageToken": "y"}
    )
    assert error_of(answer)["code"] == answer.status_code == 400


def test_long_url_is_answered(catalog: Catalog):
    answer = catalog.get(f"/namespaces/{'x' * 20_000}")
    assert answer.status_code in (400, 404, 414)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """A catalog that takes bodies of up to 100,000 bytes."""
    environment = {"FLOECAT_GATEWAY_MAX_REQUEST_BODY_BYTES": "100000"}
    with running_catalog(tmp_path_factory.mktemp("small"), environment) as server:
        client = Catalog(server.base_url, server.warehouse)
        client.create_namespace(("ns",))
        yield client
        client.close()


class TestBodySize:
    @staticmethod
    def _body(size: int) -> bytes:
        bare = b'{"namespace": ["ns"], "properties": {"p": ""}}'
        return bare.replace(b'""', b'"' + b"x" * (size - len(bare)) + b'"')

    def test_larger_body_is_413(self, small: Catalog):
        answer = small.post("/namespaces", content=self._body(100_001), headers=JSON)
        assert_error(answer, 413, "BadRequestException")

    def test_body_of_just_that_size_is_read(self, small: Catalog):
        answer = small.post("/namespaces", content=self._body(100_000), headers=JSON)
        assert_error(answer, 409, "AlreadyExistsException", "Namespace already exists: ns")

    def test_body_of_unknown_length_is_413(self, small: Catalog):
        def parts() -> Iterator[bytes]:
            data = self._body(300_000)
            for start in range(0, len(data), 10_000):
                yield data[start : start + 10_000]

        answer = small.post("/namespaces", content=parts(), headers=JSON)
        assert_error(answer, 413, "BadRequestException")

    def test_connection_works_on_after_413(self, small: Catalog):
        for _ in range(3):
            assert small.post("/namespaces", content=self._body(200_000), headers=JSON).status_code == 413
            assert small.http.get("/v1/config").status_code == 200

    def test_content_length_that_lies_far_too_high_is_refused_at_once(self, small: Catalog):
        parts = urlsplit(small.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        connection.putrequest("POST", f"{small.root}/namespaces")
        connection.putheader("content-type", "application/json")
        connection.putheader("content-length", str(10**12))
        connection.endheaders(b'{"namespace": ["x"]}')
        answer = connection.getresponse()
        assert answer.status == 413
        assert json.loads(answer.read())["error"]["code"] == 413
        connection.close()


BAD_PARAMETERS: list[tuple[str, dict[str, Any]]] = [
    ("/namespaces", {"pageSize": "0"}),
    ("/namespaces", {"pageSize": "ten", "pageToken": ""}),
    ("/namespaces/{ns}/tables", {"pageSize": "-5"}),
    ("/namespaces/{ns}/views", {"pageSize": "1.5"}),
    ("/namespaces/{ns}/functions", {"pageSize": "no"}),
    ("/namespaces/{ns}/tables", {"pageToken": "made up"}),
]


@pytest.mark.parametrize(("path", "params"), BAD_PARAMETERS)
def test_bad_parameter_is_400(catalog: Catalog, namespace: Namespace, path: str, params: dict[str, Any]):
    answer = catalog.get(path.format(ns=namespace[0]), params=params)
    assert_error(answer, 400, "BadRequestException")
