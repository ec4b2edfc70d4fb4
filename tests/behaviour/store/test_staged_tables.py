"""Staged tables."""

from __future__ import annotations

import msgspec
import pytest
import uuid_utils.compat as uuids

from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.database.engine import Store
from floecat.store.database.errors import ForeignKeyError
from floecat.store.entries import staged_tables
from floecat.store.entries.staged_tables import StagedTableRow
from tests.behaviour.store.rows import NOW_MS, at_once


@pytest.fixture
def row(catalog: CatalogRow) -> StagedTableRow:
    return StagedTableRow(
        uuids.uuid7(), catalog.id, "a.b", "t", "stage", "anna", b"\x00\xff", NOW_MS, NOW_MS + 100
    )


def test_the_first_one_stays(store: Store, row: StagedTableRow) -> None:
    again = msgspec.structs.replace(row, id=uuids.uuid7(), body=b"other")
    with store.write() as conn:
        assert staged_tables.insert(conn, row, NOW_MS) == row
        assert staged_tables.insert(conn, again, NOW_MS) == row
        assert staged_tables.find(conn, row.catalog_id, "a.b", "t", NOW_MS + 99) == [row]
        assert staged_tables.find(conn, row.catalog_id, "a.b", "t", NOW_MS + 100) == []
        replaced = staged_tables.insert(conn, again, NOW_MS + 100)  # the first one expired
        assert replaced == again


def test_one_of_many_is_kept(store: Store, row: StagedTableRow) -> None:
    def insert(_: int) -> StagedTableRow:
        mine = msgspec.structs.replace(row, id=uuids.uuid7())
        return store.run(lambda conn: staged_tables.insert(conn, mine, NOW_MS))

    assert len({kept.id for kept in at_once(8, insert)}) == 1


def test_several_under_one_name(store: Store, row: StagedTableRow) -> None:
    other = msgspec.structs.replace(row, id=uuids.uuid7(), stage_id="other", expires_at_ms=NOW_MS + 1)
    elsewhere = msgspec.structs.replace(row, id=uuids.uuid7(), name="u")
    with store.write() as conn:
        for each in (row, other, elsewhere):
            staged_tables.insert(conn, each, NOW_MS)
        assert staged_tables.find(conn, row.catalog_id, "a.b", "t", NOW_MS) == [row, other]
        assert staged_tables.find(conn, row.catalog_id, "a.b", "t", NOW_MS + 1) == [row]
        assert staged_tables.delete(conn, row.catalog_id, "a.b", "t", "nothing") == 0
        assert staged_tables.delete(conn, row.catalog_id, "a.b", "t", "other") == 1
        assert staged_tables.delete(conn, row.catalog_id, "a.b", "t") == 1
        assert staged_tables.find(conn, row.catalog_id, "a.b", "u", NOW_MS) == [elsewhere]


def test_expired_ones_go_in_batches(store: Store, row: StagedTableRow) -> None:
    for number in range(4):
        each = msgspec.structs.replace(
            row, id=uuids.uuid7(), stage_id=str(number), expires_at_ms=NOW_MS + number
        )
        store.run(lambda conn, each=each: staged_tables.insert(conn, each, NOW_MS - 1))  # type: ignore[misc]
    deleted = [store.run(lambda conn: staged_tables.delete_expired(conn, NOW_MS + 2, 2)) for _ in range(3)]
    assert deleted == [2, 1, 0]
    with store.read() as conn:
        assert [r.stage_id for r in staged_tables.find(conn, row.catalog_id, "a.b", "t", NOW_MS)] == ["3"]


def test_a_catalog_is_needed(store: Store, row: StagedTableRow) -> None:
    with pytest.raises(ForeignKeyError), store.write() as conn:
        staged_tables.insert(conn, msgspec.structs.replace(row, catalog_id=uuids.uuid7()), NOW_MS)
