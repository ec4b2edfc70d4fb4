"""What only object storage can do wrong."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    FileMissingError,
    FloecatError,
    ForbiddenError,
    StorageUnavailableError,
)
from floecat.fileio.base import FileIO
from floecat.fileio.object_store import ObjectStoreFileIO
from floecat.fileio.options import ObjectStoreOptions
from tests.services.http_server import QuietHandler, serving
from tests.services.s3 import PATIENT, S3Server

CALLS: dict[str, Callable[[FileIO, str], Any]] = {
    "read": lambda files, location: files.read(location),
    "read_range": lambda files, location: files.read_range(location, 1, 2),
    "read_ranges": lambda files, location: files.read_ranges(location, [(1, 2)]),
    "write_new": lambda files, location: files.write_new(location, b"x"),
    "write_new, unique": lambda files, location: files.write_new(location, b"x", unique_name=True),
    "exists": lambda files, location: files.exists(location),
    "delete": lambda files, location: files.delete(location),
    "list": lambda files, location: list(files.list(location)),
}


def options(endpoint: str, **changes: Any) -> ObjectStoreOptions:
    given: dict[str, Any] = {
        "region": "us-east-1",
        "endpoint": endpoint,
        "path_style_access": True,
        "access_key_id": "some-key",
        "secret_access_key": "some-secret-value",
        **PATIENT,
    }
    return ObjectStoreOptions(**{**given, **changes})


def impatient(endpoint: str) -> ObjectStoreFileIO:
    return ObjectStoreFileIO(
        options(endpoint, connect_timeout_s=0.5, request_timeout_s=0.5, answer_timeout_s=6.0)
    )


@pytest.fixture
def silent_endpoint() -> Iterator[str]:
    """A server that takes connections and never says a word."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


class Answers:
    """An HTTP server whose answers are given in advance; the last one is repeated."""

    def __init__(self, *answers: Callable[[BaseHTTPRequestHandler], None]) -> None:
        self.requests: list[str] = []
        self.conditions: list[str | None] = []
        rest = list(answers)
        requests, conditions = self.requests, self.conditions

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                requests.append(f"{self.command} {self.path}")
                conditions.append(self.headers.get("If-None-Match"))
                (rest.pop(0) if len(rest) > 1 else rest[0])(self)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer

        self._serving = serving(Handler)

    def __enter__(self) -> Answers:
        self.endpoint = self._serving.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.__exit__(None, None, None)


def status(
    code: int, body: bytes = b"", *, announced: int | None = None, after_s: float = 0
) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(after_s)
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(body) if announced is None else announced))
        handler.send_header("Last-Modified", "Tue, 01 Sep 2026 10:00:00 GMT")
        handler.send_header("ETag", '"e"')
        with suppress(ConnectionError):  # nobody waited
            handler.end_headers()
            handler.wfile.write(body)

    return answer


def trickle(piece: bytes, *, times: int, pause_s: float) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        status(200, announced=len(piece) * times)(handler)
        for _ in range(times):
            handler.wfile.write(piece)
            handler.wfile.flush()
            time.sleep(pause_s)

    return answer


def drop(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def test_a_silent_server_is_not_waited_for(silent_endpoint: str) -> None:
    files = impatient(silent_endpoint)
    started = time.monotonic()
    with ThreadPoolExecutor(len(CALLS)) as threads:
        asked = {name: threads.submit(call, files, "s3://bucket/key") for name, call in CALLS.items()}
    assert time.monotonic() - started < 30
    for name, answer in asked.items():
        with pytest.raises(StorageUnavailableError, match="did not answer in time") as raised:
            answer.result()
        assert "s3://bucket/key" in raised.value.message, name


def test_a_silent_server_fails_a_bulk_delete_once(silent_endpoint: str) -> None:
    outcome = impatient(silent_endpoint).delete_many(f"s3://bucket/{number}" for number in range(900))
    assert (outcome.deleted, len(outcome.failures)) == (0, 900)
    assert "did not answer in time" in outcome.failures[0].reason


def test_a_body_that_stops_is_not_waited_for() -> None:
    with Answers(status(200, b"half", announced=8)) as server:
        started = time.monotonic()
        with pytest.raises(StorageUnavailableError):
            impatient(server.endpoint).read("s3://bucket/key")
        assert time.monotonic() - started < 30


def test_a_large_answer_may_take_longer_than_its_beginning() -> None:
    with Answers(trickle(b"x", times=12, pause_s=0.3)) as server:
        files = ObjectStoreFileIO(options(server.endpoint, answer_timeout_s=3))
        assert files.read("s3://bucket/key") == b"x" * 12


def test_a_large_upload_and_a_bulk_request_keep_storage_busy() -> None:
    with Answers(status(200, after_s=0.8)) as server:
        files = ObjectStoreFileIO(options(server.endpoint, answer_timeout_s=0.3, max_retries=0))
        for unique_name in (True, False):
            files.write_new("s3://bucket/large", bytes(9 << 20), unique_name=unique_name)
            with pytest.raises(StorageUnavailableError, match="did not answer in time"):
                files.write_new("s3://bucket/small", b"x", unique_name=unique_name)
        for count, in_time in ((200, True), (2, False)):
            outcome = files.delete_many(f"s3://bucket/{number}" for number in range(count))
            assert ("did not answer in time" in outcome.failures[0].reason) != in_time


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_is_away(silent_endpoint: str, call: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        files = impatient(f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(StorageUnavailableError, match="Storage failed"):
            CALLS[call](files, "s3://bucket/key")


def test_passing_failures_are_retried_a_bounded_number_of_times() -> None:
    with Answers(status(503), status(500), status(200, b"data")) as server:
        files = ObjectStoreFileIO(options(server.endpoint))
        assert files.read("s3://bucket/key") == b"data"
        assert server.requests == ["GET /bucket/key"] * 3
        assert files.counters.counts.reads == 1
    with Answers(status(503)) as server:
        files = ObjectStoreFileIO(options(server.endpoint, max_retries=2))
        with pytest.raises(StorageUnavailableError, match="HTTP 503"):
            files.write_new("s3://bucket/key", b"data")
        assert server.requests == ["PUT /bucket/key"] * 3


def test_a_file_of_a_unique_name_is_one_request_without_a_condition() -> None:
    with Answers(status(200)) as server:
        files = ObjectStoreFileIO(options(server.endpoint))
        files.write_new("s3://bucket/unique", b"data", unique_name=True)
        files.write_new("s3://bucket/key", b"data")
        assert server.requests == ["PUT /bucket/unique", "PUT /bucket/key"]
        assert server.conditions == [None, "*"]


@pytest.mark.parametrize("failure", ["drop", "503"])
def test_a_file_of_a_unique_name_is_sent_again_after_a_passing_failure(failure: str) -> None:
    with Answers(drop if failure == "drop" else status(503), status(200)) as server:
        files = ObjectStoreFileIO(options(server.endpoint))
        files.write_new("s3://bucket/key", b"data", unique_name=True)
        assert server.requests == ["PUT /bucket/key"] * 2
        assert files.counters.counts.writes == 1


def test_a_write_whose_answer_was_lost_is_recognised() -> None:
    with Answers(drop, status(412), status(200, b"data")) as server:
        ObjectStoreFileIO(options(server.endpoint)).write_new("s3://bucket/key", b"data")
        assert server.requests == ["PUT /bucket/key", "PUT /bucket/key", "GET /bucket/key"]


@pytest.mark.parametrize("content", [b"date", b"data and more"])
def test_a_write_that_lost_to_another_after_a_retry(content: bytes) -> None:
    with Answers(status(500), status(412), status(200, content)) as server, pytest.raises(AlreadyExistsError):
        ObjectStoreFileIO(options(server.endpoint)).write_new("s3://bucket/key", b"data")


def test_a_bucket_that_is_missing_is_not_a_missing_file() -> None:
    body = b"<Error><Code>NoSuchBucket</Code></Error>"
    with Answers(status(404, body)) as server:
        files = ObjectStoreFileIO(options(server.endpoint))
        with pytest.raises(StorageUnavailableError, match="NoSuchBucket"):
            files.write_new("s3://bucket/key", b"")
        with pytest.raises(StorageUnavailableError, match="NoSuchBucket"):
            list(files.list("s3://bucket/folder"))
        with pytest.raises(FileMissingError):
            files.read("s3://bucket/key")


@pytest.mark.s3
@pytest.mark.parametrize("call", CALLS)
def test_wrong_credentials_are_told_without_the_secret(
    s3_server: S3Server, s3_bucket: str, call: str
) -> None:
    for keys in ({"secret_access_key": "wrong-secret-value"}, {"access_key_id": "unknown-key"}):
        files = ObjectStoreFileIO(s3_server.options(**keys))
        with pytest.raises(ForbiddenError) as raised:
            CALLS[call](files, f"s3://{s3_bucket}/key")
        assert f"s3://{s3_bucket}/key" in raised.value.message
        assert (
            "SignatureDoesNotMatch" in raised.value.message
            or "InvalidAccessKeyId" in raised.value.message
            or call == "exists"
        )
        for secret in (s3_server.secret_access_key, "wrong-secret-value", "unknown-key", "<"):
            assert secret not in raised.value.message
        assert raised.value.__cause__ is None
        assert raised.value.__suppress_context__


@pytest.mark.s3
def test_credentials_of_the_environment_are_not_mixed_in(
    s3_server: S3Server, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-somebody-else")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-somebody-else")
    files = ObjectStoreFileIO(s3_server.options())
    files.write_new(f"s3://{s3_bucket}/key", b"x")
    assert files.read(f"s3a://{s3_bucket}/key") == b"x"


@pytest.mark.s3
def test_files_that_may_not_be_deleted_are_reported_and_the_others_deleted(
    s3_server: S3Server, s3_bucket: str
) -> None:
    keys = [f"{folder}/{number:02}" for number in range(20) for folder in ("mine", "theirs")]
    client = s3_server.client()
    for key in keys:
        client.put_object(Bucket=s3_bucket, Key=key, Body=b"")
    files = ObjectStoreFileIO(s3_server.options(**session_keys(s3_server, f"{s3_bucket}/mine/*")))
    outcome = files.delete_many(f"s3://{s3_bucket}/{key}" for key in keys)
    assert outcome.deleted == 20
    assert {failure.location for failure in outcome.failures} == {
        f"s3://{s3_bucket}/{key}" for key in keys if key.startswith("theirs")
    }
    assert "AccessDenied" in outcome.failures[0].reason
    left = client.list_objects_v2(Bucket=s3_bucket)["Contents"]
    assert {entry["Key"] for entry in left} == {key for key in keys if key.startswith("theirs")}
    with pytest.raises(ForbiddenError):
        files.read(f"s3://{s3_bucket}/theirs/00")


def session_keys(server: S3Server, resource: str) -> dict[str, str]:
    statement = {"Effect": "Allow", "Action": ["s3:*"], "Resource": [f"arn:aws:s3:::{resource}"]}
    session = server.client("sts").assume_role(
        RoleArn=server.role_arn,
        RoleSessionName="test",
        Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
        DurationSeconds=900,
    )["Credentials"]
    return {
        "access_key_id": session["AccessKeyId"],
        "secret_access_key": session["SecretAccessKey"],
        "session_token": session["SessionToken"],
    }


@pytest.mark.s3
def test_one_store_serves_many_buckets(s3_server: S3Server) -> None:
    files = ObjectStoreFileIO(s3_server.options())
    locations = [f"s3://{s3_server.create_bucket()}/key" for _ in range(3)]
    for location in locations:
        files.write_new(location, location.encode())
    assert [files.read(location) for location in locations] == [location.encode() for location in locations]
    assert files.delete_many(locations).deleted == 3


@pytest.mark.parametrize("call", [name for name in CALLS if name != "list"])
def test_a_bucket_is_no_file(call: str) -> None:
    with pytest.raises(BadRequestError, match="names no file"):
        CALLS[call](ObjectStoreFileIO(options("http://127.0.0.1:9")), "s3://bucket/")


def test_local_files_are_not_in_object_storage() -> None:
    with pytest.raises(BadRequestError, match="not in object storage"):
        ObjectStoreFileIO().read("/a/b")


@pytest.mark.parametrize(
    "location",
    [
        "gs://bucket/key",
        "abfss://box@account.dfs.core.windows.net/key",
        "wasbs://box@account.blob.core.chinacloudapi.cn/key",
    ],
)
def test_other_clouds_fail_as_clearly(
    location: str, monkeypatch: pytest.MonkeyPatch, silent_endpoint: str
) -> None:
    # Everything goes to a proxy that never answers.
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("HTTPS_PROXY", silent_endpoint)
    files = ObjectStoreFileIO(ObjectStoreOptions(request_timeout_s=0.5, connect_timeout_s=0.5, max_retries=1))
    started = time.monotonic()
    with pytest.raises(FloecatError) as raised:
        files.read(location)
    assert isinstance(raised.value, StorageUnavailableError)
    assert time.monotonic() - started < 30
