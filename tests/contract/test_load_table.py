"""`loadTable` and `tableExists` (case O01)."""

from __future__ import annotations

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table
from tests.contract.documents import snapshot
from tests.contract.updates import add_snapshot, append, set_ref


@pytest.fixture
def history(table: Table) -> Table:
    """Snapshots 1 to 4: 3 is the head of main, 2 is tagged, 4 is on a branch, 1 is history only."""
    table.committed(append(1, 1))
    table.committed(append(2, 2, 1))
    table.committed([set_ref(2, "v2", "tag")])
    table.committed(append(3, 3, 2))
    table.committed([add_snapshot(snapshot(4, 4, 2)), set_ref(4, "audit")])
    return table


def _ids(metadata: dict) -> list[int]:
    return [each["snapshot-id"] for each in metadata["snapshots"]]


def test_snapshots_all_is_the_default(history: Table):
    assert _ids(history.metadata()) == [1, 2, 3, 4]
    assert history.get(snapshots="all") == history.get()


def test_snapshots_refs_keeps_what_a_ref_points_at_directly(history: Table):
    every, refs = history.get(), history.get(snapshots="refs")
    assert _ids(refs["metadata"]) == [2, 3, 4]
    assert refs["metadata"].pop("snapshots") == every["metadata"].pop("snapshots")[1:]
    assert refs == every
    assert [entry["snapshot-id"] for entry in refs["metadata"]["snapshot-log"]] == [1, 2, 3]


def test_snapshots_refs_of_a_table_without_snapshots(table: Table):
    assert table.get(snapshots="refs") == table.get()


@pytest.mark.parametrize("mode", ["some", "ALL", "Refs", "", "all,refs", "1"])
def test_other_values_of_snapshots_are_400(catalog: Catalog, table: Table, mode: str):
    assert_error(catalog.get(table.path, params={"snapshots": mode}), 400, "BadRequestException")


def test_other_value_of_snapshots_is_400_also_for_a_missing_table(catalog: Catalog, namespace: Namespace):
    answer = catalog.get(f"{catalog.tables_path(namespace)}/missing", params={"snapshots": "some"})
    assert_error(answer, 400, "BadRequestException")


def test_referenced_by_is_accepted(catalog: Catalog, table: Table):
    answer = catalog.get(table.path, params={"referenced-by": "a%1Fb%1Fview,c%1Fother"})
    assert answer.json() == table.get()


def test_missing_table_is_404(catalog: Catalog, namespace: Namespace):
    answer = catalog.get(f"{catalog.tables_path(namespace)}/missing")
    assert_error(answer, 404, "NoSuchTableException", f"Table does not exist: {namespace[0]}.missing")


def test_missing_namespace_is_a_missing_table(catalog: Catalog, namespace: Namespace):
    # Engines ask for ns.table.files as a table first; the type decides whether they go on.
    table = catalog.create_table(namespace, "tbl")
    answer = catalog.get(f"{catalog.tables_path((*namespace, 'tbl'))}/files")
    assert_error(answer, 404, "NoSuchTableException", f"Table does not exist: {table.text}.files")


def test_view_is_no_table(catalog: Catalog, namespace: Namespace):
    view = catalog.create_view(namespace)
    answer = catalog.get(f"{catalog.tables_path(namespace)}/{view.name}")
    assert_error(answer, 404, "NoSuchTableException", f"Table does not exist: {view.text}")
    assert catalog.head(f"{catalog.tables_path(namespace)}/{view.name}").status_code == 404


def test_head_is_204_or_404_without_a_body(catalog: Catalog, namespace: Namespace, table: Table):
    there = catalog.head(table.path)
    assert (there.status_code, there.content) == (204, b"")
    for path in (catalog.tables_path(namespace), catalog.tables_path((*namespace, "missing"))):
        gone = catalog.head(f"{path}/missing")
        assert (gone.status_code, gone.content) == (404, b"")


@pytest.mark.parametrize(
    "delegation", ["vended-credentials", "remote-signing", "vended-credentials,remote-signing"]
)
def test_no_storage_credentials_without_a_credential(catalog: Catalog, table: Table, delegation: str):
    # Case O24: an entry that holds an endpoint only makes clients send unsigned requests.
    headers = {"x-iceberg-access-delegation": delegation}
    body = catalog.get(table.path, headers=headers).json()
    assert body.get("storage-credentials", []) == []
    assert not [key for key in body["config"] if "secret" in key or "token" in key or "access-key" in key]


def test_unknown_fields_of_a_snapshot_are_kept(table: Table):
    sent = snapshot(1, 1) | {"key-id": "k1", "x-future": {"a": [1, 2.5, None]}}
    table.committed([add_snapshot(sent), set_ref(1)])
    assert table.metadata()["snapshots"] == [sent]
    assert table.metadata(snapshots="refs")["snapshots"] == [sent]


def test_ids_and_times_are_64_bit_integers(table: Table):
    big = 9_223_372_036_854_775_807
    table.committed([add_snapshot(snapshot(big, 1)), set_ref(big)])
    text = table.catalog.get(table.path).text
    assert f'"snapshot-id":{big}' in text.replace(" ", "")
    assert table.metadata()["current-snapshot-id"] == big
