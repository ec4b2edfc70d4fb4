"""Jobs of all kinds, as an operator's client sees them: how each kind describes them, and whose they are."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
import pytest
import uuid_utils.compat as uuids
from litestar.testing import TestClient

from floecat.auth.principals import Principal
from floecat.entries.calls import Call
from floecat.runtime import Kernel
from floecat.store.jobs import jobs
from floecat.store.jobs.jobs import JobRow
from floecat.working_memory import WorkingMemory, WorkingMemoryError

PATH = "/management/v1/catalogs/floecat/jobs"
ID = str(UUID(int=7))

PURGED = {
    "entry_id": ID,
    "table_uuid": "u",
    "location": "s3://lake/t",
    "metadata_location": "s3://lake/t/metadata/1.json",
    "format": "iceberg",
    "purger": "sql-async",
    "catalog": "floecat",
    "namespace": ["ns"],
    "name": "t",
}
PURGE = {
    "found": 4,
    "deleted": 3,
    "bytes": 9,
    "shared": 1,
    "working_ms": 2000,
    "failed_keys": [{"location": "s3://lake/t/1", "reason": "denied"}],
}
SNAPSHOT = {"entry_id": ID, "snapshot_id": 5, "reason": "commit"}
SHOWN_SNAPSHOT = {"table-id": ID, "snapshot-id": 5, "reason": "commit"}
SCAN = {"folders": 9, "tables": 4, "registered": 2, "failed": 1, "changed": 3, "gone": 1, "captures": 2}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, int]]] = {
    "purge": (
        PURGED,
        {"purge": PURGE},
        {
            "table-uuid": "u",
            "metadata-location": "s3://lake/t/metadata/1.json",
            "format": "iceberg",
            "purger": "sql-async",
            "progress": {
                "found": 4,
                "deleted": 3,
                "bytes": 9,
                "kept": {"shared": 1, "outside": 0, "gc-disabled": 0, "waiting": 0},
                "failed": 0,
                "files-per-second": 1.5,
                "note": "",
                "failed-keys": [{"location": "s3://lake/t/1", "reason": "denied"}],
            },
        },
        {"found": 4, "deleted": 3, "bytes": 9, "shared": 1},
    ),
    "entry-files": ({"entry_id": ID, "warehouse": "s3://lake"}, {}, {}, {}),
    "orphan-files": ({}, {}, {}, {}),
    "connector-scan": ({"connector_id": ID}, SCAN, {"connector-id": ID, **SCAN}, SCAN),
    "plan": ({"plan_id": ID}, {}, {}, {}),
    "capture-table": (
        {"entry_id": ID},
        {"snapshots": 3, "captured": 2, "problem": "1 of 3 snapshots are missing"},
        {"table-id": ID, "snapshots": 3, "captured": 2, "problem": "1 of 3 snapshots are missing"},
        {"snapshots": 3, "captured": 2},
    ),
    "capture": (
        SNAPSHOT,
        {"files": 8, "stored": 2, "done": 5, "problem": "one is lost"},
        {**SHOWN_SNAPSHOT, "files": 8, "stored": 2, "done": 5, "problem": "one is lost"},
        {"files": 8, "stored": 2, "done": 5},
    ),
    "capture-group": (
        {"entry_id": ID, "snapshot_id": 5, "number": 3, "files": 6, "size_bytes": 60},
        {"done": 4},
        {"number": 3, "files": 6, "done": 4, "size-bytes": 60},
        {"files": 6, "done": 4},
    ),
    "statistics-file": (SNAPSHOT, {}, SHOWN_SNAPSHOT, {}),
}
"""Payload, progress, what is shown of them, and counts."""


@pytest.fixture
def call(opened_kernel: Kernel) -> Call:
    principal = Principal("anna", opened_kernel.settings.gateway.default_account_id)
    return opened_kernel.catalog.calls.open(principal, "floecat")


def insert(kernel: Kernel, call: Call, kind: str, **changes: Any) -> JobRow:
    """A job that a worker has, so that no other takes it."""
    payload, progress, *_ = KINDS[kind]
    row = JobRow(
        id=uuids.uuid7(),
        account_id=call.catalog.account_id,
        catalog_id=call.catalog.id,
        kind=kind,
        title=f"ns.{uuids.uuid7()}",
        subject="subject",
        resource="s3://lake",
        payload=msgspec.json.encode(payload).decode(),
        progress=msgspec.json.encode(progress).decode(),
        state="running",
        max_attempts=5,
        not_before_ms=1 << 60,
        lease_owner="host:1:a",
        lease_expires_at_ms=1 << 60,
        created_by="anna",
        created_at_ms=1,
        updated_at_ms=2,
    )
    row = msgspec.structs.replace(row, **changes)
    kernel.store.run(lambda conn: jobs.insert(conn, row))
    return row


def test_there_is_a_description_of_each_kind(opened_kernel: Kernel) -> None:
    assert opened_kernel.jobs.kinds.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_is_described_by_its_kind(
    client: TestClient[Any], opened_kernel: Kernel, call: Call, kind: str
) -> None:
    row = insert(opened_kernel, call, kind)
    _, _, details, counts = KINDS[kind]
    shown = client.get(f"{PATH}/{row.id}").json()
    assert shown.pop("details") == details
    assert shown == {
        "id": str(row.id),
        "parent-id": None,
        "kind": kind,
        "title": row.title,
        "subject": "subject",
        "location": "s3://lake/t" if kind == "purge" else "s3://lake",
        "lane": "default",
        "state": "running",
        "attempts": 0,
        "max-attempts": 5,
        "cancel-requested": False,
        "created-by": "anna",
        "request-id": None,
        "worker": "host:1:a",
        "lease-expires-at-ms": 1 << 60,
        "last-error": None,
        "created-at-ms": 1,
        "started-at-ms": None,
        "due-at-ms": None,
        "updated-at-ms": 2,
        "finished-at-ms": None,
        "children": [],
    }
    (info,) = opened_kernel.jobs.list(call, title=row.title)
    assert {name: count for name, count in info.counts.items() if count} == counts
    if kind == "purge":
        details = details | {"progress": details["progress"] | {"failed-keys": []}}
    (listed,) = client.get(PATH, params={"entry": row.title}).json()["jobs"]
    assert listed == {**shown, "details": details}


def test_a_job_is_shown_with_those_that_it_waits_for(
    client: TestClient[Any], opened_kernel: Kernel, call: Call
) -> None:
    capture = insert(opened_kernel, call, "capture")
    groups = [insert(opened_kernel, call, "capture-group", parent_id=capture.id) for _ in range(3)]
    ids = [str(group.id) for group in groups]
    shown = client.get(f"{PATH}/{capture.id}").json()
    assert [child["id"] for child in shown["children"]] == ids
    assert shown["details"]["done"] == 2 + 3 * 4
    found, token = [], ""
    while token is not None:
        page = client.get(PATH, params={"parent": str(capture.id), "pageSize": 2, "pageToken": token}).json()
        found += [job["id"] for job in page["jobs"]]
        token = page["next-page-token"]
    assert found == ids
    assert client.get(PATH, params={"parent": ids[0]}).json()["jobs"] == []
    cancelled = client.post(f"{PATH}/{capture.id}/cancel").json()
    assert {cancelled["state"], *(child["state"] for child in cancelled["children"])} == {"cancelling"}


def test_a_job_that_is_shown_takes_working_memory(opened_kernel: Kernel, call: Call) -> None:
    row = insert(opened_kernel, call, "purge", last_error="x" * (3 << 20))
    memory = WorkingMemory(4 << 20, wait_ms=0)
    with memory.work():
        opened_kernel.jobs.get(call, row.id)
        with memory.work(), pytest.raises(WorkingMemoryError):
            opened_kernel.jobs.get(call, row.id)
    with memory.work():
        opened_kernel.jobs.get(call, row.id)


def test_all_kinds_have_the_same_states(client: TestClient[Any], opened_kernel: Kernel, call: Call) -> None:
    title = f"ns.{uuids.uuid7()}"
    for kind in ("purge", "plan"):
        insert(opened_kernel, call, kind, title=title)
    both = ["purge", "plan"]
    for states, kinds in ((["running"], both), (["running", "failed"], both), (["queued"], [])):
        found = client.get(PATH, params={"entry": title, "state": states}).json()["jobs"]
        assert [job["kind"] for job in found] == kinds
    nothing = client.get(PATH, params={"entry": title, "kind": "plan", "state": "failed"})
    assert nothing.json() == {"jobs": [], "next-page-token": None}


def test_a_purge_that_has_begun_is_cancelled_by_force_alone(
    client: TestClient[Any], opened_kernel: Kernel, call: Call
) -> None:
    row = insert(opened_kernel, call, "purge", started_at_ms=1)
    refused = client.post(f"{PATH}/{row.id}/cancel")
    assert (refused.status_code, "has begun" in refused.json()["error"]["message"]) == (409, True)
    stopping = client.post(f"{PATH}/{row.id}/cancel?force=true").json()
    assert (stopping["state"], stopping["cancel-requested"]) == ("cancelling", True)


def test_jobs_of_other_catalogs_and_accounts_do_not_exist(
    client: TestClient[Any], opened_kernel: Kernel, call: Call
) -> None:
    kernel = opened_kernel
    location = f"{kernel.settings.warehouse_location}-of-others"
    elsewhere = [
        kernel.catalog.catalogs.ensure(account_id, f"others{number}", f"{location}{number}")
        for number, account_id in enumerate((call.catalog.account_id, uuids.uuid7()))
    ]
    for catalog in elsewhere:
        row = insert(kernel, call, "purge", account_id=catalog.account_id, catalog_id=catalog.id)
        for method, path in (
            ("GET", f"/{row.id}"),
            ("POST", f"/{row.id}/retry"),
            ("POST", f"/{row.id}/cancel?force=true"),
            ("GET", f"?parent={row.id}"),
        ):
            answer = client.request(method, PATH + path)
            assert answer.status_code == 404
            assert answer.json()["error"]["message"] == f"Job does not exist: {row.id}"
        assert client.get(PATH, params={"entry": row.title}).json()["jobs"] == []
        with kernel.store.read() as conn:
            assert jobs.get(conn, row.id) == row
