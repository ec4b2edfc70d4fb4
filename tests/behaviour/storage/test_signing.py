"""Requests to a real S3 server that the catalog signs."""

from __future__ import annotations

import urllib.error
import urllib.request
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import pytest

from tests.behaviour.storage.conftest import KeyLake
from tests.services.authorities import change_authority, s3_method

pytestmark = pytest.mark.s3

ASKS = {"x-iceberg-access-delegation": "remote-signing"}


class Signer:
    """A client without keys: each of its requests is signed by the catalog."""

    def __init__(self, lake: KeyLake, table: str) -> None:
        self.lake = lake
        self.table = table
        found = lake.client.get(f"{lake.tables}/{table}", headers=ASKS).json()
        self.config: dict[str, str] = found["config"]
        self.location: str = found["metadata"]["location"]

    def url(self, place: str, query: str = "") -> str:
        """URL of an object of the bucket, or of the table if it is relative."""
        place = place if place.startswith("s3://") else f"{self.location}/{place}"
        return f"{self.lake.server.endpoint}/{quote(place.removeprefix('s3://'))}" + (query and f"?{query}")

    def sign(
        self, method: str, uri: str, headers: dict[str, str] | None = None, body: str | None = None
    ) -> Any:
        """Answer of the catalog."""
        sent = {
            "method": method,
            "uri": uri,
            "region": "us-east-1",
            "headers": {name: [value] for name, value in (headers or {}).items()},
            "body": body,
        }
        return self.lake.client.post(f"/{self.config['s3.signer.endpoint']}", json=sent)

    def send(
        self, method: str, uri: str, data: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        """Has a request signed and sends it; answers status, body and headers."""
        headers = headers or {}
        answer = self.sign(method, uri, headers, data.decode() if data and "delete" in uri else None)
        assert answer.status_code == 200, answer.text
        signed = answer.json()
        headers = headers | {name: ", ".join(values) for name, values in signed["headers"].items()}
        return exchange(method, signed["uri"], data, headers)


def exchange(
    method: str, uri: str, data: bytes | None, headers: dict[str, str]
) -> tuple[int, bytes, dict[str, str]]:
    request = urllib.request.Request(uri, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as found:
            return found.status, found.read(), dict(found.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read(), dict(error.headers)


@pytest.fixture(params=["role", "own keys"])
def signer(key_lake: KeyLake, request: pytest.FixtureRequest) -> Signer:
    if request.param == "own keys":
        method = s3_method(key_lake.server, role_arn=None)
        import msgspec

        change_authority(key_lake.kernel, method=msgspec.json.encode(method).decode())
    key_lake.create("t")
    return Signer(key_lake, "t")


def test_a_load_that_asks_for_signing_says_where(signer: Signer) -> None:
    assert signer.config["s3.remote-signing-enabled"] == "true"
    assert signer.config["s3.signer.endpoint"] == "v1/floecat/namespaces/ns/tables/t/sign"
    assert not [name for name in signer.config if "key" in name or "token" in name]
    again = signer.lake.load("t", ASKS, "?snapshots=all&x=1")
    assert again.json()["config"] == signer.config
    plain = signer.lake.load("t", {})
    assert "s3.signer.endpoint" not in plain.json()["config"]
    assert plain.headers["etag"] != again.headers["etag"]


def test_objects_are_written_read_listed_and_deleted(signer: Signer) -> None:
    for name in ("data/a", "data/b c=1%2F+é~'()!*.parquet"):
        assert signer.send("PUT", signer.url(name), b"data")[0] == 200
        assert signer.send("HEAD", signer.url(name))[0] == 200
        assert signer.send("GET", signer.url(name))[1] == b"data"
        part = signer.send("GET", signer.url(name), None, {"Range": "bytes=1-2"})
        assert part[:2] == (206, b"at")
    bucket, _, key = signer.location.removeprefix("s3://").partition("/")
    listed = signer.send(
        "GET", f"{signer.lake.server.endpoint}/{bucket}?list-type=2&prefix={quote(key, safe='')}%2F"
    )
    assert listed[0] == 200
    assert listed[1].count(b"<Contents>") == 3
    copied = signer.send(
        "PUT",
        signer.url("data/c"),
        None,
        {"x-amz-copy-source": quote(f"{bucket}/{key}/data/a", safe="/-_.~")},
    )
    assert copied[0] == 200
    assert signer.send("GET", signer.url("data/c"))[1] == b"data"
    assert signer.send("DELETE", signer.url("data/a"))[0] == 204
    assert signer.send("GET", signer.url("data/a"))[0] == 404


def test_an_upload_in_parts(signer: Signer) -> None:
    url = signer.url("data/large")
    status, body, _ = signer.send("POST", f"{url}?uploads")
    assert status == 200
    upload = body.decode().split("<UploadId>")[1].split("<")[0]
    tags = []
    for number, part in ((1, b"x" * (5 << 20)), (2, b"end")):
        status, _, headers = signer.send("PUT", f"{url}?partNumber={number}&uploadId={upload}", part)
        assert status == 200
        tags.append(headers["ETag"])
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"
        for number, tag in enumerate(tags, 1)
    )
    body_of_end = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    assert signer.send("POST", f"{url}?uploadId={upload}", body_of_end)[0] == 200
    assert len(signer.send("GET", url)[1]) == (5 << 20) + 3
    status, body, _ = signer.send("POST", f"{url}?uploads")
    upload = body.decode().split("<UploadId>")[1].split("<")[0]
    assert signer.send("DELETE", f"{url}?uploadId={upload}")[0] == 204


def test_many_objects_are_deleted_by_the_body_that_was_checked(signer: Signer) -> None:
    for name in ("data/a", "data/b&<'>"):
        assert signer.send("PUT", signer.url(name), b"data")[0] == 200
    bucket, _, key = signer.location.removeprefix("s3://").partition("/")
    url = f"{signer.lake.server.endpoint}/{bucket}?delete"
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Object><Key>{key}/data/a</Key></Object>"
        f"<Object><Key>{key}/data/b&amp;&lt;'&gt;</Key></Object></Delete>"
    )
    answer = signer.sign("POST", url, {}, body).json()
    headers = {name: values[0] for name, values in answer["headers"].items()}
    assert headers["X-Amz-Content-SHA256"] == sha256(body.encode()).hexdigest()
    other = body.replace("data/a", "data/c")
    assert exchange("POST", answer["uri"], other.encode(), headers)[0] in (400, 403)
    assert signer.send("GET", signer.url("data/a"))[0] == 200
    status, body_of_answer, _ = exchange("POST", answer["uri"], body.encode(), headers)
    assert (status, body_of_answer.count(b"<Deleted>")) == (200, 2)
    assert signer.send("GET", signer.url("data/a"))[0] == 404
