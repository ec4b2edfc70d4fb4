"""A storage authority whose STS takes connections and never answers, or refuses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from tests.attacks.attacked_service import Form
from tests.attacks.test_hung_storage import hung_endpoint
from tests.behaviour.storage.conftest import ASKS, KeyLake, start_lake
from tests.services.authorities import add_authority, change_authority, s3_method
from tests.services.s3 import S3Server

__all__ = ["hung_endpoint"]

pytestmark = pytest.mark.s3
_LOADS = 60
_TIMEOUT_S = 1.0


@pytest.fixture
def lake(tmp_path: Path, s3_server: S3Server, s3_bucket: str) -> Iterator[KeyLake]:
    """A table `t` below an authority, and one `u` of another catalog on the same store, below another one."""
    with ExitStack() as running:
        settings = {"floecat.storage.authorities.timeout-ms": int(_TIMEOUT_S * 1000)}
        made = start_lake(tmp_path, s3_server, s3_bucket, running, **settings)
        account = made.kernel.settings.gateway.default_account_id
        made.kernel.catalog.catalogs.create(account, "other", f"s3://{s3_bucket}/other")
        add_authority(made.kernel, s3_server, f"s3://{s3_bucket}/wh")
        add_authority(made.kernel, s3_server, f"s3://{s3_bucket}/other", "other")
        for number in range(_LOADS):
            assert made.create(f"t{number}").status_code == 200
        other = "/v1/other/namespaces"
        assert made.client.post(other, json={"namespace": ["ns"]}).status_code == 200
        made.tables = f"{other}/ns/tables"
        for number in range(_LOADS):
            assert made.create(f"u{number}").status_code == 200
        yield made


def test_loads_are_503_that_name_it_and_other_catalogs_go_on(
    lake: KeyLake, hung_endpoint: str, form: Form
) -> None:
    method = s3_method(lake.server, sts_endpoint=hung_endpoint)
    change_authority(lake.kernel, method=msgspec.json.encode(method).decode())

    def load(number: int) -> tuple[int, str, float]:
        started_s = time.monotonic()
        answer = lake.client.get(f"/v1/floecat/namespaces/ns/tables/t{number}", headers=ASKS)
        return answer.status_code, answer.json()["error"]["message"], time.monotonic() - started_s

    with ThreadPoolExecutor(_LOADS) as clients:
        waiting = [clients.submit(load, number) for number in range(_LOADS)]
        slowest_s = 0.0
        for number in range(_LOADS):
            started_s = time.monotonic()
            answer = lake.load(f"u{number}")
            slowest_s = max(slowest_s, time.monotonic() - started_s)
            assert answer.json()["storage-credentials"], number
        answers = [each.result() for each in waiting]
    for status, message, _ in answers:
        assert (status, "lake" in message or "floecat.limits" in message) == (503, True), message
    assert any("does not answer" in message for _, message, _ in answers)
    assert not form.checks_times or (slowest_s < 0.5 and max(took for *_, took in answers) < 5 * _TIMEOUT_S)
    plain = lake.client.get("/v1/floecat/namespaces/ns/tables/t0")
    assert (plain.status_code, "storage-credentials" in plain.json()) == (200, False)
