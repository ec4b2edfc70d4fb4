"""Scans that follow another catalog die at every call to the store: nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from floecat.auth.authorizer import Privilege
from floecat.auth.principals import Principal
from floecat.connectors.connector_info import NewConnector
from floecat.entries.calls import Call, PageRequest
from floecat.fileio.local import LocalFileIO
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import ConnectorSettings, Duration, Settings, StorageSettings
from floecat.store.entries import followed_entries
from tests.behaviour.catalog.changes import create, set_property, table
from tests.behaviour.catalog.test_following import KIND, OtherCatalog
from tests.clocks import SetClock
from tests.faults.consistency import check_consistency
from tests.services.kills import KilledError, KillSwitch, killable_store

NAMESPACE = ("mirror", "theirs")
PRIVILEGE = Privilege.READ_CONNECTORS


class KilledScans:
    """Another catalog, a connector that follows it, and scans that die at some call to the store."""

    def __init__(self, folder: Path) -> None:
        common = StorageSettings(fsync=False)
        upstream = Settings(data_dir=str(folder / "there"), storage=common)
        prepare_store(upstream)
        self.there = open_kernel(upstream)
        account = upstream.gateway.default_account_id
        self.there.catalog.catalogs.ensure(account, "floecat", upstream.warehouse_location)
        self.upstream = self.there.catalog.calls.open(Principal("tester", account), "floecat")
        self.there.catalog.namespaces.create(self.upstream, ("ns",), {})
        settings = Settings(
            data_dir=str(folder / "here"),
            storage=StorageSettings(fsync=False, allowed_locations=(upstream.warehouse_location,)),
            connectors=ConnectorSettings(kinds=(KIND,), gone_table_grace=Duration(0)),
        )
        self.store_url = settings.store_url
        prepare_store(settings)
        self.switch = KillSwitch()
        store = killable_store(settings.store_url, self.switch)
        self.here = Kernel(settings, store, LocalFileIO(fsync=False), SetClock())
        catalog = self.here.catalog.catalogs.ensure(account, "floecat", settings.warehouse_location)
        self.call = Call.of_service("tester", catalog)
        location = upstream.warehouse_location
        self.here.connectors.connectors.create(self.call, NewConnector("mirror", KIND, location))
        self.states: dict[str, set[str]] = {}

    def change(self, number: int) -> None:
        """A new table, a commit, a rename, a table that is made anew and one that goes."""
        names = [each.name for each in self.tables_there()]
        for name in (f"s{number:03}", f"t{number:03}"):
            create(self.there, self.upstream, name)
        if len(names) > 4:
            self.there.commits.tables.commit(self.upstream, set_property(names[0], "k", str(number)))
            self.there.catalog.tables.rename(self.upstream, table(names[1]), table(f"r{number:03}"))
            for gone in names[2:5]:
                self.there.purge.drops.drop(self.upstream, table(gone), purge=False)
            create(self.there, self.upstream, names[2])
        for each in self.tables_there():
            location = self.there.catalog.tables.load(self.upstream, each).metadata_location or ""
            self.states.setdefault(location, set()).add(each.name)

    def tables_there(self) -> list[TableIdentifier]:
        return list(self.there.catalog.tables.list(self.upstream, ("ns",), PageRequest()).items)

    def scan(self, calls: int) -> bool:
        """Scans until it dies; returns whether it did."""
        self.switch.arm(calls)
        try:
            report = self.here.connectors.scans.scan(self.call, "mirror")
        except KilledError:
            return True
        finally:
            self.switch.disarm()
        assert (report.failed, report.error) == ([], None)
        return False

    def followed(self) -> dict[str, str]:
        """Location of the metadata by name of each table here; each is one that was there, once."""
        names = [
            each.name for each in self.here.catalog.tables.list_all(self.call) if each.namespace == NAMESPACE
        ]
        with self.here.store.read() as conn:
            connector = self.here.connectors.connectors.find(self.call, "mirror", PRIVILEGE)
            known = followed_entries.of_connector(conn, connector.id)
        assert sorted(each.identifier.name for each in known) == sorted(names)
        assert len({each.object_uuid for each in known}) == len(known)
        found = {}
        for each in known:
            location = self.here.catalog.tables.load(self.call, each.identifier).metadata_location or ""
            assert (each.state, location in self.states) == (location, True)
            found[each.identifier.name] = location
        return found

    def matches(self) -> bool:
        there = {
            each.name: self.there.catalog.tables.load(self.upstream, each).metadata_location
            for each in self.tables_there()
        }
        return self.followed() == there

    def close(self) -> None:
        self.here.close()
        self.there.close()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KilledScans]:
    made = KilledScans(tmp_path)
    monkeypatch.setattr(OtherCatalog, "upstream", made.upstream, raising=False)
    monkeypatch.setattr(OtherCatalog, "kernel", made.there, raising=False)
    yield made
    made.close()


def test_a_scan_that_dies_at_any_call_loses_nothing(bench: KilledScans) -> None:
    at = kills = 0
    while True:
        at += 1
        bench.change(at)
        died = bench.scan(at)
        bench.followed()
        kills += died
        if not died:
            break
        assert not bench.scan(1_000_000)
        assert bench.matches()
    assert kills >= 30
    assert bench.matches()
    check_consistency(bench.store_url)
