from __future__ import annotations

import gzip
import json

import pytest

from tests.unit.rest.conftest import SCHEMA


def set_property(value, **more):
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": {"p": value}}], **more}


def test_create_commit_and_load_agree_on_the_tag(client, namespace):
    tables = f"/v1/namespaces/{namespace}/tables"
    created = client.post(tables, json={"name": "t", "schema": SCHEMA})
    loaded = client.get(f"{tables}/t")
    committed = client.post(f"{tables}/t", json=set_property("1"))
    assert created.headers["etag"] == loaded.headers["etag"] != committed.headers["etag"]
    assert committed.headers["etag"] == client.get(f"{tables}/t").headers["etag"]
    assert set(loaded.json()) == {"metadata-location", "metadata", "config"}
    assert set(committed.json()) == {"metadata-location", "metadata"}


@pytest.mark.parametrize("form", ["{0}", "{1}", '"other", {0}', "*", '"other",{1}'])
def test_304_when_the_copy_of_the_client_is_current(client, table, form):
    tag = client.get(table).headers["etag"]
    answer = client.get(table, headers={"if-none-match": form.format(tag, tag.removeprefix("W/"))})
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["etag"] == tag
    assert "content-length" not in answer.headers


def test_tags_in_several_headers_are_one_list(client, table):
    tag = client.get(table).headers["etag"]
    headers = [("if-none-match", '"other"'), ("if-none-match", tag)]
    assert client.get(table, headers=headers).status_code == 304


def test_200_when_it_is_not(client, table):
    tag = client.get(f"{table}?snapshots=refs").headers["etag"]
    assert client.get(table, headers={"if-none-match": tag}).status_code == 200
    assert client.get(f"{table}?snapshots=refs", headers={"if-none-match": tag}).status_code == 304
    assert client.get(f"{table}x", headers={"if-none-match": "*"}).status_code == 404


@pytest.mark.parametrize("snapshots", ["some", "ALL", "", "x" * 1000])
def test_other_snapshots_modes_are_400(client, table, snapshots):
    answer = client.get(table, params={"snapshots": snapshots})
    assert answer.status_code == 400
    assert len(answer.content) < 500


def test_a_large_table_is_the_same_compressed_or_not(client, table):
    client.post(table, json=set_property("x" * 200_000))

    def load(encoding):
        with client.stream("GET", table, headers={"accept-encoding": encoding}) as answer:
            body = b"".join(answer.iter_raw())
            assert answer.headers["content-length"] == str(len(body))
            return answer.headers.get("content-encoding"), body

    plain, packed = load("identity"), load("gzip")
    assert (plain[0], packed[0]) == (None, "gzip")
    assert len(packed[1]) < len(plain[1]) / 10
    assert gzip.decompress(packed[1]) == plain[1]


def test_a_staged_table_is_published_by_its_commit(client, namespace):
    tables = f"/v1/namespaces/{namespace}/tables"
    headers = {"Iceberg-Transaction-Id": "tx-1"}
    staged = client.post(tables, json={"name": "t", "schema": SCHEMA, "stage-create": True}, headers=headers)
    assert staged.status_code == 200
    assert staged.json()["metadata-location"] is None
    assert "etag" not in staged.headers
    assert client.head(f"{tables}/t").status_code == 404
    commit = {"requirements": [{"type": "assert-create"}], "updates": []}
    published = client.post(f"{tables}/t", json=commit, headers=headers)
    assert published.status_code == 200
    assert published.json()["metadata"]["table-uuid"] == staged.json()["metadata"]["table-uuid"]


@pytest.mark.parametrize(
    "body",
    [
        {"requirements": [{"type": "assert-nothing"}], "updates": []},
        {"requirements": [], "updates": [{"action": "explode"}]},
        {"requirements": [], "updates": [{}]},
        {"requirements": {}, "updates": []},
        {"requirements": [{"type": "assert-table-uuid", "uuid": None}], "updates": []},
    ],
)
def test_commits_that_cannot_be_understood_are_400(client, table, body):
    answer = client.post(table, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "BadRequestException"


def test_a_replayed_commit_is_applied_once(client, table):
    headers = {"Idempotency-Key": "0198c7a0-0000-7000-8000-0000000000a1"}
    first = client.post(table, content=b'{"updates":[], "requirements":[]}', headers=headers)
    again = client.post(table, content=b'{"requirements":[],"updates":[]}', headers=headers)
    other = client.post(table, json=set_property("other"), headers=headers)
    assert first.status_code == again.status_code == 200
    assert first.json() == again.json()
    assert other.status_code == 409
    assert other.json()["error"]["type"] == "ConflictException"


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb"])
def test_a_malformed_idempotency_key_is_400(client, table, key):
    answer = client.post(table, json=set_property("x"), headers={"Idempotency-Key": key})
    assert answer.status_code == 400
    assert "Idempotency-Key" in answer.json()["error"]["message"]


def test_the_identifier_in_a_commit_does_not_count(client, table):
    body = set_property("1", identifier={"namespace": ["catalog", "other"], "name": "other"})
    assert client.post(table, json=body).status_code == 200


def test_rename_unregister_register_and_drop(client, table, namespace):
    renamed = {
        "source": {"namespace": [namespace], "name": "t"},
        "destination": {"namespace": [namespace], "name": "u"},
    }
    answer = client.post("/v1/tables/rename", json=renamed)
    assert (answer.status_code, answer.content) == (204, b"")
    path = f"/v1/namespaces/{namespace}/tables/u"
    forgotten = client.post(f"{path}/unregister")
    assert set(forgotten.json()) == {"metadata-location", "metadata"}
    assert client.head(path).status_code == 404
    body = {"name": "u", "metadata-location": forgotten.json()["metadata-location"]}
    register = f"/v1/namespaces/{namespace}/register"
    assert client.post(register, json=body).json()["metadata"] == forgotten.json()["metadata"]
    assert client.post(register, json=body).status_code == 409
    assert client.post(register, json=body | {"overwrite": True}).status_code == 200
    dropped = client.delete(path, params={"purgeRequested": "true"})
    assert (dropped.status_code, dropped.content) == (204, b"")
    assert client.delete(path).status_code == 404


def test_pages_start_when_they_are_asked_for(client, namespace):
    tables = f"/v1/namespaces/{namespace}/tables"
    for number in range(5):
        client.post(tables, json={"name": f"t{number}", "schema": SCHEMA})

    def names(**parameters):
        answer = client.get(tables, params=parameters).json()
        return [identifier["name"] for identifier in answer["identifiers"]], answer["next-page-token"]

    everything = [f"t{number}" for number in range(5)]
    assert names() == (everything, None)
    assert names(pageSize=2) == (everything, None)
    first, token = names(pageToken="", pageSize=2)
    second, token = names(pageToken=token, pageSize=2)
    third, token = names(pageToken=token, pageSize=2)
    assert (first + second + third, token) == (everything, None)


def test_no_credentials_are_sent_without_credentials(client, table):
    answer = client.get(table, headers={"X-Iceberg-Access-Delegation": "vended-credentials"})
    assert answer.status_code == 200
    assert "storage-credentials" not in answer.json()


def test_metrics_are_taken(client, table):
    report = {
        "report-type": "commit-report",
        "table-name": "t",
        "snapshot-id": -1,
        "sequence-number": 1,
        "operation": "append",
        "metrics": {},
    }
    answer = client.post(f"{table}/metrics", json=report)
    assert (answer.status_code, answer.content) == (204, b"")
    assert client.post(f"{table}x/metrics", json=report).status_code == 404


def test_a_metrics_report_has_a_largest_size(client, table):
    report = {
        "report-type": "commit-report",
        "table-name": "t",
        "snapshot-id": -1,
        "sequence-number": 1,
        "operation": "append",
        "metrics": {},
        "metadata": {"padding": ""},
    }
    padding = (1 << 20) - len(json.dumps(report))
    for size, status in ((padding, 204), (padding + 1, 413)):
        body = json.dumps(report | {"metadata": {"padding": "x" * size}})
        answer = client.post(f"{table}/metrics", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == status
    assert "floecat.limits.metrics-report-bytes" in answer.json()["error"]["message"]


def _set_type(client, table, value):
    update = {"action": "set-properties", "updates": {"table_type": value}}
    assert client.post(table, json={"requirements": [], "updates": [update]}).status_code == 200


def test_tables_of_a_type_are_listed_by_themselves(client, namespace):
    tables = f"/v1/namespaces/{namespace}/tables"
    for name, value in {"a": "lance", "b": "iceberg", "c": "LANCE", "d": None}.items():
        properties = {} if value is None else {"table_type": value}
        client.post(tables, json={"name": name, "schema": SCHEMA, "properties": properties})

    def listed(**params):
        answer = client.get(tables, params=params)
        assert answer.status_code == 200
        body = answer.json()
        assert body.get("table-type") == params.get("tableType")
        return [each["name"] for each in body["identifiers"]], body["next-page-token"]

    assert listed(tableType="lance") == (["a", "c"], None)
    assert listed(tableType="Lance") == (["a", "c"], None)
    assert listed(tableType="delta") == ([], None)
    assert listed() == (list("abcd"), None)
    assert "table-type" not in client.get(tables).json()

    names, token = listed(tableType="lance", pageToken="", pageSize=1)
    assert names == ["a"]
    assert listed(tableType="lance", pageToken=token, pageSize=1) == (["c"], None)
    assert client.get(tables, params={"pageToken": token, "pageSize": 1}).status_code == 400

    _set_type(client, f"{tables}/d", "lance")
    _set_type(client, f"{tables}/a", "other")
    rename = {"source": {"namespace": [namespace], "name": "c"}}
    rename["destination"] = {"namespace": [namespace], "name": "x"}
    assert client.post("/v1/tables/rename", json=rename).status_code == 204
    assert listed(tableType="lance") == (["d", "x"], None)


@pytest.mark.parametrize("value", ["", "x" * 65, "\0", "ü"])
def test_types_that_no_table_has_are_400(client, namespace, value):
    answer = client.get(f"/v1/namespaces/{namespace}/tables", params={"tableType": value})
    assert answer.status_code == 400
    assert "tableType" in answer.json()["error"]["message"]
