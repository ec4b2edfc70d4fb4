"""Many clients at once (case O05)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import httpx
import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace
from tests.contract.documents import ID_AND_DATA, order, snapshot, spec, sql_version
from tests.contract.files import files_below
from tests.contract.updates import (
    add_snapshot,
    assert_create,
    assert_ref_snapshot_id,
    creation,
    set_properties,
    set_ref,
)

CLIENTS = 50

TABLE = {"name": "same", "schema": ID_AND_DATA}
VIEW = {"name": "same", "schema": ID_AND_DATA, "view-version": sql_version(), "properties": {}}


def at_once(send: Callable[[int], httpx.Response], count: int = CLIENTS) -> list[httpx.Response]:
    """The answers to requests that start together."""
    barrier = Barrier(count)

    def run(number: int) -> httpx.Response:
        barrier.wait()
        return send(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


def winner(answers: list[httpx.Response]) -> httpx.Response:
    """The one that succeeded; all others must be conflicts."""
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: len(answers) - 1}
    for answer in answers:
        if answer.status_code == 409:
            assert_error(answer, 409, answer.json()["error"]["type"])
    return next(answer for answer in answers if answer.status_code == 200)


def test_creates_of_one_table(local_catalog: Catalog, local_namespace: Namespace):
    path = local_catalog.tables_path(local_namespace)
    answers = at_once(lambda _: local_catalog.post(path, TABLE))
    made = winner(answers).json()
    kinds = {answer.json()["error"]["type"] for answer in answers if answer.status_code == 409}
    assert kinds == {"AlreadyExistsException"}
    assert local_catalog.names(path) == ["same"]
    assert local_catalog.get(f"{path}/same").json() == made
    # Default locations lie side by side; those of the losers hold no file.
    parent = made["metadata"]["location"].rpartition("/")[0]
    assert [name.rpartition("/")[2] for name in files_below(parent)] == [
        made["metadata-location"].rpartition("/")[2]
    ]
    assert local_catalog.delete(f"{path}/same").status_code == 204
    assert local_catalog.post(path, TABLE).status_code == 200


def test_creates_of_one_table_at_one_location(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder
):
    location = f"{warehouse_folder.as_uri()}/{local_namespace[0]}-shared"
    path = local_catalog.tables_path(local_namespace)
    made = winner(at_once(lambda _: local_catalog.post(path, TABLE | {"location": location}))).json()
    assert files_below(location) == [f"metadata/{made['metadata-location'].rpartition('/')[2]}"]


def test_creates_of_one_view(local_catalog: Catalog, local_namespace: Namespace):
    path = local_catalog.views_path(local_namespace)
    made = winner(at_once(lambda _: local_catalog.post(path, VIEW))).json()
    assert local_catalog.names(path) == ["same"]
    assert local_catalog.get(f"{path}/same").json() == made
    parent = made["metadata"]["location"].rpartition("/")[0]
    assert len(files_below(parent)) == 1
    assert local_catalog.delete(f"{path}/same").status_code == 204
    assert local_catalog.post(path, VIEW).status_code == 200


def test_creates_of_a_table_and_a_view_of_one_name(catalog: Catalog, namespace: Namespace):
    tables, views = catalog.tables_path(namespace), catalog.views_path(namespace)
    answers = at_once(lambda n: catalog.post(tables, TABLE) if n % 2 else catalog.post(views, VIEW))
    made = winner(answers).json()["metadata"]
    assert catalog.names(tables) == (["same"] if "table-uuid" in made else [])
    assert catalog.names(views) == (["same"] if "view-uuid" in made else [])


def test_creates_of_one_namespace(catalog: Catalog, namespace: Namespace):
    name = [*namespace, "same"]
    answers = at_once(lambda n: catalog.post("/namespaces", {"namespace": name, "properties": {"n": str(n)}}))
    made = winner(answers).json()
    assert catalog.children(namespace) == [tuple(name)]
    assert catalog.get(catalog.namespace_path(name)).json() == made
    assert catalog.delete(catalog.namespace_path(name)).status_code == 204
    assert catalog.post("/namespaces", {"namespace": name}).status_code == 200


def test_creates_below_one_missing_parent_all_succeed(catalog: Catalog, namespace: Namespace):
    answers = at_once(
        lambda n: catalog.post("/namespaces", {"namespace": [*namespace, "parent", f"c{n}"]}), 20
    )
    assert [answer.status_code for answer in answers] == [200] * 20
    assert len(catalog.children((*namespace, "parent"))) == 20


def test_commits_that_create_one_table(catalog: Catalog, namespace: Namespace):
    body = {"requirements": [assert_create()], "updates": creation(ID_AND_DATA, spec(), order(order_id=0))}
    path = f"{catalog.tables_path(namespace)}/same"
    made = winner(at_once(lambda _: catalog.post(path, body), 20)).json()
    assert catalog.get(path).json()["metadata"] == made["metadata"]


def test_renames_to_one_name(catalog: Catalog, namespace: Namespace):
    tables = [catalog.create_table(namespace, f"t{number}") for number in range(10)]
    target = {"namespace": list(namespace), "name": "same"}

    def rename(number: int) -> httpx.Response:
        return catalog.post("/tables/rename", {"source": tables[number].identifier, "destination": target})

    statuses = Counter(answer.status_code for answer in at_once(rename, 10))
    assert statuses == {204: 1, 409: 9}
    assert len(catalog.names(catalog.tables_path(namespace))) == 10


def test_drops_of_one_table(catalog: Catalog, namespace: Namespace):
    table = catalog.create_table(namespace)
    statuses = Counter(answer.status_code for answer in at_once(lambda _: catalog.delete(table.path), 10))
    assert statuses == {204: 1, 404: 9}


def test_a_namespace_is_never_dropped_from_under_a_table(catalog: Catalog, namespace: Namespace):
    for number in range(10):
        name = catalog.create_namespace((*namespace, f"n{number}"))
        path = catalog.tables_path(name)
        create, drop = at_once(
            lambda n, path=path, name=name: (  # type: ignore[misc]
                catalog.post(path, TABLE) if n == 0 else catalog.delete(catalog.namespace_path(name))
            ),
            2,
        )
        assert (create.status_code, drop.status_code) in ((200, 409), (404, 204))
        assert catalog.head(f"{path}/same").status_code == (204 if create.status_code == 200 else 404)


def test_commits_whose_requirements_hold_never_conflict(catalog: Catalog, namespace: Namespace):
    table = catalog.create_table(namespace)
    uuid = {"type": "assert-table-uuid", "uuid": table.metadata()["table-uuid"]}
    answers = at_once(lambda n: table.commit([set_properties(**{f"p{n}": "1"})], [uuid]), 20)
    assert [answer.status_code for answer in answers] == [200] * 20
    made = table.metadata()
    assert {f"p{number}" for number in range(20)} <= set(made["properties"])
    assert len(made["metadata-log"]) == 20
    assert len({entry["metadata-file"] for entry in made["metadata-log"]}) == 20


def test_appends_that_retry_like_clients_lose_nothing(catalog: Catalog, namespace: Namespace):
    table = catalog.create_table(namespace)
    per_writer = 5

    def write(writer: int) -> httpx.Response:
        for number in range(per_writer):
            while True:
                metadata = table.metadata()
                parent = metadata.get("current-snapshot-id")
                parent = None if parent == -1 else parent
                made: dict[str, Any] = snapshot(
                    1000 * (writer + 1) + number, metadata["last-sequence-number"] + 1, parent
                )
                made["timestamp-ms"] = max(metadata["last-updated-ms"], made["timestamp-ms"])
                answer = table.commit(
                    [add_snapshot(made), set_ref(made["snapshot-id"])],
                    [assert_ref_snapshot_id("main", parent)],
                )
                if answer.status_code == 200:
                    break
                assert answer.status_code == 409, answer.text
        return answer

    at_once(write, 6)
    made = table.metadata()
    ids = {1000 * (writer + 1) + number for writer in range(6) for number in range(per_writer)}
    assert {each["snapshot-id"] for each in made["snapshots"]} == ids
    chain, at = [], made["current-snapshot-id"]
    parents = {each["snapshot-id"]: each.get("parent-snapshot-id") for each in made["snapshots"]}
    while at is not None:
        chain.append(at)
        at = parents[at]
    assert set(chain) == ids
    assert [entry["snapshot-id"] for entry in made["snapshot-log"]] == chain[::-1]
    assert made["last-sequence-number"] == len(ids)


@pytest.mark.parametrize("count", [30])
def test_reads_during_commits_are_whole(catalog: Catalog, namespace: Namespace, count: int):
    table = catalog.create_table(namespace)

    def work(number: int) -> httpx.Response:
        if number % 3:
            return catalog.get(table.path)
        return table.commit([set_properties(a=str(number), b=str(number))])

    for answer in at_once(work, count):
        assert answer.status_code == 200
        properties = answer.json()["metadata"]["properties"]
        assert properties.get("a") == properties.get("b")
