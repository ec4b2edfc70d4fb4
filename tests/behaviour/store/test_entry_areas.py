"""The index over folders: which entries may have a file in an area."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from floecat.entries.areas import folder_area, folder_text, overlapping_ranges
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.catalogs.namespaces import NamespaceRow
from floecat.store.database.engine import Store
from floecat.store.entries import entry_areas, entry_changes, tables
from floecat.store.entries.entry_areas import NearEntry, StoredArea
from tests.behaviour.store.rows import add_entry, at_once, swap

SCOPE = "scope"


def folders(*locations: str) -> list[str]:
    return [folder_text(folder) for folder in folder_area(locations)]


def index(store: Store, row: tables.EntryRow, *locations: str, scope: str = SCOPE) -> None:
    area = StoredArea(row.state, scope, folders(*locations))
    store.run(lambda conn: entry_areas.replace(conn, [area]))


def near(
    store: Store,
    *locations: str,
    object_uuid: str = "other",
    scopes: tuple[str, ...] = (SCOPE,),
    after: UUID | None = None,
    limit: int = 100,
) -> list[NearEntry]:
    ranges = overlapping_ranges(folder_area(locations))
    with store.read() as conn:
        return entry_areas.near(conn, object_uuid, ranges, scopes, after=after, limit=limit)


@pytest.fixture
def entry(store: Store, namespace: NamespaceRow) -> tables.EntryRow:
    return add_entry(store, namespace, "t")


@pytest.mark.parametrize(
    ("folder", "asked", "expected"),
    [
        ("s3://b/t", "s3://b/t", True),
        ("s3://b/t", "s3a://b/t/inner/deep", True),
        ("s3://b/t/inner/deep", "s3://b/t", True),
        ("s3://b/t", "s3://b", True),
        ("s3://b", "s3://b/t", True),
        ("s3://b/t2", "s3://b/t", False),
        ("s3://b/t", "s3://b/t2", False),
        ("s3://b/t", "s3://b2/t", False),
        ("s3://b/t", "gs://b/t", False),
        ("s3://b/Ü\U0010ffff/x", "s3://b/Ü\U0010ffff", True),
        ("file:///", "file:///a", True),
        ("file:///a", "file:///", True),
        (f"s3://{'b' * 300}/t", "gs://c/t", True),
        ("gs://c/t", f"s3://{'b' * 300}/t", True),
        (f"s3://b/{'x' * 500}/{'y' * 500}/{'z' * 500}", f"s3://b/{'x' * 500}/other", True),
        (f"s3://b/{'x' * 500}/{'y' * 500}/{'z' * 500}", f"s3://b/{'x' * 499}", False),
    ],
)
def test_folders_above_and_below_are_found(
    store: Store, entry: tables.EntryRow, folder: str, asked: str, expected: bool
) -> None:
    index(store, entry, folder)
    found = near(store, asked)
    assert [row.id for row in found] == ([entry.id] if expected else [])
    assert all(row.is_indexed and row.problem is None for row in found)


def test_an_entry_without_a_valid_area_is_found(
    store: Store, catalog: CatalogRow, entry: tables.EntryRow
) -> None:
    def is_indexed(**arguments: tuple[str, ...]) -> list[bool]:
        return [row.is_indexed for row in near(store, "s3://elsewhere/t", **arguments)]  # type: ignore[arg-type]

    assert is_indexed() == [False]
    index(store, entry, "s3://b/t")
    assert is_indexed() == []
    assert is_indexed(scopes=("another", SCOPE)) == []
    assert is_indexed(scopes=("another",)) == [False]
    with store.write() as conn:
        assert swap(conn, entry, 0, entry.metadata_location)
    assert is_indexed() == [False]
    with store.read() as conn:
        current = tables.get(conn, entry.id)
    assert current is not None
    index(store, current, "s3://b/t")
    assert is_indexed() == []


def test_an_entry_of_the_same_uuid_and_one_that_is_unknown_are_found(
    store: Store, entry: tables.EntryRow
) -> None:
    index(store, entry, "s3://b/t")
    assert near(store, "s3://c") == []
    assert [row.is_indexed for row in near(store, "s3://c", object_uuid=entry.object_uuid.upper())] == [True]
    unknown = StoredArea(entry.state, SCOPE, (), "too large")
    store.run(lambda conn: entry_areas.replace(conn, [unknown]))
    assert [(row.is_indexed, row.problem) for row in near(store, "s3://c")] == [(True, "too large")]
    assert [(row.is_indexed, row.problem) for row in near(store, "s3://c", scopes=("b",))] == [(False, None)]


def test_areas_go_with_their_entry(store: Store, entry: tables.EntryRow) -> None:
    index(store, entry, "s3://b/t", "s3://b/u")
    with store.write() as conn:
        assert entry_changes.delete(conn, entry.id, None)
    assert near(store, "s3://b") == []
    index(store, entry, "s3://b/t")
    assert near(store, "s3://b") == []


def test_pages_hold_every_entry_once(store: Store, namespace: NamespaceRow) -> None:
    rows = [add_entry(store, namespace, f"t{number}") for number in range(7)]
    for row in rows[::2]:
        index(store, row, "s3://b/t")
    found: list[NearEntry] = []
    while page := near(store, "s3://b", after=found[-1].id if found else None, limit=3):
        found += page
    assert [row.id for row in found] == [row.id for row in rows]
    assert [row.is_indexed for row in found] == [True, False] * 3 + [True]


def test_several_processes_fill_it_at_once_while_entries_are_dropped(
    store: Store, namespace: NamespaceRow
) -> None:
    rows = [add_entry(store, namespace, f"t{number}") for number in range(20)]

    def fill(number: int) -> None:
        areas = [StoredArea(row.state, SCOPE, folders(f"s3://b/{number}")) for row in rows]
        store.run(lambda conn: entry_areas.replace(conn, areas))

    def drop(number: int) -> None:
        with store.write() as conn:
            entry_changes.delete(conn, rows[number].id, None)

    at_once(8, lambda number: fill(number) if number % 2 else drop(number))
    fill(9)
    found = near(store, "s3://b/9")
    assert [row.id for row in found] == [row.id for n, row in enumerate(rows) if n % 2 or n >= 8]
    assert all(row.is_indexed for row in found)
    assert near(store, "s3://b/1") == []


@pytest.mark.parametrize("backend", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True)
def test_areas_do_not_wait_for_a_drop(store: Store, namespace: NamespaceRow) -> None:
    rows = [add_entry(store, namespace, name) for name in ("kept", "dropped")]
    areas = [StoredArea(row.state, SCOPE, folders("s3://b/t")) for row in rows]
    with store.write() as conn, ThreadPoolExecutor(1) as threads:
        entry_changes.delete(conn, rows[1].id, None)
        threads.submit(store.run, lambda other: entry_areas.replace(other, areas)).result()
    assert [(row.id, row.is_indexed) for row in near(store, "s3://b/t")] == [(rows[0].id, True)]
