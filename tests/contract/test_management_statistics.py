"""Statistics, constraints, index artifacts and captures of snapshots over the management API."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

import httpx
import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table
from tests.contract.delta import management
from tests.contract.updates import append

BAD = "BadRequestException"
_DAY = {"type": "transform", "transform": "day", "term": "at"}


class Records:
    """What is kept of a table beside its metadata."""

    def __init__(self, table: Table) -> None:
        self.http = table.catalog.http
        self.path = management(table.catalog, table.path)

    def get(self, route: str, **params: Any) -> httpx.Response:
        return self.http.get(f"{self.path}/{route}", params=params)

    def send(self, method: str, route: str, body: Any = None, **options: Any) -> httpx.Response:
        return self.http.request(method, f"{self.path}/{route}", json=body, **options)


@pytest.fixture
def table(catalog: Catalog, namespace: Namespace) -> Table:
    """A table with a snapshot."""
    made = catalog.create_table(namespace)
    made.committed(append(1, 1))
    return made


@pytest.fixture
def records(table: Table) -> Records:
    return Records(table)


def test_statistics_are_put_listed_and_found_by_target(records: Records):
    expression = {"kind": "expression", "engine-kind": " Trino ", "engine-expression-key": "YQ=="}
    sent = [
        {"target": {"kind": "table"}, "table": {"row-count": 3}},
        {"target": expression, "scalar": {"row-count": 3}},
        *({"target": {"kind": "column", "column-id": id}, "scalar": {"row-count": 3}} for id in (1, 2, 10)),
    ]
    assert records.send("POST", "statistics", {"records": sent}).json() == {"upserted": 5}
    first = records.get("statistics", kind="column", pageSize=2).json()
    rest = records.get("statistics", kind="column", pageSize=2, pageToken=first["next-page-token"]).json()
    assert [each["target"]["column-id"] for each in first["records"] + rest["records"]] == [1, 2, 10]
    assert rest["next-page-token"] is None
    assert records.get("statistics/table").json() == sent[0]
    assert records.get("statistics/column-10", snapshot="main").json() == sent[-1]
    digest = hashlib.sha256(b"E\x1ftrino\x1fa").hexdigest()
    found = records.get(f"statistics/expression-trino-{digest}").json()
    assert found["target"]["engine-kind"] == "trino"
    assert_error(records.get("statistics/column-3"), 404, "NotFoundException")
    assert "give it once" in assert_error(records.get("statistics", kind=["table", "column"]), 400, BAD)
    assert_error(records.get("statistics", kind="composite"), 400, BAD)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"target": {"kind": "composite"}}, "target.kind"),
        ({"target": {"kind": "table"}}, "takes a table value"),
        ({"target": {"kind": "table"}, "table": {"row-count": -1}}, "row-count must be between 0"),
        ({"target": {"kind": "table"}, "table": {"row-count": 2**63}}, "row-count must be between 0"),
        ({"target": {"kind": "column", "column-id": 10**19}, "scalar": {}}, "column-id must be between 0"),
        ({"target": {"kind": "expression", "engine-kind": "x", "engine-expression-key": "!"}}, "base64"),
        ({"target": {"kind": "table"}, "table": {}, "tabel": {}}, "tabel"),
        ({"target": {"kind": "table", "id": 1}, "table": {}}, "id"),
        ({"target": {"kind": "table"}, "table": {"row_count": 3}}, "row_count"),
        ({"target": {"kind": "column", "column-id": 1}, "scalar": {"ndv": {"exakt": 3}}}, "exakt"),
    ],
)
def test_bad_records_are_refused(records: Records, record: Any, message: str):
    answer = records.send("POST", "statistics", {"records": [record]})
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_a_foreign_key_has_all_its_fields(records: Records):
    key = {
        "name": "fk",
        "type": "foreign-key",
        "columns": [{"column-id": 1, "column-name": "id", "ordinal": 1}],
        "referenced-table": {"namespace": ["ns"], "name": "parent"},
        "referenced-table-id": "0198c7a0-0000-7000-8000-000000000001",
        "referenced-columns": [{"column-name": "id", "ordinal": 1}],
        "referenced-constraint-name": "pk",
        "match-option": "full",
        "update-rule": "cascade",
        "delete-rule": "set-null",
        "properties": {"a": "b"},
    }
    put = records.send("PUT", "constraints", {"constraints": [key]}).json()
    assert (put["changed"], put["constraints"]) == (True, [key])
    again = records.send("POST", "constraints", {"constraints": [key]}, params={"mode": "append"})
    assert_error(again, 409, "AlreadyExistsException")
    assert records.send("POST", "constraints", {"constraints": [key]}).json()["changed"] is False
    for change in ({"columns": [{}]}, {"referenced-table": None, "referenced-table-id": None}):
        refused = records.send("PUT", "constraints", {"constraints": [key | change]})
        assert_error(refused, 400, "IllegalArgumentException")
    for change in ({"enforce": True}, {"columns": [{"column-id": 1, "colum-name": "id"}]}):
        unknown = records.send("PUT", "constraints", {"constraints": [key | change]})
        assert "unknown field" in assert_error(unknown, 400, BAD)
    assert_error(records.send("DELETE", "constraints", params={"name": "x"}), 404, "NotFoundException")
    assert records.send("DELETE", "constraints", params={"name": "fk"}).json()["constraints"] == []


def test_index_artifacts_are_put_and_found_by_their_file(table: Table, records: Records):
    target = {"kind": "file", "file-path": "s3://lake/1.parquet"}
    artifact = {"target": target, "artifact-uri": f"{table.metadata()['location']}/metadata/1.index"}
    assert records.send("POST", "index-artifacts", {"artifacts": [artifact]}).json() == {"upserted": 1}
    digest = hashlib.sha256(b"F\x1fs3://lake/1.parquet").hexdigest()
    assert records.get(f"index-artifacts/file-{digest}").json() == artifact
    assert_error(records.get("index-artifacts/table"), 404, "NotFoundException")
    unknown = records.send("POST", "index-artifacts", {"artifacts": [artifact | {"etag": "x"}]})
    assert "unknown field" in assert_error(unknown, 400, BAD)
    bad = artifact | {"coverage": {"rows-indexed": -1}}
    answer = records.send("POST", "index-artifacts", {"artifacts": [bad]})
    assert_error(answer, 400, "IllegalArgumentException")


def test_captures_are_asked_for_within_bounds(catalog: Catalog, records: Records):
    waiting = records.send("POST", "captures", {"wait-seconds": 0, "snapshot": 1}).json()["captures"]
    assert [each["snapshot-id"] for each in waiting] == [1]
    cancelled = catalog.http.post(management(catalog, f"/captures/{waiting[0]['id']}/cancel"), json={})
    assert cancelled.status_code in (200, 409)  # the service may have tried it
    for body, message in (
        ({"wait-seconds": 61}, "between 0 and 60 s"),
        ({"wait-seconds": -1}, "between 0 and 60 s"),
        ({"all-snapshots": True, "snapshot": "main"}, "no other field"),
        ({"snapshot": "nothing"}, "neither an id nor the name"),
    ):
        assert message in assert_error(records.send("POST", "captures", body), 400, BAD)
    missing = catalog.http.get(management(catalog, f"/captures/{uuid.uuid4()}"))
    assert assert_error(missing, 404, "NotFoundException").startswith("Capture does not exist")


def test_a_policy_is_inherited_from_the_catalog(catalog: Catalog, records: Records):
    route = management(catalog, "/capture-policy")
    before = catalog.http.get(route).json()
    try:
        body, key = {"expressions": [_DAY]}, {"Idempotency-Key": str(uuid.uuid4())}
        made = catalog.http.put(route, json=body, headers=key).json()
        assert (made["expressions"], made["set-by"]) == ([_DAY], {"expressions": "catalog"})
        assert catalog.http.put(route, json=body, headers=key).json() == made
        other = catalog.http.put(route, json={"publish": "never"}, headers=key)
        assert_error(other, 409, "ConflictException")
        assert records.get("capture-policy").json() == made
        own = records.send("PUT", "capture-policy", {"columns": ["id"]}).json()
        assert own["set-by"] == {"expressions": "catalog", "columns": "table"}
        assert records.send("DELETE", "capture-policy").json() == made
    finally:
        assert catalog.http.delete(route).json() == before
    for change, message in (
        ({"columns": ["nothing"]}, "cannot find column nothing"),
        ({"expressions": [_DAY]}, "cannot find column at"),
        ({"expressions": [_DAY | {"transform": "bucket"}]}, "unknown transform bucket"),
        ({"first-columns": -1}, "must not be negative"),
        ({"unknown": 1}, "unknown field"),
    ):
        assert message in assert_error(records.send("PUT", "capture-policy", change), 400, BAD)
    elsewhere = catalog.http.get("/management/v1/catalogs/nothing/capture-policy")
    assert_error(elsewhere, 404, "NoSuchWarehouseException")
