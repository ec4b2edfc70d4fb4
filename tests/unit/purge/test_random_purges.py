"""Random tables that share files, dropped and purged in random order, beside a reading of everything."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pytest

from floecat.entries.areas import Area, AreaReader, overlaps
from floecat.entries.metadata_files import MetadataFiles
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.purge.deletion.table_purge import PurgeTarget, TablePurge
from floecat.purge.sharing.live_tables import NearTable, StoredTables
from floecat.purge.sharing.reachable_files import ReachableFiles
from floecat.purge.sharing.shared_files import SharedFiles
from floecat.store.database.engine import Store
from floecat.store.entries import entry_changes, tables
from tests.clocks import SetClock
from tests.storages import storage_at, storages_at
from tests.unit.purge.sharing.test_shared_files import Place
from tests.unit.purge.table_files import TableFiles
from tests.unit.purge.test_worker import NOW_MS, Catalog

OPERATIONS = 40


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    opened.upgrade()
    yield opened
    opened.close()


class AskedTables(StoredTables):
    """The tables of a store, and the scopes with which a purge asked for them."""

    scopes: Collection[str] = ()

    def near(self, area: Area, table_uuid: str, scopes: Collection[str]) -> Iterator[Sequence[NearTable]]:
        self.scopes = scopes
        return super().near(area, table_uuid, scopes)


class Entry:
    """A live entry, its table, and every file that it reaches."""

    def __init__(self, row: tables.EntryRow, table: TableFiles) -> None:
        self.row, self.table = row, table
        storage = storage_at(AllowedLocations(["file:///"]), table.files)
        reachable = ReachableFiles(storage, table.metadata_location, table.metadata())
        self.files = {file.location for file in reachable}

    @property
    def data(self) -> list[str]:
        return sorted(location for location in self.files if location.endswith(".parquet"))


class World:
    """Some catalogs on one warehouse, with entries that come and go."""

    def __init__(self, store: Store, files: FileIO, warehouse: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.place = Place(store, files, warehouse)
        self.store, self.files, self.warehouse = store, files, warehouse
        self.catalogs = [self.place.catalog, Catalog(store, warehouse), Catalog(store, f"{warehouse}/t1")]
        self.storage = storage_at(AllowedLocations([warehouse]), files)
        self.live: list[Entry] = []
        self.numbers = itertools.count(1)
        self.restart()

    def restart(self) -> None:
        """Another process, which has nothing in memory."""
        self.tables = AskedTables(self.store, storages_at(self.files), SetClock(NOW_MS))
        shared = SharedFiles(self.tables, area_bytes=1 << 20)
        self.purge = TablePurge(MetadataFiles(max_bytes=1 << 20), shared, batch_size=4)

    def table(self, location: str | None = None, table_uuid: str | None = None) -> TableFiles:
        number = next(self.numbers)
        around = self.random.choice([self.warehouse, *(entry.table.location for entry in self.live)])
        place = location or f"{around}/t{number}"
        made = TableFiles(self.files, place, table_uuid=table_uuid)
        # tables in one place write files of different names
        made._numbers = itertools.count(number * 1000)
        return made

    def register(self, table: TableFiles) -> None:
        row = self.random.choice(self.catalogs).register(table, f"e{next(self.numbers)}")
        self.live.append(Entry(row, table))

    def create(self) -> None:
        table = self.table(self.random.choice([None, None, self.any().table.location if self.live else None]))
        table.append(count=self.random.randint(1, 3))
        table.commit()
        self.register(table)

    def any(self) -> Entry:
        return self.random.choice(self.live)

    def append(self) -> None:
        entry = self.any()
        self.add(entry.table, expire=self.random.random() < 0.3)
        self.commit(entry)

    def add(self, table: TableFiles, *, expire: bool = False) -> None:
        """A snapshot of own files, files elsewhere, or files that other tables have."""
        kind = self.random.choice(["own", "elsewhere", "others"])
        if kind == "own":
            table.append(count=2, expire=expire)
        elif kind == "elsewhere":
            folder = f"{self.warehouse}/landing/day={self.random.randint(1, 50)}"
            table.append(table.write(f"{folder}/{next(self.numbers)}.parquet"), expire=expire)
        else:
            data = self.any().data
            table.append(*self.random.sample(data, min(len(data), 2)), expire=expire)

    def statistics(self) -> None:
        entry = self.any()
        entry.table.add_statistics()
        self.commit(entry)

    def commit(self, entry: Entry) -> None:
        self.live[self.live.index(entry)] = Entry(self.place.commit(entry.row, entry.table), entry.table)

    def twin(self) -> None:
        """The same metadata file under another name, which then goes its own way."""
        source = self.any().table
        copy = self.table(source.location, source.table_uuid)
        for name in ("metadata_location", "properties"):
            setattr(copy, name, getattr(source, name))
        for name in ("snapshots", "statistics", "partition_statistics", "metadata_log", "_added_by"):
            setattr(copy, name, getattr(source, name).copy())
        self.register(copy)

    def migrate(self) -> None:
        """A table of its own that names the data files of another one, as Spark's `snapshot` makes."""
        source, copy = self.any(), self.table()
        copy.append(*source.data)
        copy.commit()
        self.register(copy)

    def drop(self) -> None:
        entry = self.any()
        self.live.remove(entry)
        with self.store.write() as conn:
            assert entry_changes.delete(conn, entry.row.id, None)
        if self.random.random() < 0.2:
            return  # without purge
        if self.random.random() < 0.5:
            self.restart()
        target = PurgeTarget(entry.table.table_uuid, entry.table.metadata_location, self.storage)
        assert self.purge.purge(target).complete
        needed = set().union(*(other.files for other in self.live))
        assert [location for location in sorted(needed) if not self.files.exists(location)] == []
        left = [location for location in sorted(entry.files - needed) if self.files.exists(location)]
        assert left == []
        if self.random.random() < 0.4:
            self.check_index(entry)

    def check_index(self, dropped: Entry) -> None:
        """The index answers as if every table were read."""
        reader = AreaReader(cached_bytes=0)

        def area_of(entry: Entry) -> Area:
            table = entry.table
            return reader.area(
                self.storage, table.location, table.metadata_location, table.metadata()
            ).folders

        mine = area_of(dropped)
        near = [each for page in self.tables.near(mine, "", self.tables.scopes) for each in page]
        # twins of the dropped table were read in full without a look at their areas
        twins = {each.table.entry_id for each in near if not each.is_indexed}
        assert all(each.table.table_uuid == dropped.table.table_uuid for each in near if not each.is_indexed)
        expected = [e.row.id for e in self.live if e.row.id in twins or overlaps(mine, area_of(e))]
        assert [each.table.entry_id for each in near] == sorted(expected)


@pytest.mark.parametrize("seed", range(2))
def test_files_of_live_tables_stay_and_all_others_of_dropped_ones_go(
    store: Store, files: FileIO, warehouse: str, seed: int
) -> None:
    world = World(store, files, warehouse, seed)
    operations = [world.create, world.append, world.statistics, world.twin, world.migrate, world.drop]
    for _ in range(OPERATIONS):
        work = (
            world.create if len(world.live) < 3 else world.random.choices(operations, (2, 4, 1, 2, 2, 4))[0]
        )
        work()
    while world.live:
        world.drop()
