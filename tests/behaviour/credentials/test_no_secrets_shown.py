"""No secret of an authority and no key that it made is in a log, an error, a row or a file of the service."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard

from tests.services.catalog import CatalogServer, s3_environment, started_catalogs
from tests.services.s3 import S3Server

pytestmark = pytest.mark.s3

ASKS = {"x-iceberg-access-delegation": "vended-credentials"}
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
ZSTD = b"\x28\xb5\x2f\xfd"


@pytest.fixture
def service(tmp_path: Path, s3_server: S3Server, s3_bucket: str) -> Iterator[CatalogServer]:
    keys = (s3_server.endpoint, s3_bucket, s3_server.access_key_id, s3_server.secret_access_key)
    with started_catalogs(tmp_path) as start:
        yield start(
            **s3_environment(*keys), FLOECAT_LOG_LEVEL="debug", FLOECAT_STORAGE_AUTHORITIES_TIMEOUT_MS="60000"
        )


def values(config: dict[str, str]) -> set[str]:
    return {config[f"s3.{name}"] for name in ("secret-access-key", "session-token")}


def stored(data_dir: Path) -> Iterator[bytes]:
    """Everything that the service has on the disk, compressed values in the clear."""
    with closing(sqlite3.connect(data_dir / "floecat.db")) as conn:
        tables = [name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert {"storage_authorities", "access_log", "jobs", "idempotency_records"} <= set(tables)
        for table in tables:
            for row in conn.execute(f"SELECT * FROM {table}"):
                for value in row:
                    found = value if isinstance(value, bytes) else str(value).encode()
                    yield (
                        zstandard.ZstdDecompressor().decompressobj().decompress(found)
                        if found.startswith(ZSTD)
                        else found
                    )
    for path in data_dir.rglob("*"):
        if path.is_file():
            yield path.read_bytes()


def test_secrets_are_shown_nowhere(service: CatalogServer, s3_server: S3Server, s3_bucket: str) -> None:
    secret, wrong = s3_server.secret_access_key, "zebra-hunter2-of-nobody"
    secrets, said = {secret, wrong}, []

    def send(method: str, path: str, status: int, body: Any = None, **headers: str) -> Any:
        answer = http.request(method, path, json=body, headers=headers)
        assert answer.status_code == status, answer.text
        said.append(answer.text)
        return answer.json() if answer.content else None

    authorities = "/management/v1/authorities"
    tables = "/v1/floecat/namespaces/ns/tables"
    method = {
        "kind": "s3",
        "access-key-id": s3_server.access_key_id,
        "role-arn": s3_server.role_arn,
        "region": s3_server.region,
        "endpoint": s3_server.endpoint,
        "path-style-access": True,
    }
    with httpx.Client(base_url=service.base_url, timeout=120) as http:
        made = {"name": "lake", "prefix": f"s3://{s3_bucket}", "method": method}
        secret_of = {"secrets": {"secret-access-key": secret}}
        send("POST", authorities, 400, {**made, "secrets": {"secret-access-key": wrong + "\n"}})
        send("POST", authorities, 400, {**made, "secrets": {"other": wrong}})
        send("POST", authorities, 400, {**made, "secrets": [wrong]})
        send(
            "POST", authorities, 403, {**made, **secret_of, "method": {**method, "endpoint": "http://other"}}
        )
        send("POST", authorities, 201, {**made, **secret_of})
        send("POST", authorities, 409, {**made, **secret_of})
        send("GET", authorities, 200)
        assert send("GET", f"{authorities}/lake", 200)["secrets"] == {"secret-access-key": "***"}
        send("POST", "/v1/floecat/namespaces", 200, {"namespace": ["ns"]})
        # what hands out keys, with a key of its own for replays
        key = {"idempotency-key": "0198c7a0-0000-7000-8000-000000000001"}
        keyed = http.post(tables, json={"name": "t", "schema": SCHEMA}, headers=ASKS | key)
        replayed = http.post(tables, json={"name": "t", "schema": SCHEMA}, headers=ASKS | key)
        answers = [keyed, replayed, http.get(f"{tables}/t", headers=ASKS)]
        answers.append(http.get(f"{tables}/t/credentials", headers=ASKS))
        staged = {"name": "s", "schema": SCHEMA, "stage-create": True}
        answers.append(http.post(tables, json=staged, headers=ASKS))
        answers.append(http.post(f"{tables}/t/plan", json={}, headers=ASKS))
        for answer in answers:
            assert answer.status_code == 200, answer.text
            assert secret not in answer.text
            secrets |= set().union(*(values(each["config"]) for each in answer.json()["storage-credentials"]))
        assert len(secrets) > 4
        place = keyed.json()["metadata"]["location"].removeprefix("s3://")
        wanted = {"method": "GET", "uri": f"{s3_server.endpoint}/{place}/data/a", "region": "us-east-1"}
        signed = http.post(f"{tables}/t/sign", json={**wanted, "headers": {}})
        assert signed.status_code == 200, signed.text
        headers = {name.lower(): value for name, (value,) in signed.json()["headers"].items()}
        secrets |= {headers["x-amz-security-token"], headers["authorization"].partition("Signature=")[2]}
        send(
            "POST",
            "/management/v1/catalogs/floecat/namespaces/ns/tables/t/captures",
            200,
            {"all-snapshots": True},
        )
        # keys that are refused, and a service that does not answer
        send("POST", f"{authorities}/lake", 200, {"secrets": {"secret-access-key": wrong}})
        send("GET", f"{tables}/t", 503, **ASKS)
        send("POST", f"{authorities}/lake", 400, {"secrets": {"secret-access-key": wrong}, "name": "a b"})
        send("GET", "/management/v1/access/history", 200)
        send("DELETE", f"{authorities}/lake", 204)
        send("GET", f"{authorities}/lake", 404)
    said.append(service.log.read_text())
    assert "its STS refuses (SignatureDoesNotMatch" in said[-1]
    shown = [each for text in said for each in secrets if each in text]
    assert shown == []
    found = [each for value in stored(service.data_dir) for each in secrets if each.encode() in value]
    assert found == []
