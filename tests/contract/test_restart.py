"""What a service remembers over a stop, and over a crash."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx
import uuid_utils

from tests.contract.client import Catalog, Namespace
from tests.contract.documents import ID_AND_DATA, order, spec
from tests.contract.updates import append, assert_create, assert_ref_snapshot_id, creation, set_properties
from tests.services.catalog import CatalogServer

Start = Callable[..., CatalogServer]
Connect = Callable[[CatalogServer], Catalog]


class Answers(NamedTuple):
    """What a service answered before it ended."""

    catalog: Catalog
    namespace: Namespace
    entries: list[Any]
    keys: list[dict[str, str]]
    committed: httpx.Response
    refused: httpx.Response
    transaction: dict[str, str]
    staged: dict[str, Any]

    def state(self) -> list[Any]:
        properties = self.catalog.get(self.catalog.namespace_path(self.namespace)).json()
        return [*[entry.get() for entry in self.entries], properties]

    def replayed(self, which: int) -> tuple[int, Any]:
        answer = self.entries[0].commit(*_append(which), headers=self.keys[which])
        return answer.status_code, answer.json()


def _append(which: int) -> tuple[list[Any], list[Any]]:
    """The first of two appends that both require that there is no snapshot, or the second."""
    return append(which + 1, which + 1), [assert_ref_snapshot_id("main", None)]


def _work(catalog: Catalog, name: str) -> Answers:
    namespace = catalog.create_namespace((name, "b"), {"k": "v"})
    table, view = catalog.create_table(namespace, "t"), catalog.create_view(namespace, "v")
    keys = [{"idempotency-key": str(uuid_utils.uuid7())} for _ in range(2)]
    committed, refused = (table.commit(*_append(which), headers=keys[which]) for which in range(2))
    assert (committed.status_code, refused.status_code) == (200, 409)
    staged = {"name": "s", "schema": ID_AND_DATA, "stage-create": True}
    transaction = {"iceberg-transaction-id": str(uuid_utils.uuid7())}
    metadata = catalog.post(catalog.tables_path(namespace), staged, headers=transaction).json()["metadata"]
    return Answers(catalog, namespace, [table, view], keys, committed, refused, transaction, metadata)


def _assert_remembered(answers: Answers, before: list[Any]) -> None:
    assert answers.state() == before
    assert answers.replayed(0) == (200, answers.committed.json())
    assert answers.replayed(1) == (409, answers.refused.json())
    completion = {"requirements": [assert_create()], "updates": [set_properties(a="1")]}
    path = f"{answers.catalog.tables_path(answers.namespace)}/s"
    made = answers.catalog.post(path, completion, headers=answers.transaction)
    assert made.status_code == 200, made.text
    assert made.json()["metadata"]["table-uuid"] == answers.staged["table-uuid"]


def test_everything_that_was_answered_is_there_after_a_stop_and_after_a_crash(
    start_catalog: Start, connect: Connect
):
    server = start_catalog()
    catalog = connect(server)
    for end, code in (("stop", 0), ("kill", -signal.SIGKILL)):
        answers = _work(catalog, end)
        before = answers.state()
        assert getattr(server, end)() == code
        server.start()
        _assert_remembered(answers, before)


def test_two_services_on_one_store_see_each_other(start_catalog: Start, connect: Connect):
    one = start_catalog()
    two = start_catalog(data_dir=one.data_dir)
    left, right = (connect(server) for server in (one, two))
    namespace = left.create_namespace(("shared",))
    made = right.create_table(namespace, "t")
    here = left.get(made.path).json()
    assert here == made.get()
    made.committed([set_properties(a="1")])
    assert left.get(made.path).json()["metadata"]["properties"]["a"] == "1"
    body = {"requirements": [assert_create()], "updates": creation(ID_AND_DATA, spec(), order(order_id=0))}
    key = {"idempotency-key": str(uuid_utils.uuid7())}
    first = left.post(f"{left.tables_path(namespace)}/u", body, headers=key)
    again = right.post(f"{right.tables_path(namespace)}/u", body, headers=key)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()


def test_several_workers_answer_alike(start_catalog: Start, connect: Connect):
    server = start_catalog(FLOECAT_GATEWAY_WORKERS="2")
    namespace: tuple[str, ...] = ("w",)
    catalogs = [connect(server) for _ in range(6)]
    table = catalogs[0].create_namespace(namespace) and catalogs[0].create_table(namespace, "t")
    for number, catalog in enumerate(catalogs):
        assert catalog.get(table.path).json() == table.get()
        body = {"requirements": [], "updates": [set_properties(n=str(number))]}
        assert catalog.post(table.path, body).status_code == 200
        assert all(each.get(table.path).json() == table.get() for each in catalogs)
    assert "floecat_http_requests_total" in catalogs[0].http.get("/metrics").text
