"""`Idempotency-Key` on every mutation (case O06)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
import pytest
import uuid_utils

from tests.contract.answers import assert_error, etag_of
from tests.contract.client import Catalog, Namespace, Table, as_sent
from tests.contract.documents import ID_AND_DATA, sql, sql_version
from tests.contract.files import files_below
from tests.contract.updates import (
    add_view_version,
    append,
    assert_ref_snapshot_id,
    set_current_view_version,
    set_properties,
)


def key() -> dict[str, str]:
    """The header with a new key."""
    return {"idempotency-key": str(uuid_utils.uuid7())}


class Mutation(NamedTuple):
    """A request that would not succeed twice, or would have two effects."""

    method: str
    path: str
    body: Any
    state: Callable[[], Any]
    """What it may change once."""
    other: Any
    """Another body, for the same key."""


def _create_namespace(catalog: Catalog, namespace: Namespace) -> Mutation:
    name = [*namespace, "child"]
    body = {"namespace": name, "properties": {"a": "1"}}
    return Mutation(
        "POST", "/namespaces", body, lambda: catalog.children(namespace), body | {"properties": {}}
    )


def _drop_namespace(catalog: Catalog, namespace: Namespace) -> Mutation:
    name = catalog.create_namespace((*namespace, "child"))
    return Mutation("DELETE", catalog.namespace_path(name), None, lambda: catalog.children(namespace), None)


def _update_properties(catalog: Catalog, namespace: Namespace) -> Mutation:
    path = catalog.namespace_path(namespace)
    body = {"updates": {"a": "1"}, "removals": ["b"]}
    return Mutation(
        "POST", f"{path}/properties", body, lambda: catalog.get(path).json(), {"updates": {"a": "2"}}
    )


def _create_table(catalog: Catalog, namespace: Namespace) -> Mutation:
    path = catalog.tables_path(namespace)
    body = {"name": "t", "schema": ID_AND_DATA}
    return Mutation("POST", path, body, lambda: catalog.get(f"{path}/t").json(), body | {"name": "u"})


def _register_table(catalog: Catalog, namespace: Namespace) -> Mutation:
    path = catalog.namespace_path(namespace)
    location = catalog.create_table(namespace).get()["metadata-location"]
    body = {"name": "t", "metadata-location": location}
    return Mutation(
        "POST",
        f"{path}/register",
        body,
        lambda: catalog.get(f"{path}/tables/t").json(),
        body | {"overwrite": True},
    )


def _commit(catalog: Catalog, namespace: Namespace) -> Mutation:
    table = catalog.create_table(namespace)
    body = {"requirements": [assert_ref_snapshot_id("main", None)], "updates": append(1, 1)}
    return Mutation("POST", table.path, body, table.get, body | {"requirements": []})


def _drop_table(catalog: Catalog, namespace: Namespace) -> Mutation:
    table = catalog.create_table(namespace)
    return Mutation("DELETE", table.path, None, table.exists, None)


def _unregister(catalog: Catalog, namespace: Namespace) -> Mutation:
    table = catalog.create_table(namespace)
    return Mutation("POST", f"{table.path}/unregister", None, table.exists, None)


def _rename_table(catalog: Catalog, namespace: Namespace) -> Mutation:
    table = catalog.create_table(namespace)
    body = {"source": table.identifier, "destination": table.identifier | {"name": "new"}}
    other = body | {"destination": table.identifier | {"name": "newer"}}
    return Mutation(
        "POST", "/tables/rename", body, lambda: catalog.names(catalog.tables_path(namespace)), other
    )


def _transaction(catalog: Catalog, namespace: Namespace) -> Mutation:
    table = catalog.create_table(namespace)
    change = {
        "identifier": table.identifier,
        "requirements": [assert_ref_snapshot_id("main", None)],
        "updates": append(1, 1),
    }
    other = {"table-changes": [change | {"requirements": []}]}
    return Mutation("POST", "/transactions/commit", {"table-changes": [change]}, table.get, other)


def _create_view(catalog: Catalog, namespace: Namespace) -> Mutation:
    path = catalog.views_path(namespace)
    body = {"name": "v", "schema": ID_AND_DATA, "view-version": sql_version(), "properties": {}}
    return Mutation("POST", path, body, lambda: catalog.get(f"{path}/v").json(), body | {"name": "w"})


def _replace_view(catalog: Catalog, namespace: Namespace) -> Mutation:
    view = catalog.create_view(namespace)
    version = sql_version(sql("select 2"), version_id=2)
    updates = [add_view_version(version), set_current_view_version(), set_properties(a="1")]
    return Mutation("POST", view.path, {"updates": updates}, view.get, {"updates": updates[:2]})


def _drop_view(catalog: Catalog, namespace: Namespace) -> Mutation:
    view = catalog.create_view(namespace)
    return Mutation("DELETE", view.path, None, view.exists, None)


def _rename_view(catalog: Catalog, namespace: Namespace) -> Mutation:
    view = catalog.create_view(namespace)
    body = {"source": view.identifier, "destination": view.identifier | {"name": "new"}}
    other = body | {"destination": view.identifier | {"name": "newer"}}
    return Mutation(
        "POST", "/views/rename", body, lambda: catalog.names(catalog.views_path(namespace)), other
    )


def _register_view(catalog: Catalog, namespace: Namespace) -> Mutation:
    path = catalog.namespace_path(namespace)
    location = catalog.create_view(namespace).get()["metadata-location"]
    body = {"name": "v", "metadata-location": location}
    return Mutation(
        "POST",
        f"{path}/register-view",
        body,
        lambda: catalog.get(f"{path}/views/v").json(),
        body | {"name": "w"},
    )


MUTATIONS = [
    _create_namespace,
    _drop_namespace,
    _update_properties,
    _create_table,
    _register_table,
    _commit,
    _drop_table,
    _unregister,
    _rename_table,
    _transaction,
    _create_view,
    _replace_view,
    _drop_view,
    _rename_view,
    _register_view,
]


def names(make: Callable[..., Any]) -> str:
    return make.__name__.strip("_")


@pytest.fixture(params=MUTATIONS, ids=names)
def mutation(request: pytest.FixtureRequest, catalog: Catalog, namespace: Namespace) -> Mutation:
    made: Mutation = request.param(catalog, namespace)
    return made


def send(catalog: Catalog, mutation: Mutation, headers: dict[str, str], **change: Any) -> httpx.Response:
    sent = mutation._replace(**change)
    options = {} if sent.body is None else {"json": sent.body}
    return catalog.request(sent.method, sent.path, headers=headers, **options)


def what(answer: httpx.Response) -> tuple[int, bytes, str | None]:
    """What a replay must repeat."""
    return answer.status_code, answer.content, answer.headers.get("etag")


def test_replay_has_the_same_answer_and_no_second_effect(catalog: Catalog, mutation: Mutation):
    headers = key()
    first = send(catalog, mutation, headers)
    assert first.status_code in (200, 204), first.text
    state = mutation.state()
    for _ in range(2):
        assert what(send(catalog, mutation, headers)) == what(first)
    assert mutation.state() == state


def test_order_of_fields_and_white_space_are_no_other_request(catalog: Catalog, mutation: Mutation):
    if not isinstance(mutation.body, dict):
        mutation = mutation._replace(body=None)
    headers = key()
    first = send(catalog, mutation, headers)
    if mutation.body is None:
        again = send(catalog, mutation, headers)
    else:
        import json

        reordered = json.dumps(dict(reversed(mutation.body.items())), indent=3).encode()
        typed = headers | {"content-type": "application/json"}
        again = catalog.request(mutation.method, mutation.path, headers=typed, content=reordered)
    assert what(again) == what(first)


def test_other_payload_is_409_and_has_no_effect(catalog: Catalog, mutation: Mutation):
    if mutation.other is None:
        # Without a body another payload is another path.
        mutation = mutation._replace(other=None)
    headers = key()
    assert send(catalog, mutation, headers).status_code in (200, 204)
    state = mutation.state()
    change: dict[str, Any] = {"body": mutation.other} if mutation.other else {"path": f"{mutation.path}x"}
    if mutation.path.endswith("/unregister"):
        change = {"path": mutation.path.replace("/unregister", "x/unregister")}
    answer = send(catalog, mutation, headers, **change)
    assert_error(answer, 409, "ConflictException", "The idempotency key was already used for another request")
    assert mutation.state() == state


def test_another_key_is_another_request(catalog: Catalog, mutation: Mutation):
    assert send(catalog, mutation, key()).status_code in (200, 204)
    again = send(catalog, mutation, key())
    if mutation.path.endswith("/properties") or (mutation.body or {}).get("updates"):
        assert again.status_code in (200, 409)
    else:
        assert again.status_code in (404, 409)


def test_concurrent_duplicates_have_one_effect(catalog: Catalog, mutation: Mutation):
    headers = key()
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: send(catalog, mutation, headers), range(6)))
    assert {what(answer) for answer in answers} == {what(answers[0])}
    assert answers[0].status_code in (200, 204), answers[0].text


REFUSALS: dict[str, tuple[str, str, Any, int]] = {
    "missing namespace": ("DELETE", "/namespaces/{ns}%1Fnone", None, 404),
    "existing namespace": ("POST", "/namespaces", {"namespace": ["{ns}"]}, 409),
    "not empty": ("DELETE", "/namespaces/{ns}", None, 409),
    "missing table": ("POST", "/namespaces/{ns}/tables/none", {"requirements": [], "updates": []}, 404),
    "bad update": (
        "POST",
        "/namespaces/{ns}/tables/t",
        {"requirements": [], "updates": [{"action": "set-current-schema", "schema-id": 7}]},
        400,
    ),
    "set and removed": (
        "POST",
        "/namespaces/{ns}/properties",
        {"updates": {"a": "1"}, "removals": ["a"]},
        422,
    ),
    "requirement": (
        "POST",
        "/namespaces/{ns}/tables/t",
        {"requirements": [{"type": "assert-current-schema-id", "current-schema-id": 7}], "updates": []},
        409,
    ),
}


@pytest.mark.parametrize(("method", "path", "body", "status"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals_are_replayed(
    catalog: Catalog, namespace: Namespace, method: str, path: str, body: Any, status: int
):
    catalog.create_table(namespace, "t")
    if body is not None and "namespace" in body:
        body = {"namespace": list(namespace)}
    options = {} if body is None else {"json": body}
    headers = key()
    first = catalog.request(method, path.format(ns=namespace[0]), headers=headers, **options)
    assert first.status_code == status, first.text
    again = catalog.request(method, path.format(ns=namespace[0]), headers=headers, **options)
    assert what(again) == what(first)


def test_refusal_is_replayed_also_when_the_request_would_succeed_now(catalog: Catalog, namespace: Namespace):
    body = {"name": "t", "schema": ID_AND_DATA}
    path = catalog.tables_path(namespace)
    table = catalog.create_table(namespace, "t")
    headers = key()
    first = catalog.post(path, body, headers=headers)
    assert first.status_code == 409
    table.drop()
    assert what(catalog.post(path, body, headers=headers)) == what(first)
    assert catalog.names(path) == []


def test_replayed_commit_after_others_went_on(catalog: Catalog, namespace: Namespace):
    table = catalog.create_table(namespace)
    headers = key()
    body = {"requirements": [assert_ref_snapshot_id("main", None)], "updates": append(1, 1)}
    first = catalog.post(table.path, body, headers=headers)
    table.committed(append(2, 2, 1))
    again = catalog.post(table.path, body, headers=headers)
    # The specification allows a newer state in the answer, never a second effect or a conflict.
    assert again.status_code == 200
    assert again.json()["metadata"]["table-uuid"] == first.json()["metadata"]["table-uuid"]
    assert [each["snapshot-id"] for each in table.metadata()["snapshots"]] == [1, 2]


def test_replayed_commit_of_a_large_table(catalog: Catalog, namespace: Namespace):
    table = catalog.create_table(namespace, properties={f"p{number}": "x" * 1000 for number in range(200)})
    headers = key()
    body = {"requirements": [assert_ref_snapshot_id("main", None)], "updates": append(1, 1)}
    first = catalog.post(table.path, body, headers=headers)
    again = catalog.post(table.path, body, headers=headers)
    assert what(again) == what(first)
    assert etag_of(again) == etag_of(first)


def test_commit_without_a_key_is_409_the_second_time(table: Table):
    first = [assert_ref_snapshot_id("main", None)]
    assert table.commit(append(1, 1), first).status_code == 200
    assert table.commit(append(1, 1), first).status_code == 409


def test_replay_writes_one_metadata_file(local_table: Table):
    location = local_table.metadata()["location"]
    before = len(files_below(location))
    headers = key()
    for _ in range(3):
        assert local_table.commit(append(1, 1), headers=headers).status_code == 200
    assert len(files_below(location)) == before + 1


def test_dropped_and_created_again_the_old_key_drops_nothing(catalog: Catalog, namespace: Namespace):
    table = catalog.create_table(namespace, "t")
    headers = key()
    assert catalog.delete(table.path, headers=headers).status_code == 204
    again = catalog.create_table(namespace, "t")
    assert catalog.delete(table.path, headers=headers).status_code == 204
    assert again.exists()


def test_key_of_one_operation_is_not_the_answer_of_another(
    catalog: Catalog, namespace: Namespace, table: Table
):
    headers = key()
    assert catalog.delete(table.path, headers=headers).status_code == 204
    made = catalog.post("/namespaces", {"namespace": [*namespace, "x"]}, headers=headers)
    assert made.status_code in (200, 409)
    if made.status_code == 200:
        assert as_sent(made) == {"namespace": [*namespace, "x"], "properties": {}}


@pytest.mark.parametrize(
    "make",
    [
        lambda: str(uuid.uuid4()),
        lambda: str(uuid.uuid1()),
        lambda: str(uuid_utils.uuid7()).upper(),
        lambda: f"free-text.17-{uuid.uuid4().hex}",
    ],
    ids=["uuid4", "uuid1", "uuid7 in upper case", "text"],
)
def test_any_sane_key_is_taken(catalog: Catalog, namespace: Namespace, make: Callable[[], str]):
    path = catalog.tables_path(namespace)
    body = {"name": "t", "schema": ID_AND_DATA}
    headers = {"idempotency-key": make()}
    first = catalog.post(path, body, headers=headers)
    assert what(catalog.post(path, body, headers=headers)) == what(first)
    assert first.status_code == 200


@pytest.mark.parametrize("value", ["", "x" * 256, "a\tb", "caf\xe9\x80"])
def test_bad_key_is_400(catalog: Catalog, namespace: Namespace, value: str):
    path = catalog.tables_path(namespace)
    headers = [(b"idempotency-key", value.encode("latin-1"))]
    answer = catalog.post(path, {"name": "t", "schema": ID_AND_DATA}, headers=headers)
    assert_error(answer, 400, "BadRequestException")
    assert catalog.names(path) == []


def test_staging_with_a_key_gives_the_same_table(catalog: Catalog, namespace: Namespace):
    headers = key()
    body = {"name": "t", "schema": ID_AND_DATA, "stage-create": True}
    first = catalog.post(catalog.tables_path(namespace), body, headers=headers)
    again = catalog.post(catalog.tables_path(namespace), body, headers=headers)
    assert again.json() == first.json()


def test_reads_ignore_the_key(catalog: Catalog, table: Table):
    headers = key()
    before = catalog.get(table.path, headers=headers).json()
    table.committed([set_properties(a="1")])
    assert catalog.get(table.path, headers=headers).json() != before
