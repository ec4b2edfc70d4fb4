from __future__ import annotations

import gzip
import json
import logging

import msgspec
import pytest

from floecat.errors import (
    CommitStateUnknownError,
    FloecatError,
    ForbiddenError,
    StorageRefusedError,
    StorageUnavailableError,
    StoreUnavailableError,
)
from floecat.runtime import Kernel


def error_of(answer):
    body = answer.json()
    assert list(body) == ["error"]
    assert body["error"]["code"] == answer.status_code
    assert answer.headers["content-type"] == "application/json"
    return body["error"]["type"], body["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("GET", "/v1", None, 404, "NotFoundException"),
        ("GET", "/v2/floecat/namespaces", None, 404, "NotFoundException"),
        ("PUT", "/v1/floecat/namespaces", b"{}", 405, "UnsupportedOperationException"),
        ("POST", "/v1/config", b"{}", 405, "UnsupportedOperationException"),
        ("GET", "/v1/nowhere/namespaces", None, 404, "NoSuchWarehouseException"),
        ("GET", "/v1/floecat/namespaces/none", None, 404, "NoSuchNamespaceException"),
        ("GET", "/v1/floecat/namespaces/none/tables/t", None, 404, "NoSuchTableException"),
        ("GET", "/v1/floecat/namespaces/none/views/v", None, 404, "NoSuchViewException"),
        ("GET", "/v1/floecat/namespaces/%FF", None, 400, "BadRequestException"),
        ("GET", "/v1/floecat/namespaces/a%2", None, 400, "BadRequestException"),
        ("POST", "/v1/floecat/namespaces", b"{", 400, "BadRequestException"),
        ("POST", "/v1/floecat/namespaces", b"", 400, "BadRequestException"),
        ("POST", "/v1/floecat/namespaces", b'{"namespace":[null]}', 400, "BadRequestException"),
        ("POST", "/v1/floecat/namespaces", b'{"namespace":[]}', 400, "BadRequestException"),
        ("POST", "/v1/floecat/namespaces", b"[" * 50_000, 400, "BadRequestException"),
        ("GET", "/v1/floecat/namespaces?pageSize=0", None, 400, "BadRequestException"),
        ("GET", "/v1/floecat/namespaces?pageSize=abc", None, 400, "BadRequestException"),
        ("GET", "/v1/floecat/namespaces?pageToken=forged", None, 400, "BadRequestException"),
        ("GET", "/v1/floecat/namespaces?parent=%FF", None, 400, "BadRequestException"),
        ("GET", "/v1/floecat/namespaces?parent=none", None, 404, "NoSuchNamespaceException"),
        (
            "DELETE",
            "/v1/floecat/namespaces/n/tables/t?purgeRequested=perhaps",
            None,
            400,
            "BadRequestException",
        ),
    ],
)
def test_every_error_has_the_shape_of_the_specification(client, method, path, body, status, kind):
    answer = client.request(method, path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert error_of(answer)[0] == kind


def test_a_fault_in_a_parameter_names_the_parameter(client):
    for value in ("-1", "0", "abc", "1.5", "%D9%A3", "1_0", "%203%20", "9" * 5000):
        for path in ("/v1/namespaces/n/tables", "/v1/floecat/namespaces/n/views", "/v1/floecat/namespaces"):
            answer = error_of(client.get(f"{path}?pageSize={value}"))
            assert answer == (
                "BadRequestException",
                "Invalid parameter pageSize: must be a whole number, at least 1",
            )
    answer = error_of(client.delete("/v1/floecat/namespaces/n/tables/t?purgeRequested=perhaps"))
    assert answer == ("BadRequestException", "Invalid parameter purgeRequested: must be true or false")


@pytest.mark.parametrize("value", ["", "%00", "some", "%F0%9F%98%80", "x" * 5000])
def test_a_fault_in_the_choice_of_snapshots_says_what_can_be_chosen(client, value):
    answer = error_of(client.get(f"/v1/floecat/namespaces/n/tables/t?snapshots={value}"))
    assert answer == ("BadRequestException", "Invalid parameter snapshots: must be all or refs")


@pytest.mark.parametrize("content_type", ["text/xml", "application/x-www-form-urlencoded"])
def test_a_body_of_another_media_type_is_415(client, content_type):
    answer = client.post("/v1/namespaces", content=b"{}", headers={"content-type": content_type})
    assert answer.status_code == 415
    assert error_of(answer)[0] == "BadRequestException"


def test_a_body_without_media_type_is_read(client):
    answer = client.post("/v1/namespaces", content=b'{"namespace":[""]}')
    assert answer.status_code == 400
    assert "must not be empty" in error_of(answer)[1]


def test_head_answers_without_a_body_also_on_errors(client, table):
    for path, status in (
        (table, 204),
        (f"{table}x", 404),
        ("/v1/nowhere/namespaces/a", 404),
        ("/v1/config", 405),
    ):
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (status, b"")


def test_a_body_over_the_limit_is_413(start, settings):
    limited = start(
        msgspec.structs.replace(
            settings, gateway=msgspec.structs.replace(settings.gateway, max_request_body_bytes=100)
        )
    )
    body = json.dumps({"namespace": ["x" * 200]}).encode()
    chunks = (body[at : at + 10] for at in range(0, len(body), 10))
    for content in (body, chunks):
        answer = limited.post("/v1/namespaces", content=content)
        assert answer.status_code == 413
        kind, message = error_of(answer)
        assert kind == "BadRequestException"
        assert "floecat.gateway.max-request-body-bytes" in message
    assert limited.post("/v1/namespaces", content=b'{"namespace":[""]}').status_code == 400


@pytest.fixture
def failing(opened_kernel: Kernel, monkeypatch):
    def fail(error):
        def load(*_, **__):
            raise error

        monkeypatch.setattr(opened_kernel.catalog.namespaces, "load", load)

    return fail


def test_an_unexpected_error_is_logged_and_not_told(client, failing, caplog):
    failing(RuntimeError("password=secret"))
    answer = client.get("/v1/namespaces/a", headers={"X-Request-ID": "run-1"})
    assert answer.status_code == 500
    assert answer.headers["x-request-id"] == "run-1"
    kind, message = error_of(answer)
    assert (kind, "secret" in message, "run-1" in message) == ("InternalServerError", False, True)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "run-1" in record.getMessage()
    assert record.exc_info is not None


@pytest.mark.parametrize(
    ("error", "status", "kind", "header"),
    [
        (CommitStateUnknownError("x"), 500, "CommitStateUnknownException", None),
        (
            StorageUnavailableError("x", retry_after_s=3),
            503,
            "ServiceUnavailableException",
            ("retry-after", "3"),
        ),
        (FloecatError("x"), 500, "InternalServerError", None),
    ],
)
def test_errors_of_the_server_side(client, failing, error, status, kind, header):
    failing(error)
    answer = client.get("/v1/namespaces/a")
    assert (answer.status_code, error_of(answer)[0]) == (status, kind)
    assert header is None or answer.headers[header[0]] == header[1]


@pytest.mark.parametrize("kind", [StorageRefusedError, StorageUnavailableError, StoreUnavailableError])
def test_the_reason_of_store_and_storage_is_logged_and_not_told(client, failing, caplog, kind):
    error = kind("Storage refuses access")
    error.__cause__ = PermissionError("no right\n to write")
    failing(error)
    answer = client.get("/v1/namespaces/a")
    assert error_of(answer)[1] == "Storage refuses access"
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "failed: Storage refuses access: no right to write [" in record.getMessage()


def test_a_refusal_by_the_authorizer_is_not_logged(client, failing, caplog):
    failing(ForbiddenError("Not yours"))
    assert client.get("/v1/namespaces/a").status_code == 403
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_answers_are_compressed_when_that_pays(client, namespace):
    def config(encoding):
        with client.stream("GET", "/v1/config", headers={"accept-encoding": encoding}) as answer:
            return answer.headers, b"".join(answer.iter_raw())

    plain_headers, plain = config("identity")
    headers, packed = config("gzip")
    assert "content-encoding" not in plain_headers
    assert headers["content-encoding"] == "gzip"
    assert "accept-encoding" in headers["vary"].lower()
    assert gzip.decompress(packed) == plain
    small = client.get(f"/v1/namespaces/{namespace}", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in small.headers


def test_unknown_query_parameters_are_ignored(client, table):
    assert client.get(f"{table}?authorization=Bearer+x&snapshots=all").status_code == 200


def test_a_kernel_is_opened_and_closed_with_the_application(settings):
    from litestar.testing import TestClient

    from floecat_rest.app import create_app

    with TestClient(create_app(settings), base_url="http://127.0.0.1") as client:
        assert client.get("/health/ready").status_code == 200
        assert client.get("/v1/config").status_code in {200, 404}
