"""Documents of earlier versions: an upgrade brings them into form, and tells of those that it cannot."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import sqlalchemy as sa

from floecat.store import document_forms, snapshots, tables
from floecat.store.database.engine import Store
from floecat.store.document_forms import normalize_documents
from floecat.store.documents import decompress
from floecat.store.namespaces import NamespaceRow
from floecat.store.schema import DOCUMENT_FORM
from tests.behaviour.store.rows import add_entry, refs_of, swap
from tests.unit.iceberg.table_documents import document, encode

ODD = encode(document(1, **{"table-uuid": ..., "refs": {}, "last-column-id": 1, "properties": None}))
USUAL = encode(document())
BROKEN = encode(document(snapshots=[{"snapshot-id": 13, "timestamp-ms": 1, "manifests": ["s3://lake/m"]}]))


def _age(store: Store) -> None:
    with store._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE entries SET document_form = 0")


def _forms(store: Store) -> dict[str, int]:
    with store._engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT name, document_form FROM entries"))
        return {row[0]: row[1] for row in rows}


def _document(store: Store, row: tables.EntryRow) -> dict[str, Any]:
    with store.read() as conn:
        return json.loads(decompress(tables.document(conn, row.id) or b""))


def _version(store: Store, row: tables.EntryRow) -> int:
    with store.read() as conn:
        found = tables.get(conn, row.id)
    assert found is not None
    return found.version


def test_odd_document_is_normalised_and_other_processes_see_it(store: Store, namespace: NamespaceRow) -> None:
    odd, usual = (
        add_entry(store, namespace, name, document=data) for name, data in [("o", ODD), ("u", USUAL)]
    )
    _age(store)
    normalize_documents(store)
    made = _document(store, odd)
    assert made["refs"] == {"main": {"snapshot-id": 13, "type": "branch"}}
    assert made["last-column-id"] == 3
    assert "properties" not in made
    assert _document(store, usual) == document()
    assert [_version(store, row) for row in (odd, usual)] == [1, 0]
    assert _forms(store) == {"o": DOCUMENT_FORM, "u": DOCUMENT_FORM}
    with store.read() as conn:
        found = tables.get(conn, odd.id)
        assert found is not None
        assert found.metadata_location == odd.metadata_location
        assert found.updated_at_ms == odd.updated_at_ms
        assert found.object_uuid == made["table-uuid"]
        assert [(ref.name, ref.snapshot_id) for ref in refs_of(conn, odd.id)] == [("main", 13)]
        assert {row.operation for row in snapshots.list_all(conn, odd.id)} == {"append"}


def test_what_no_reader_reads_is_told_and_left(
    store: Store, namespace: NamespaceRow, caplog: pytest.LogCaptureFixture
) -> None:
    broken = add_entry(store, namespace, "broken", document=BROKEN)
    odd = add_entry(store, namespace, "odd", document=ODD)
    _age(store)
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            normalize_documents(store)
        [line] = [record.getMessage() for record in caplog.records]
        assert line.startswith("table sales.broken is left as it is")
        assert "snapshot 13 names its manifests itself" in line
    assert _document(store, broken) == json.loads(BROKEN)
    assert _forms(store) == {"broken": 0, "odd": DOCUMENT_FORM}
    assert [_version(store, row) for row in (broken, odd)] == [0, 1]


def test_views_and_delta_tables_keep_their_documents(store: Store, namespace: NamespaceRow) -> None:
    view = add_entry(store, namespace, "v", kind="view")
    delta = add_entry(store, namespace, "d", document=ODD)
    with store._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE entries SET format = 'delta' WHERE name = 'd'")
    _age(store)
    normalize_documents(store)
    assert _document(store, delta) == json.loads(ODD)
    assert [_version(store, row) for row in (view, delta)] == [0, 0]


def test_commit_meanwhile_wins(
    store: Store, namespace: NamespaceRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = add_entry(store, namespace, "t", document=ODD)
    _age(store)
    other = ODD.replace(b'"last-column-id":1', b'"last-column-id":2')

    def commit_first(data: bytes) -> bytes:
        if data == ODD:
            store.run(lambda conn: swap(conn, row, 0, "s3://lake/t/1", other))
        return normalize(data)

    normalize = document_forms.NORMALIZERS["table"]
    monkeypatch.setattr(document_forms, "NORMALIZERS", {"table": commit_first})
    normalize_documents(store)
    assert _document(store, row) == json.loads(other)
    assert _forms(store) == {"t": 0}
    normalize_documents(store)
    assert _document(store, row)["last-column-id"] == 3
    assert _forms(store) == {"t": DOCUMENT_FORM}


def test_more_than_a_batch(store: Store, namespace: NamespaceRow) -> None:
    for number in range(103):
        add_entry(store, namespace, f"t{number}", document=ODD if number % 50 == 0 else USUAL)
    _age(store)
    normalize_documents(store)
    assert set(_forms(store).values()) == {DOCUMENT_FORM}


def test_nothing_to_do_is_one_statement(store: Store, namespace: NamespaceRow) -> None:
    add_entry(store, namespace, "t", document=ODD)
    with store.count_statements() as counter:
        normalize_documents(store)
    assert counter.statements == 1


def test_odd_view_is_normalised_too(store: Store, namespace: NamespaceRow) -> None:
    version = {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "representations": [{"type": "SQL", "sql": "SELECT 1", "dialect": "trino"}],
        "default-namespace": ["a"],
    }
    view = {
        "view-uuid": "6f1c2b4a-8d5e-4f6a-9b7c-0d1e2f3a4b5c",
        "format-version": 1,
        "location": "s3://lake/v",
        "current-version-id": 1,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "versions": [version],
        "version-log": [{"timestamp-ms": 1, "version-id": 1}],
    }
    row = add_entry(store, namespace, "v", "view", json.dumps(view).encode())
    _age(store)
    normalize_documents(store)
    (made,) = _document(store, row)["versions"]
    assert made["representations"][0]["type"] == "sql"
    assert "summary" in made
    assert (_forms(store), _version(store, row)) == ({"v": DOCUMENT_FORM}, 1)


def test_types_of_tables_of_earlier_versions_are_found(store: Store, namespace: NamespaceRow) -> None:
    lance = {"properties": {"table_type": "LANCE"}}
    odd = {"table-uuid": ..., "refs": {}, "last-column-id": 1}
    add_entry(store, namespace, "odd", document=encode(document(1, **odd, **lance)))
    add_entry(store, namespace, "usual", document=encode(document(**lance)))
    add_entry(store, namespace, "iceberg", document=USUAL)
    _age(store)
    normalize_documents(store)
    with store.read() as conn:
        assert tables.list_names(
            conn, namespace.catalog_id, namespace.levels, "table", None, None, "lance"
        ) == ["odd", "usual"]
