"""Purges, as an operator's client sees them."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from floecat.events.table_events import PurgeCompleted, PurgeFailed
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.queue import server_identity
from floecat_rest.management.job_metrics import count_purge
from tests.unit.rest.conftest import SCHEMA

PATH = "/management/v1/catalogs/floecat/purges"


@pytest.fixture
def purge(client, namespace):
    """The purge of a table that was just dropped; nothing works on it."""
    return drop(client, namespace, "t")


def drop(client, namespace, name):
    path = f"/v1/floecat/namespaces/{namespace}/tables"
    client.post(path, json={"name": name, "schema": SCHEMA}).raise_for_status()
    request_id = uuid4().hex
    headers = {"x-request-id": request_id}
    client.delete(f"{path}/{name}?purgeRequested=true", headers=headers).raise_for_status()
    (found,) = client.get(PATH, params={"table": f"{namespace}.{name}"}).json()["purges"]
    assert found["request-id"] == request_id
    return found


@pytest.mark.parametrize(
    ("method", "path", "known"),
    [
        ("GET", PATH, "state, table, pageToken, pageSize"),
        ("POST", f"{PATH}/{UUID(int=1)}/cancel", "force"),
        ("GET", f"{PATH}/{UUID(int=1)}", "none"),
        ("GET", "/management/v1/catalogs/floecat/capture-policy", "none"),
    ],
)
def test_query_parameters_that_there_are_not_are_refused(client, method, path, known):
    answer = client.request(method, path, params={"stat": "queued"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == f"Unknown query parameter 'stat' of {method}: it has {known}"


def test_a_purge_is_listed_and_shown(client, namespace, purge):
    assert purge["table"] == {"namespace": [namespace], "name": "t"}
    assert (purge["state"], purge["attempts"], purge["worker"]) == ("queued", 0, None)
    assert purge["metadata-location"].startswith(purge["location"])
    assert client.get(f"{PATH}/{purge['id']}").json() == purge
    pending = client.get(PATH, params={"state": ["queued", "running"]}).json()["purges"]
    assert purge["id"] in [each["id"] for each in pending]
    assert client.get(PATH, params={"state": "succeeded", "table": f"{namespace}.t"}).json() == {
        "purges": [],
        "next-page-token": None,
    }


def test_pages(client, namespace, purge):
    other = drop(client, namespace, "u")
    found, token = [], ""
    while token is not None:
        page = client.get(PATH, params={"pageSize": 1, "pageToken": token}).json()
        found += [each["id"] for each in page["purges"]]
        token = page["next-page-token"]
    assert found.index(purge["id"]) < found.index(other["id"])
    assert len(found) == len(set(found))


def test_a_purge_ends_with_what_it_did(client, opened_kernel, purge):
    opened_kernel.purge.queue.drain_once()
    done = client.get(f"{PATH}/{purge['id']}").json()
    assert (done["state"], done["attempts"]) == ("succeeded", 1)
    assert done["worker"] == server_identity()
    progress = done["progress"]
    assert (progress["found"], progress["deleted"], progress["failed"]) == (1, 1, 0)
    assert set(progress["kept"].values()) == {0}
    for action in ("retry", "cancel", "cancel?force=true"):
        refused = client.post(f"{PATH}/{purge['id']}/{action}")
        assert refused.status_code == 409
        assert "succeeded" in refused.json()["error"]["message"]


def test_one_that_has_not_begun_is_cancelled_and_retried(client, purge):
    cancelled = client.post(f"{PATH}/{purge['id']}/cancel")
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    retried = client.post(f"{PATH}/{purge['id']}/retry")
    assert (retried.status_code, retried.json()["state"]) == (200, "queued")


def test_one_that_has_begun_is_cancelled_by_force_alone(client, opened_kernel, purge):
    claimed = opened_kernel.purge.queue.claim(limit=100)
    assert purge["id"] in [str(row.id) for row in claimed]
    refused = client.post(f"{PATH}/{purge['id']}/cancel")
    assert refused.status_code == 409
    assert "has begun" in refused.json()["error"]["message"]
    stopping = client.post(f"{PATH}/{purge['id']}/cancel?force=true").json()
    assert (stopping["state"], stopping["cancel-requested"]) == ("cancelling", True)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nonsense", 404),
        ("/0190a1b2-0000-7000-8000-000000000001", 404),
        ("?state=done", 400),
        ("?pageToken=x", 400),
        ("?pageSize=0", 400),
    ],
)
def test_bad_requests(client, path, status):
    answer = client.get(PATH + path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, status)


def value(client, name):
    lines = [line for line in client.get("/metrics").text.splitlines() if line.startswith(f"{name} ")]
    return float(lines[0].split()[1]) if lines else 0.0


def test_gauges_show_what_waits(client, opened_kernel, namespace):
    opened_kernel.purge.queue.drain_once()
    queued = 'floecat_jobs{kind="purge",state="queued"}'
    before = value(client, queued)
    drop(client, namespace, "t")
    assert value(client, queued) == before + 1
    assert value(client, 'floecat_jobs_oldest_age_seconds{kind="purge"}') > 0


def test_counters_add_up_what_ended(client, opened_kernel):
    names = (
        'floecat_purges_total{outcome="succeeded"}',
        'floecat_purges_total{outcome="dead_letter"}',
        'floecat_purge_files_total{outcome="deleted"}',
        "floecat_purge_bytes_total",
    )
    before = [value(client, name) for name in names]
    common = {
        "catalog": "c",
        "catalog_id": uuid4(),
        "identifier": TableIdentifier(("ns",), "t"),
        "logical_name": "ns.t",
        "table_uuid": "u",
        "location": "s3://b/t",
        "principal": "anna",
        "at_ms": 1,
        "job_id": uuid4(),
        "purger": "sql-async",
    }
    count_purge(PurgeCompleted(**common, elapsed_ms=1, counts={"deleted": 7, "bytes": 9, "shared": 1}))
    count_purge(PurgeFailed(**common, attempts=5, error="x"))
    assert [value(client, name) - old for name, old in zip(names, before, strict=True)] == [1, 1, 7, 9]
