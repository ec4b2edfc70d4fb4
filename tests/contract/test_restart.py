"""What a service remembers over a stop, and over a crash."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import uuid_utils

from tests.contract.client import Catalog
from tests.contract.documents import ID_AND_DATA, order, spec
from tests.contract.updates import append, assert_create, assert_ref_snapshot_id, creation, set_properties
from tests.services.catalog import CatalogServer

Start = Callable[..., CatalogServer]
Connect = Callable[[CatalogServer], Catalog]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_everything_that_was_answered_is_there_after_a_restart(
    start_catalog: Start, connect: Connect, end: str
):
    server = start_catalog()
    catalog = connect(server)
    namespace = catalog.create_namespace(("a", "b"), {"k": "v"})
    table, view = catalog.create_table(namespace, "t"), catalog.create_view(namespace, "v")
    keys = [{"idempotency-key": str(uuid_utils.uuid7())} for _ in range(2)]
    first = [assert_ref_snapshot_id("main", None)]
    committed = table.commit(append(1, 1), first, headers=keys[0])
    assert committed.status_code == 200
    refused = table.commit(append(2, 2), first, headers=keys[1])
    assert refused.status_code == 409
    staged = {"name": "s", "schema": ID_AND_DATA, "stage-create": True}
    transaction = {"iceberg-transaction-id": str(uuid_utils.uuid7())}
    metadata = catalog.post(catalog.tables_path(namespace), staged, headers=transaction).json()["metadata"]
    before = [table.get(), view.get(), catalog.get(catalog.namespace_path(namespace)).json()]

    getattr(server, end)()
    server.start()

    assert [table.get(), view.get(), catalog.get(catalog.namespace_path(namespace)).json()] == before
    replayed = table.commit(append(1, 1), first, headers=keys[0])
    assert (replayed.status_code, replayed.json()) == (200, committed.json())
    replayed = table.commit(append(2, 2), first, headers=keys[1])
    assert (replayed.status_code, replayed.json()) == (409, refused.json())
    completion = {"requirements": [assert_create()], "updates": [set_properties(a="1")]}
    made = catalog.post(f"{catalog.tables_path(namespace)}/s", completion, headers=transaction)
    assert made.status_code == 200, made.text
    assert made.json()["metadata"]["table-uuid"] == metadata["table-uuid"]


def test_service_stops_with_exit_code_0_and_leaves_no_lock(start_catalog: Start, connect: Connect):
    server = start_catalog()
    assert server.stop() == 0
    server.start()
    assert connect(server).config["defaults"]["prefix"] == server.warehouse


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
