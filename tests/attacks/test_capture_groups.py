"""A snapshot of very many data files that are not there: its capture is many groups, each of which fails."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.attacks.attacked_service import LONG, AttackedService, Form
from tests.scan_files import Appends

TABLE = "/v1/floecat/namespaces/used0/tables/t"
CAPTURES = "/management/v1/catalogs/floecat/captures"
GROUPS = 2_000
FILES_PER_GROUP = 128
MOST_BYTES = 16 << 20


class LongNames(Appends):
    """Names are as long as a disk allows, and longer than a row of a job has room for."""

    def _path(self, number: int) -> str:
        return f"{self.location}/data/{'x' * 200}/{'y' * 200}/{number}.parquet"


@pytest.mark.timeout(900)
def test_a_snapshot_of_many_files_that_are_not_there(
    start_attacked: Callable[..., AttackedService], form: Form
) -> None:
    groups = GROUPS if form is LONG else 20
    service = start_attacked(
        FLOECAT_STATISTICS_WORKERS="1",
        FLOECAT_STATISTICS_GROUPS_PER_CAPTURE=str(groups),
        FLOECAT_STATISTICS_MAX_ATTEMPTS="2",
    )
    location = json.loads(service.send("GET", TABLE).body)["metadata"]["location"]
    updates = LongNames(location).append(*[FILES_PER_GROUP * groups // 2] * 3)
    body = json.dumps({"requirements": [], "updates": updates}).encode()
    assert service.send("POST", TABLE, body).status == 200
    ends_s = time.monotonic() + 600
    while not (found := json.loads(service.send("GET", CAPTURES).body)["captures"]):
        assert time.monotonic() < ends_s
        time.sleep(0.1)
    capture = f"{CAPTURES}/{found[0]['id']}"

    def send() -> None:
        answer = service.send("GET", capture)
        assert answer.status == 200 or answer.is_refusal, answer
        assert len(answer.body) < MOST_BYTES

    def wait() -> None:
        while len(seen := json.loads(service.send("GET", capture).body)["groups"]) < groups:
            assert time.monotonic() < ends_s, len(seen)
            time.sleep(1)
        assert len(seen) == groups
        # planning goes on in a process of its own, for what is left too
        while running := _running(service):
            assert time.monotonic() < ends_s, running
            for each in running:
                service.send("POST", f"{CAPTURES}/{each}/cancel")
            time.sleep(1)

    service.attack(send, at_once=8, then=wait)


def _running(service: AttackedService) -> list[str]:
    found = json.loads(service.send("GET", CAPTURES).body)["captures"]
    return [each["id"] for each in found if each["finished-at-ms"] is None]
