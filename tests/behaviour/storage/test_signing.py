"""Requests to a real S3 server that the catalog signs."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import msgspec
import pytest

from floecat.auth.authorizer import AllowAll, Check, Privilege
from floecat.auth.principals import Principal
from floecat.credentials.s3_requests import S3Request
from floecat.errors import ForbiddenError, NoSuchTableError
from floecat.identifiers.namespace import TableIdentifier
from tests.behaviour.storage.conftest import KeyLake, start_lake
from tests.services.authorities import add_authority, change_authority, s3_method
from tests.services.s3 import S3Server

pytestmark = pytest.mark.s3

ASKS = {"x-iceberg-access-delegation": "remote-signing"}


class Signer:
    """A client without keys: each of its requests is signed by the catalog."""

    def __init__(self, lake: KeyLake, table: str, *, has_role: bool = True) -> None:
        self.lake = lake
        self.has_role = has_role
        self.table = table
        self.told = found = lake.client.get(f"{lake.tables}/{table}", headers=ASKS).json()
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
    has_role = request.param == "role"
    if not has_role:
        method = s3_method(key_lake.server, role_arn=None)
        change_authority(key_lake.kernel, method=msgspec.json.encode(method).decode())
    key_lake.create("t")
    return Signer(key_lake, "t", has_role=has_role)


def test_a_load_that_asks_for_signing_says_where(signer: Signer) -> None:
    assert signer.config["s3.remote-signing-enabled"] == "true"
    assert signer.config["s3.signer.endpoint"] == "v1/floecat/namespaces/ns/tables/t/sign"
    assert signer.told["remote-signing-config"] == {}
    assert "signer.endpoint" not in signer.config  # Java 1.12 would take it, and warn, instead of its own
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
    signed = signer.sign("POST", url, {}, body)
    if not signer.has_role:
        # this server takes another body, too
        assert signed.status_code == 403
        assert "has a role" in signed.text
        return
    answer = signed.json()
    headers = {name: values[0] for name, values in answer["headers"].items()}
    assert headers["X-Amz-Content-SHA256"] == sha256(body.encode()).hexdigest()
    other = body.replace(key, "wh/other")
    signer.lake.kernel.files.write_new(f"s3://{bucket}/wh/other/data/a", b"of another table")
    exchange("POST", answer["uri"], other.encode(), headers)
    assert signer.lake.kernel.files.read(f"s3://{bucket}/wh/other/data/a") == b"of another table"
    status, body_of_answer, _ = exchange("POST", answer["uri"], body.encode(), headers)
    assert (status, body_of_answer.count(b"<Deleted>")) == (200, 2)
    assert signer.send("GET", signer.url("data/a"))[0] == 404


def test_headers_that_were_not_signed_do_nothing(signer: Signer) -> None:
    """A client could add them once it has the signature."""
    files = signer.lake.kernel.files
    secret = f"s3://{signer.lake.bucket}/wh/other/secret"
    files.write_new(secret, b"secret")
    url = signer.url("data/stolen")
    answer = signer.sign("PUT", url).json()
    headers = {name: values[0] for name, values in answer["headers"].items()}
    source = {"x-amz-copy-source": secret.removeprefix("s3://")}
    assert exchange("PUT", answer["uri"], None, headers | source)[0] == 403
    assert b"secret" not in signer.send("GET", url)[1]


REFUSED: list[tuple[str, str, str, dict[str, str], str | None]] = [
    # other objects, in every spelling
    ("GET", "neighbour", "{e}/{b}/{k}0/data/a", {}, None),
    ("GET", "the folder itself", "{e}/{b}/{k}", {}, None),
    ("GET", "the folder with a slash", "{e}/{b}/{k}/", {}, None),
    ("GET", "above", "{e}/{b}/wh/secret", {}, None),
    ("GET", "another bucket", "{e}/other/{k}/a", {}, None),
    ("GET", "dots", "{e}/{b}/{k}/../x", {}, None),
    ("GET", "encoded dots", "{e}/{b}/{k}/%2e%2e/x", {}, None),
    ("GET", "dots encoded twice", "{e}/{b}/{k}/%252e%252e/x", {}, None),
    ("GET", "encoded slashes and dots", "{e}/{b}/{k}%2F..%2Fx", {}, None),
    ("GET", "dots of one", "{e}/{b}/{k}/./../x", {}, None),
    ("GET", "two slashes", "{e}/{b}/{k}//a", {}, None),
    ("GET", "two slashes before", "{e}//{b}/{k}/a", {}, None),
    ("GET", "two slashes within", "{e}/{b}//{k}/a", {}, None),
    ("GET", "backslash", "{e}/{b}/{k}/..\\x", {}, None),
    ("GET", "encoded backslash", "{e}/{b}/{k}/..%5Cx", {}, None),
    ("GET", "null", "{e}/{b}/{k}/a%00", {}, None),
    ("GET", "line", "{e}/{b}/{k}/a%0A", {}, None),
    ("GET", "line in the open", "{e}/{b}/{k}/a\n", {}, None),
    ("GET", "no UTF-8", "{e}/{b}/{k}/%ff", {}, None),
    ("GET", "no digits", "{e}/{b}/{k}/%zz", {}, None),
    ("GET", "encoded question mark", "{e}/{b}/{k}/a%3Facl", {}, None),
    ("GET", "fragment", "{e}/{b}/{k}/a#x", {}, None),
    ("GET", "semicolon", "{e}/{b}/{k};/../x", {}, None),
    ("GET", "other letters", "{e}/{b}/WH/{k}/a", {}, None),
    ("GET", "bucket at the end", "{e}/{k}/{b}/a", {}, None),
    ("GET", "unicode dots", "{e}/{b}/{k}/\u2024\u2024/x", {}, None),
    # other services
    ("GET", "host", "http://169.254.169.254/{b}/{k}/a", {}, None),
    ("GET", "port", "http://127.0.0.1:1/{b}/{k}/a", {}, None),
    ("GET", "user", "http://x@127.0.0.1:{p}/{b}/{k}/a", {}, None),
    ("GET", "host as user", "http://127.0.0.1:{p}@example.com/{b}/{k}/a", {}, None),
    ("GET", "scheme", "https://127.0.0.1:{p}/{b}/{k}/a", {}, None),
    ("GET", "file", "file:///{b}/{k}/a", {}, None),
    ("GET", "s3", "s3://{b}/{k}/a", {}, None),
    ("GET", "AWS", "https://{b}.s3.amazonaws.com/{k}/a", {}, None),
    ("GET", "bucket in the host", "http://other.127.0.0.1:{p}/{k}/a", {}, None),
    # one that looks at paths alone reads another bucket
    ("GET", "the bucket in the host", "http://{b}.127.0.0.1:{p}/{k}/a", {}, None),
    ("GET", "no bucket in the host", "http://.127.0.0.1:{p}/{b}/{k}/a", {}, None),
    ("GET", "no host", "/{b}/{k}/a", {}, None),
    ("GET", "empty", "", {}, None),
    ("GET", "no port", "http://127.0.0.1:x/{b}/{k}/a", {}, None),
    # other operations
    *(
        (method, f"{method} {name}", "{e}/{b}/{k}/a?" + name, {}, None)
        for method in ("GET", "PUT", "POST", "DELETE", "HEAD")
        for name in ("acl", "tagging", "retention", "legal-hold", "torrent", "restore", "select", "policy")
    ),
    ("GET", "version", "{e}/{b}/{k}/a?versionId=1", {}, None),
    ("DELETE", "delete of a version", "{e}/{b}/{k}/a?versionId=1", {}, None),
    ("GET", "answer headers", "{e}/{b}/{k}/a?response-content-type=text/html", {}, None),
    ("GET", "presigned", "{e}/{b}/{k}/a?X-Amz-Algorithm=AWS4-HMAC-SHA256", {}, None),
    ("PUT", "half of a part", "{e}/{b}/{k}/a?partNumber=1", {}, None),
    ("POST", "both of an upload", "{e}/{b}/{k}/a?uploads&uploadId=1", {}, None),
    ("PUT", "a parameter twice", "{e}/{b}/{k}/a?uploadId=1&uploadId=2&partNumber=1", {}, None),
    ("POST", "form", "{e}/{b}", {}, None),
    ("POST", "append", "{e}/{b}/{k}/a", {}, None),
    ("PUT", "bucket", "{e}/{b}", {}, None),
    ("DELETE", "bucket goes", "{e}/{b}", {}, None),
    ("GET", "buckets", "{e}/", {}, None),
    ("HEAD", "look at the bucket", "{e}/{b}", {}, None),
    ("PATCH", "patch", "{e}/{b}/{k}/a", {}, None),
    ("OPTIONS", "options", "{e}/{b}/{k}/a", {}, None),
    ("get", "small letters", "{e}/{b}/{k}/a", {}, None),
    ("GET\r\nX: y", "two lines", "{e}/{b}/{k}/a", {}, None),
    ("PUT", "policy of the bucket", "{e}/{b}?policy", {}, None),
    ("GET", "location of the bucket", "{e}/{b}?location", {}, None),
    ("GET", "versions", "{e}/{b}?versions&prefix={k}/", {}, None),
    ("GET", "uploads", "{e}/{b}?uploads&prefix={k}/", {}, None),
    # lists
    ("GET", "list of all", "{e}/{b}?list-type=2", {}, None),
    ("GET", "list without slash", "{e}/{b}?list-type=2&prefix={k}", {}, None),
    ("GET", "list above", "{e}/{b}?list-type=2&prefix=wh/", {}, None),
    ("GET", "list of another", "{e}/{b}?list-type=2&prefix={k}0/", {}, None),
    ("GET", "list of dots", "{e}/{b}?list-type=2&prefix={k}/../", {}, None),
    ("GET", "two prefixes", "{e}/{b}?list-type=2&prefix={k}/&prefix=", {}, None),
    ("GET", "prefix in other letters", "{e}/{b}?list-type=2&PREFIX={k}/", {}, None),
    ("GET", "old list", "{e}/{b}?prefix={k}/", {}, None),
    ("GET", "list with another operation", "{e}/{b}?list-type=2&prefix={k}/&acl", {}, None),
    # headers
    *(
        ("PUT", name, "{e}/{b}/{k}/a", {name: "x"}, None)
        for name in (
            "x-amz-acl",
            "x-amz-grant-full-control",
            "X-Amz-Tagging",
            "x-amz-object-lock-mode",
            "x-amz-bypass-governance-retention",
            "x-amz-website-redirect-location",
            "x-amz-write-offset-bytes",
        )
    ),
    ("PUT", "copy of another", "{e}/{b}/{k}/a", {"x-amz-copy-source": "{b}/wh/secret"}, None),
    ("PUT", "copy with dots", "{e}/{b}/{k}/a", {"x-amz-copy-source": "{b}/{k}/../x"}, None),
    ("PUT", "copy, encoded", "{e}/{b}/{k}/a", {"x-amz-copy-source": "{b}/{k}%2F..%2Fx"}, None),
    ("PUT", "copy of a version", "{e}/{b}/{k}/a", {"x-amz-copy-source": "{b}/{k}/a?versionId=1"}, None),
    ("PUT", "copy of another bucket", "{e}/{b}/{k}/a", {"x-amz-copy-source": "/other/{k}/a"}, None),
    (
        "PUT",
        "copy by ARN",
        "{e}/{b}/{k}/a",
        {"x-amz-copy-source": "arn:aws:s3:r:1:ap/p/object/a"},
        None,
    ),
    ("GET", "read with a source", "{e}/{b}/{k}/a", {"x-amz-copy-source": "{b}/{k}/a"}, None),
    (
        "PUT",
        "signed pieces",
        "{e}/{b}/{k}/a",
        {"x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"},
        None,
    ),
    ("PUT", "line in a header", "{e}/{b}/{k}/a", {"x-amz-meta-a": "a\nx-amz-acl:public-read"}, None),
    # deletes of many
    ("POST", "no body", "{e}/{b}?delete", {}, None),
    ("POST", "no key", "{e}/{b}?delete", {}, "<Delete></Delete>"),
    (
        "POST",
        "too many keys",
        "{e}/{b}?delete",
        {},
        "<Delete>" + "<Object><Key>{k}/a</Key></Object>" * 1001 + "</Delete>",
    ),
    *(
        ("POST", f"delete {body[:90]}", "{e}/{b}?delete", {}, f"<Delete>{body}</Delete>")
        for body in (
            "<Object><Key>wh/secret</Key></Object>",
            "<Object><Key>{k}/a</Key></Object><Object><Key>wh/secret</Key></Object>",
            "<Object><Key>{k}/a</Key><Key>wh/secret</Key></Object>",
            "<Object><Key>{k}/a</Key><VersionId>1</VersionId></Object>",
            "<Object><Key>{k}/&#46;&#46;/x</Key></Object>",
            "<Object><Key>{k}/a</Key><!-- <Key>x</Key> --></Object>",
            "<Object><Key><![CDATA[wh/secret]]></Key></Object>",
            "<Object><key>{k}/a</key></Object>",
            "<Object><Key a='b'>{k}/a</Key></Object>",
            "<Object><Key>{k}/&x;</Key></Object>",
            "<Object><Key>{k}/&#0;</Key></Object>",
            "<Object><Key>{k}/a&#10;</Key></Object>",
            "<Object><Key>{k}/a</Key></Object>" * 1001,
        )
    ),
    (
        "POST",
        "entities",
        "{e}/{b}?delete",
        {},
        "<!DOCTYPE d [<!ENTITY x 'wh'>]><Delete><Object><Key>{k}/&x;</Key></Object></Delete>",
    ),
    (
        "POST",
        "another hash",
        "{e}/{b}?delete",
        {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"},
        "<Delete><Object><Key>{k}/a</Key></Object></Delete>",
    ),
]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server) -> Iterator[Signer]:
    bucket = s3_server.create_bucket()
    with ExitStack() as running:
        lake = start_lake(Path(tmp_path_factory.mktemp("lake")), s3_server, bucket, running)
        add_authority(lake.kernel, s3_server, f"s3://{bucket}")
        lake.create("t")
        yield Signer(lake, "t")


@pytest.mark.parametrize(
    ("method", "_name", "uri", "headers", "body"), REFUSED, ids=[each[1] for each in REFUSED]
)
def test_what_is_not_about_the_table_is_not_signed(
    attacked: Signer, method: str, _name: str, uri: str, headers: dict[str, str], body: str | None
) -> None:
    bucket, _, key = attacked.location.removeprefix("s3://").partition("/")
    endpoint = attacked.lake.server.endpoint

    def filled(text: str) -> str:
        for name, value in (("e", endpoint), ("b", bucket), ("k", key), ("p", endpoint.rpartition(":")[2])):
            text = text.replace(f"{{{name}}}", value)
        return text

    headers = {name: filled(value) for name, value in headers.items()}
    answer = attacked.sign(method, filled(uri), headers, None if body is None else filled(body))
    assert answer.status_code in (400, 403), answer.text
    assert answer.json()["error"]["type"] in ("BadRequestException", "ForbiddenException")


def test_who_stages_a_table_writes_its_files_first(key_lake: KeyLake) -> None:
    staged = key_lake.create("staged", ASKS, **{"stage-create": True}).json()
    assert staged["config"]["s3.signer.endpoint"] == "v1/floecat/namespaces/ns/tables/staged/sign"
    key_lake.create("t")
    signer = Signer(key_lake, "t")
    signer.config, signer.location = staged["config"], staged["metadata"]["location"]
    assert signer.send("PUT", signer.url("data/a"), b"data")[0] == 200
    assert signer.sign("PUT", signer.url(f"s3://{key_lake.bucket}/wh/other")).status_code == 403
    signer.config = {"s3.signer.endpoint": "v1/floecat/namespaces/ns/tables/missing/sign"}
    assert signer.sign("GET", signer.url("data/a")).status_code == 404


def test_a_table_that_is_staged_opens_nothing_of_a_table_made_around_it(key_lake: KeyLake) -> None:
    folder = f"s3://{key_lake.bucket}/wh/later"
    headers = {**ASKS, "idempotency-key": "018f3b1e-7b7a-7000-8000-000000000002"}
    body = {"location": f"{folder}/data", "stage-create": True}
    assert "s3.signer.endpoint" in key_lake.create("staged", headers, **body).json()["config"]
    key_lake.create("later", location=folder)
    signer = Signer(key_lake, "later")
    signer.config = {"s3.signer.endpoint": "v1/floecat/namespaces/ns/tables/staged/sign"}
    refused = signer.sign("GET", signer.url("data/a"))
    assert refused.status_code == 403
    assert "overlapping-locations" in refused.text
    vended = {"x-iceberg-access-delegation": "vended-credentials"}
    replayed = key_lake.create("staged", headers | vended, **body).json()
    assert replayed["metadata"]["location"] == f"{folder}/data"
    assert "storage-credentials" not in replayed


def by_object(signer: Signer) -> Signer:
    """The same client, which names no table."""
    signer.config = {"s3.signer.endpoint": "v1/aws/s3/sign"}
    return signer


def test_a_client_that_names_no_table_is_signed_for_the_one_that_has_the_object(signer: Signer) -> None:
    client = by_object(signer)
    url = client.url("data/a")
    assert client.send("PUT", url, b"data")[0] == 200
    assert client.send("GET", url)[1] == b"data"
    assert client.sign("GET", url).headers["cache-control"] == "private"
    bucket, _, key = client.location.removeprefix("s3://").partition("/")
    listed = client.send("GET", f"{client.lake.server.endpoint}/{bucket}?list-type=2&prefix={key}/")
    assert listed[1].count(b"<Contents>") == 2
    source = {"x-amz-copy-source": f"{bucket}/wh/secret"}
    assert client.sign("PUT", client.url("data/b"), source).status_code == 403
    assert client.send("DELETE", url)[0] == 204


@pytest.mark.parametrize("place", ["wh/t/../secret", "wh/secret", "wh", ""])
def test_an_object_of_no_table_is_not_signed_for_who_names_none(attacked: Signer, place: str) -> None:
    uri = f"{attacked.lake.server.endpoint}/{attacked.lake.bucket}/{place}"
    asked = {"method": "GET", "uri": uri, "region": "us-east-1", "headers": {}}
    answer = attacked.lake.client.post("/v1/aws/s3/sign", json=asked)
    assert answer.status_code in (400, 403)
    neighbour = f"{attacked.url('')[:-1]}0/data/a"
    answer = attacked.lake.client.post("/v1/aws/s3/sign", json=asked | {"uri": neighbour})
    assert answer.status_code == 403
    assert "s3.signer.endpoint" in answer.json()["error"]["message"]


def test_who_names_no_table_learns_nothing_of_one_that_he_may_not_read(key_lake: KeyLake) -> None:
    key_lake.create("t")
    signer, kernel = Signer(key_lake, "t"), key_lake.kernel
    account_id = kernel.settings.gateway.default_account_id
    call = key_lake.call()

    def sign(authorizer: Any, account_id: Any, method: str, place: str) -> Any:
        opened = msgspec.structs.replace(call, authorizer=authorizer)
        request = S3Request(method, signer.url(place))
        return kernel.credentials.signing.sign_by_object(account_id, lambda _: opened, request)

    with pytest.raises(ForbiddenError) as missing:
        sign(AllowAll(), account_id, "GET", f"s3://{key_lake.bucket}/wh/missing/a")
    with pytest.raises(ForbiddenError) as refused:
        sign(Without(Privilege.READ_TABLE), account_id, "GET", "data/a")
    with pytest.raises(ForbiddenError) as foreign:
        sign(AllowAll(), uuid4(), "GET", "data/a")
    assert str(missing.value) == str(refused.value) == str(foreign.value)
    reader = Without(Privilege.WRITE_TABLE)
    assert sign(reader, account_id, "GET", "data/a").may_be_kept
    with pytest.raises(ForbiddenError, match="write_table"):
        sign(reader, account_id, "PUT", "data/a")


def test_who_may_not_create_tables_is_told_that_one_is_missing(key_lake: KeyLake) -> None:
    class Reads(AllowAll):
        def allowed(self, _principal: Principal, checks: Sequence[Check], _found: Any = None, /) -> Any:
            return [privilege != Privilege.CREATE_TABLE for privilege, _ in checks]

    call = msgspec.structs.replace(key_lake.call(), authorizer=Reads())
    with pytest.raises(NoSuchTableError):
        key_lake.kernel.credentials.signing.sign(call, key_lake.name("gone"), S3Request("GET", "http://x/y"))


def test_files_of_a_table_inside_another_one_are_not_signed_for_the_outer(key_lake: KeyLake) -> None:
    change_authority(key_lake.kernel, enabled=False)
    location = key_lake.create("outer").json()["metadata"]["location"]
    key_lake.create("inner", location=f"{location}/inner")
    change_authority(key_lake.kernel, enabled=True)
    outer, inner = Signer(key_lake, "outer"), Signer(key_lake, "inner")
    refused = outer.sign("GET", outer.url("inner/data/a"))
    assert refused.status_code == 403
    assert "overlapping-locations" in refused.text
    assert inner.sign("GET", inner.url("data/a")).status_code == 200


def test_an_authority_without_an_answer_is_named(key_lake: KeyLake) -> None:
    key_lake.create("t")
    method = s3_method(key_lake.server, sts_endpoint="http://127.0.0.1:1")
    change_authority(key_lake.kernel, method=msgspec.json.encode(method).decode())
    signer = Signer(key_lake, "t")
    answer = signer.sign("GET", signer.url("data/a"))
    assert answer.status_code == 503
    assert "lake" in answer.text


def test_what_may_be_kept_is_told(key_lake: KeyLake) -> None:
    key_lake.create("t")
    signer = Signer(key_lake, "t")
    told = {
        method: signer.sign(method, signer.url("data/a")).headers["cache-control"]
        for method in ("GET", "HEAD", "PUT", "DELETE")
    }
    bucket, _, key = signer.location.removeprefix("s3://").partition("/")
    for prefix in (f"{key}/", f"{key}/da"):
        listed = signer.sign("GET", f"{key_lake.server.endpoint}/{bucket}?list-type=2&prefix={prefix}")
        assert listed.headers["cache-control"] == "no-cache"
    assert told == {"GET": "private", "HEAD": "private", "PUT": "no-cache", "DELETE": "no-cache"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"method": "GET", "uri": 1, "region": "r", "headers": {}}',
        b'{"method": "GET", "uri": "http://a/b/c", "region": "r", "headers": {"a": "b"}}',
        b'{"method": "GET", "uri": "http://a/b/c", "region": "r", "headers": {}, "provider": "gcs"}',
        b'{"method": "GET", "uri": "http://a/b/\\ud800", "region": "r", "headers": {}}',
        b'{"method": "GET", "uri": "%s", "region": "r", "headers": {}}' % (b"x" * 9000),
        msgspec.json.encode(
            {"method": "GET", "uri": "u", "region": "r", "headers": {str(n): [] for n in range(300)}}
        ),
        msgspec.json.encode(
            {"method": "POST", "uri": "u", "region": "r", "headers": {}, "body": "x" * (3 << 20)}
        ),
    ],
    ids=range(10),
)
def test_bad_requests_are_named(key_lake: KeyLake, body: bytes) -> None:
    key_lake.create("t")
    answer = key_lake.client.post(
        f"{key_lake.tables}/t/sign", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "BadRequestException"


class Without(AllowAll):
    """Allows everything but one privilege."""

    def __init__(self, missing: Privilege) -> None:
        self.missing = missing

    def allowed(
        self, _principal: Principal, checks: Sequence[Check], _found: Any = None, /
    ) -> tuple[bool, ...]:
        """False for the one."""
        return tuple(privilege != self.missing for privilege, _ in checks)


def test_reads_are_signed_for_readers_and_writes_for_writers(key_lake: KeyLake) -> None:
    key_lake.create("t")
    signer = Signer(key_lake, "t")
    kernel = key_lake.kernel
    table = TableIdentifier(("ns",), "t")
    whole = kernel.catalog.calls.open(
        Principal("anna", kernel.settings.gateway.default_account_id), "floecat"
    )
    url = signer.url("data/a")
    reader = msgspec.structs.replace(whole, authorizer=Without(Privilege.WRITE_TABLE))
    assert kernel.credentials.signing.sign(reader, table, S3Request("GET", url)).may_be_kept
    with kernel.store.count_statements() as counter:
        kernel.credentials.signing.sign(reader, table, S3Request("GET", url))
    assert (counter.statements, counter.transactions) == (2, 0)
    for method, uri in (("PUT", url), ("DELETE", url), ("POST", f"{url}?uploads")):
        assert kernel.credentials.signing.sign(whole, table, S3Request(method, uri)).uri
        with pytest.raises(ForbiddenError, match="write_table"):
            kernel.credentials.signing.sign(reader, table, S3Request(method, uri))
    nobody = msgspec.structs.replace(whole, authorizer=Without(Privilege.READ_TABLE))
    with pytest.raises(ForbiddenError, match="read_table"):
        kernel.credentials.signing.sign(nobody, table, S3Request("GET", url))
