"""What a purge asks the store and storage about live tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import msgspec
import pytest
import uuid_utils.compat as uuids

from floecat.fileio.base import FileIO
from floecat.iceberg.values.bounds import Bounds
from floecat.purge.sharing.live_tables import StoredTables
from floecat.purge.sharing.shared_files import SharedFiles, SharedFilesUnknownError
from floecat.store.database.engine import Store
from floecat.store.entries import entry_changes, tables
from floecat.store.entries.documents import compress
from tests.clocks import SetClock
from tests.storages import storages_at
from tests.unit.purge.table_files import TableFiles
from tests.unit.purge.test_worker import NOW_MS, Catalog, new_table

LIVE = 30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    opened.upgrade()
    yield opened
    opened.close()


class Place:
    """A catalog on a local warehouse, and what a purge there asks."""

    def __init__(self, store: Store, files: FileIO, warehouse: str) -> None:
        self.store, self.files, self.warehouse = store, files, warehouse
        self.catalog = Catalog(store, warehouse)
        self.dropped = new_table(files, f"{warehouse}/dropped", 2)

    def kept(self, table: TableFiles | None = None, bounds: Bounds | None = None) -> list[str]:
        """The files of a dropped table that stay, as a process finds them that has just started."""
        dropped = table or self.dropped
        storages = storages_at(self.files)
        storage, live = storages.of(self.catalog.row), StoredTables(self.store, storages, SetClock(NOW_MS))
        shared = SharedFiles(live, bounds=bounds or Bounds())
        with shared.collect(storage, dropped.metadata_location, dropped.metadata()) as kept:
            return [location for location in dropped.remaining() if location in kept]

    def cost(self) -> tuple[int, int]:
        """SQL statements, and calls to storage."""
        before = self.files.counters.counts
        with self.store.count_statements() as counter:
            self.kept()
        # `kept` looks at each file of the table, too
        return counter.statements, (self.files.counters.counts - before).calls - len(self.dropped.written)

    def commit(self, row: tables.EntryRow, table: TableFiles) -> tables.EntryRow:
        table.commit()
        document = table.document()
        with self.store.write() as conn:
            assert entry_changes.swap(
                conn,
                row.id,
                row.version,
                metadata_location=table.metadata_location,
                document=compress(document),
                size_bytes=len(document),
                location=table.location,
                format_version=2,
                object_uuid=table.table_uuid,
                table_type=None,
                now_ms=NOW_MS,
            )
        changed: tables.EntryRow = msgspec.structs.replace(
            row, version=row.version + 1, metadata_location=table.metadata_location
        )
        return changed


@pytest.fixture
def place(store: Store, files: FileIO, warehouse: str) -> Place:
    return Place(store, files, warehouse)


# of the dropped table: its manifest list and its manifest
OWN_READS = 2
# storages, positions of commit logs, and a page of what is near
OWN_STATEMENTS = 3
# rows locked, areas replaced, folders deleted and inserted
FILL_STATEMENTS = 4


def test_a_purge_reads_only_tables_that_were_changed_since_the_last(place: Place) -> None:
    live = [new_table(place.files, f"{place.warehouse}/t{number}", 1) for number in range(LIVE)]
    rows = [place.catalog.register(table, f"t{number}") for number, table in enumerate(live)]
    for number in range(LIVE):
        place.catalog.register(
            TableFiles(place.files, f"{place.warehouse}/v{number}"), f"v{number}", kind="view"
        )
    assert place.cost() == (OWN_STATEMENTS + LIVE + FILL_STATEMENTS, OWN_READS + 2 * LIVE)
    assert place.cost() == (OWN_STATEMENTS, OWN_READS)
    live[3].append(place.dropped.written[0])
    place.commit(rows[3], live[3])
    # its document; two manifest lists and two manifests, and again for what it needs, with index artifacts
    assert place.cost() == (OWN_STATEMENTS + 3 + FILL_STATEMENTS, OWN_READS + 8)
    assert place.kept() == [place.dropped.written[0]]
    assert place.cost() == (OWN_STATEMENTS + 2, OWN_READS + 4)


def test_pages_are_followed(place: Place) -> None:
    view = TableFiles(place.files, f"{place.warehouse}/dropped/views")
    view.metadata_location = f"{view.location}/v.json"
    document = compress(view.document())
    row = place.catalog.register(view, "v", kind="view")
    with place.store.write() as conn:
        for number in range(449):
            another = msgspec.structs.replace(row, id=uuids.uuid7(), name=f"v{number}")
            entry_changes.insert(conn, another, document, 1)
    assert place.cost() == (2 + 3 + 3 * FILL_STATEMENTS, OWN_READS)
    assert place.cost() == (2 + 3, OWN_READS)


def test_metadata_files_of_views_of_all_catalogs_stay(place: Place) -> None:
    for number, catalog in enumerate((place.catalog, Catalog(place.store, place.warehouse))):
        view = TableFiles(place.files, f"{place.warehouse}/v")
        view.metadata_location = place.dropped.written[number]
        catalog.register(view, "v", kind="view")
    for _ in range(2):
        assert place.kept() == place.dropped.written[:2]


def test_what_exceeds_a_bound_is_read_again_under_another_bound(place: Place) -> None:
    large = new_table(place.files, f"{place.warehouse}/large", 5)
    row = place.catalog.register(large, "large")
    for reads in (OWN_READS + 2, OWN_READS):
        before = place.files.counters.counts
        with pytest.raises(SharedFilesUnknownError, match=f"{row.id} needs: .*manifest-entries"):
            place.kept(bounds=Bounds(manifest_entries=4))
        assert (place.files.counters.counts - before).calls == reads
    assert place.kept(bounds=Bounds(manifest_entries=5)) == []


@pytest.mark.parametrize("account_id", [None, uuids.uuid7()])
def test_a_table_that_is_unknown_is_looked_up_although_it_lies_elsewhere(
    place: Place, tmp_path: Path, account_id: UUID | None
) -> None:
    """It may have got files of the dropped table from wherever its account may read, and from there alone."""
    elsewhere = (tmp_path / "elsewhere").as_uri()
    large = new_table(place.files, f"{elsewhere}/large", 5)
    Catalog(place.store, elsewhere, account_id=account_id or place.catalog.account_id).register(
        large, "large"
    )
    if account_id is not None:
        assert place.kept(bounds=Bounds(manifest_entries=4)) == []
        return
    with pytest.raises(SharedFilesUnknownError, match="manifest-entries"):
        place.kept(bounds=Bounds(manifest_entries=4))


def test_a_file_that_was_missing_is_looked_for_again(place: Place) -> None:
    needs = new_table(place.files, f"{place.warehouse}/needs", 1)
    needs.append(place.dropped.written[0])
    needs.commit()
    place.catalog.register(needs, "needs")
    manifest = needs.written[-3]
    data = place.files.read(manifest)
    place.files.delete(manifest)
    assert place.kept() == []
    place.files.write_new(manifest, data)
    assert place.kept() == [place.dropped.written[0]]


def test_locations_that_are_allowed_later_are_read_then(place: Place, tmp_path: Path) -> None:
    later = (tmp_path / "later").as_uri()
    needs = new_table(place.files, f"{later}/needs", 1)
    needs.append(place.dropped.written[0])
    needs.commit()
    place.catalog.register(needs, "needs")
    assert place.kept() == []
    Catalog(place.store, later)
    assert place.kept() == [place.dropped.written[0]]


def test_a_catalog_more_does_not_make_areas_invalid(place: Place, tmp_path: Path) -> None:
    place.catalog.register(new_table(place.files, f"{place.warehouse}/t", 1), "t")
    place.kept()
    Catalog(place.store, (tmp_path / "more").as_uri())
    assert place.cost() == (OWN_STATEMENTS, OWN_READS)
