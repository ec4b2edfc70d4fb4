"""Connectors: rows, listings, and who scans next."""

from __future__ import annotations

from uuid import UUID

import msgspec
import pytest
import uuid_utils.compat as uuids

from floecat.store.catalogs import connectors
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.catalogs.connectors import ConnectorRow
from floecat.store.database.engine import Store
from floecat.store.database.errors import DuplicateKeyError, ForeignKeyError
from tests.behaviour.store.rows import NOW_MS, add_catalog, at_once


def connector_of(
    catalog_id: UUID, name: str, *, due_at_ms: int = NOW_MS, enabled: bool = True
) -> ConnectorRow:
    return ConnectorRow(
        id=uuids.uuid7(),
        catalog_id=catalog_id,
        name=name,
        kind="delta",
        location="s3://lake/delta",
        namespace=("raw", "x.y"),
        options={"namespaces": "flat", "größe": "1"},
        enabled=enabled,
        interval_ms=600_000,
        next_scan_at_ms=due_at_ms,
        created_at_ms=NOW_MS,
        updated_at_ms=NOW_MS,
    )


def add_connector(store: Store, catalog_id: UUID, name: str, **fields: object) -> ConnectorRow:
    row = connector_of(catalog_id, name, **fields)  # type: ignore[arg-type]
    with store.write() as conn:
        connectors.insert(conn, row)
    return row


def test_a_row_comes_back_as_it_went(store: Store, catalog: CatalogRow) -> None:
    row = add_connector(store, catalog.id, "lake")
    with store.read() as conn:
        assert connectors.get(conn, row.id) == row
        assert connectors.find(conn, catalog.id, "lake") == row
        assert connectors.find(conn, catalog.id, "Lake") is None
        assert connectors.get(conn, uuids.uuid7()) is None


def test_names_are_unique_in_a_catalog(store: Store, catalog: CatalogRow) -> None:
    add_connector(store, catalog.id, "lake")
    with pytest.raises(DuplicateKeyError) as error:
        add_connector(store, catalog.id, "lake")
    assert error.value.table == "connectors"
    add_connector(store, add_catalog(store, "other").id, "lake")
    with pytest.raises(ForeignKeyError):
        add_connector(store, uuids.uuid7(), "lake")


def test_listed_by_name(store: Store, catalog: CatalogRow) -> None:
    rows = [add_connector(store, catalog.id, name) for name in ("b", "a", "é", "B")]
    add_connector(store, add_catalog(store, "other").id, "c")
    wanted = sorted(rows, key=lambda row: row.name)
    with store.read() as conn:
        assert connectors.list_all(conn, catalog.id) == wanted
        assert connectors.list_all(conn, catalog.id, "a", 2) == wanted[2:4]


def test_update_and_delete(store: Store, catalog: CatalogRow) -> None:
    row = add_connector(store, catalog.id, "lake")
    changed = msgspec.structs.replace(
        row,
        location="s3://other",
        namespace=("n",),
        options={},
        enabled=False,
        interval_ms=1,
        next_scan_at_ms=2,
    )
    with store.write() as conn:
        assert connectors.update(conn, changed, NOW_MS + 9)
        assert not connectors.update(conn, msgspec.structs.replace(row, id=uuids.uuid7()), NOW_MS)
    with store.read() as conn:
        assert connectors.get(conn, row.id) == msgspec.structs.replace(changed, updated_at_ms=NOW_MS + 9)
    with store.write() as conn:
        assert connectors.delete(conn, row.id)
        assert not connectors.delete(conn, row.id)


def test_those_that_wait_longest_are_due_first(store: Store, catalog: CatalogRow) -> None:
    late, later, now = (
        add_connector(store, catalog.id, name, due_at_ms=NOW_MS - ago)
        for name, ago in (("late", 5), ("later", 9), ("now", 0))
    )
    add_connector(store, catalog.id, "off", due_at_ms=NOW_MS - 99, enabled=False)
    add_connector(store, catalog.id, "soon", due_at_ms=NOW_MS + 1)
    with store.read() as conn:
        assert connectors.due(conn, NOW_MS, 10) == [later, late, now]
        assert connectors.due(conn, NOW_MS, 2) == [later, late]
        assert connectors.count(conn, catalog.id) == 5
    # of each catalog one, then the next
    other = add_connector(store, add_catalog(store, "other").id, "lake", due_at_ms=NOW_MS)
    with store.read() as conn:
        assert connectors.due(conn, NOW_MS, 3) == [later, other, late]


def test_one_of_many_gets_a_scan(store: Store, catalog: CatalogRow) -> None:
    row = add_connector(store, catalog.id, "lake")

    def claim(number: int) -> bool:
        return store.run(lambda conn: connectors.claim(conn, row, NOW_MS + 1000 + number))

    assert sum(at_once(6, claim)) == 1
    with store.read() as conn:
        assert connectors.due(conn, NOW_MS, 10) == []


def test_the_end_of_a_scan_is_noted(store: Store, catalog: CatalogRow) -> None:
    row = add_connector(store, catalog.id, "lake")
    with store.write() as conn:
        assert connectors.finish_scan(conn, row.id, NOW_MS + 3, "no such bucket")
        assert not connectors.finish_scan(conn, uuids.uuid7(), NOW_MS, None)
    with store.read() as conn:
        noted = connectors.get(conn, row.id)
    assert noted == msgspec.structs.replace(row, last_scan_at_ms=NOW_MS + 3, last_error="no such bucket")
