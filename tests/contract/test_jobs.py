"""Jobs of all kinds over the management API, and the names that purges and captures have."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table
from tests.contract.delta import management
from tests.contract.updates import append


class Jobs:
    """The jobs of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self.http = catalog.http
        self.path = management(catalog, "/jobs")

    def list(self, **params: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        token = ""
        while token is not None:
            page = self.http.get(self.path, params=params | {"pageToken": token}).raise_for_status().json()
            found += page["jobs"]
            token = page["next-page-token"]
        return found

    def get(self, job_id: str) -> dict[str, Any]:
        return self.http.get(f"{self.path}/{job_id}").raise_for_status().json()  # type: ignore[no-any-return]

    def ended(self, job_id: str) -> dict[str, Any]:
        ends_at = time.monotonic() + 60
        while (job := self.get(job_id))["finished-at-ms"] is None:
            assert time.monotonic() < ends_at
            time.sleep(0.05)
        return job


@pytest.fixture
def jobs(catalog: Catalog) -> Jobs:
    return Jobs(catalog)


def purge(catalog: Catalog, namespace: Namespace, name: str) -> str:
    """Drops a new table, and returns the id of its purge."""
    table = catalog.create_table(namespace, name)
    assert catalog.delete(table.path, params={"purgeRequested": "true"}).status_code == 204
    title = ".".join((*namespace, name))
    (found,) = catalog.http.get(management(catalog, "/purges"), params={"table": title}).json()["purges"]
    return str(found["id"])


def test_a_purge_is_a_job_among_others(catalog: Catalog, namespace: Namespace, jobs: Jobs):
    first, second = (purge(catalog, namespace, name) for name in ("a", "b"))
    title = ".".join((*namespace, "a"))
    (listed,) = jobs.list(entry=title, kind=["purge", "plan"])
    assert (listed["id"], listed["kind"], listed["title"]) == (first, "purge", title)
    ended = jobs.ended(first)
    assert (ended["state"], ended["attempts"], ended["children"]) == ("succeeded", 1, [])
    same = catalog.http.get(management(catalog, f"/purges/{first}")).json()
    assert {name: same[name] for name in ended["details"]} == ended["details"]
    assert same["progress"]["failed"] == 0
    assert {name for name in same if name in ended} >= {"state", "attempts", "created-by", "finished-at-ms"}
    jobs.ended(second)
    ids = [job["id"] for job in jobs.list(state="succeeded", pageSize=1)]
    assert ids.index(first) < ids.index(second)
    assert jobs.list(kind="plan", state="succeeded") == jobs.list(entry=title, state="cancelled") == []
    for action in ("retry", "cancel", "cancel?force=true"):
        refused = catalog.http.post(f"{jobs.path}/{first}/{action}")
        assert "it is succeeded" in assert_error(refused, 409, "ConflictException")


def test_a_capture_is_a_job_that_may_wait_for_others(catalog: Catalog, table: Table, jobs: Jobs):
    table.committed(append(1, 1))
    path = management(catalog, f"{table.path}/captures")
    (asked,) = catalog.http.post(path, json={"wait-seconds": 0, "snapshot": 1}).json()["captures"]
    job = jobs.get(asked["id"])
    assert (job["kind"], job["parent-id"], job["details"]["snapshot-id"]) == ("capture", None, 1)
    same = catalog.http.get(management(catalog, f"/captures/{asked['id']}")).json()
    assert [group["id"] for group in same["groups"]] == [child["id"] for child in job["children"]]
    assert jobs.list(parent=asked["id"]) == []
    catalog.http.post(f"{jobs.path}/{asked['id']}/cancel")  # the service may have been faster
    assert jobs.ended(asked["id"])["due-at-ms"] is None
    other_kind = catalog.http.post(management(catalog, f"/purges/{asked['id']}/cancel"))
    assert_error(other_kind, 404, "NotFoundException")


@pytest.mark.parametrize("action", ["", "/retry", "/cancel", "?parent="])
def test_a_job_that_there_is_not(catalog: Catalog, jobs: Jobs, action: str):
    for job_id in (str(uuid.uuid4()), "x" * 200):
        if action == "?parent=":
            answer = catalog.http.get(jobs.path, params={"parent": job_id})
        else:
            answer = catalog.http.request("POST" if action else "GET", f"{jobs.path}/{job_id}{action}")
        if action == "?parent=" and len(job_id) == 200:
            assert answer.status_code == 400
        else:
            assert assert_error(answer, 404, "NotFoundException").startswith("Job does not exist: ")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kind": "purged"}, "Invalid kind: 'purged' is not one of "),
        ({"state": "gone"}, "Invalid state: 'gone' is not one of "),
        ({"pageToken": "x"}, "Invalid pageToken"),
        ({"pageSize": 0}, "pageSize"),
        ({"table": "t"}, "Unknown query parameter 'table' of GET"),
    ],
)
def test_bad_requests(catalog: Catalog, jobs: Jobs, params: dict[str, Any], message: str):
    answer = catalog.http.get(jobs.path, params=params)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]
