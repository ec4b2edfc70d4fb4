"""POSTs that have no body and no `Content-Type`: a client made from the specification sends nothing else."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import pytest

from tests.contract.client import Catalog, unique
from tests.contract.delta import management

_ID = "0190a1b2-0000-7000-8000-00000000de17"
_PAGES = [
    {"Origin": "https://example.com"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Host": "rebound.example.com"},
]
"""What browsers send for a page of another site."""


def post(catalog: Catalog, path: str, headers: dict[str, str]) -> int:
    """The status of a POST with these headers alone."""
    url = urlsplit(catalog.url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=30)
    try:
        connection.putrequest("POST", path, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


@pytest.mark.parametrize("length", [{}, {"Content-Length": "0"}])
def test_unregister(local_catalog: Catalog, length: dict[str, str]) -> None:
    namespace = local_catalog.create_namespace((unique("bare"),))
    table = local_catalog.create_table(namespace)
    path = f"{local_catalog.root}{table.path}/unregister"
    for headers in _PAGES:
        assert post(local_catalog, path, headers | length) == 403
    # forms of pages say what they send
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert post(local_catalog, path, {"Content-Type": kind} | length) == 415
    assert table.exists()
    assert post(local_catalog, path, length) == 200
    assert not table.exists()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/jobs/{_ID}/retry", 404),
        (f"/jobs/{_ID}/cancel", 404),
        (f"/purges/{_ID}/retry", 404),
        (f"/purges/{_ID}/cancel", 404),
        (f"/captures/{_ID}/cancel", 404),
        ("/connectors/none/scan", 404),
        ("/connectors/none/validate", 404),
        ("{tables}/none/captures", 404),
    ],
)
def test_other_operations(local_catalog: Catalog, path: str, status: int) -> None:
    namespace = local_catalog.create_namespace((unique("bare"),))
    whole = management(local_catalog, path.format(tables=local_catalog.tables_path(namespace)))
    assert post(local_catalog, whole, {}) == status
    for headers in _PAGES:
        assert post(local_catalog, whole, headers) == 403
    assert post(local_catalog, whole, {"Content-Type": "text/plain"}) == 415


def test_operations_with_a_body_miss_it(local_catalog: Catalog) -> None:
    assert post(local_catalog, f"{local_catalog.root}/namespaces", {}) == 400
