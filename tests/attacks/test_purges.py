"""Tables of one account that cannot be read, while another account on the same store drops its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
import uuid_utils.compat as uuids

from floecat.auth.principals import Principal
from floecat.entries.calls import Call
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.queue import Drained
from floecat.purge.shared_files import SharedFilesUnknownError
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import PurgeSettings, Settings, StorageSettings
from tests.attacks.test_manifests import REFUSED, bomb
from tests.unit.purge.table_files import TableFiles

T = TableIdentifier(("ns",), "t")


class Lakes:
    """A kernel with a catalog of each of two accounts."""

    def __init__(self, kernel: Kernel, folder: Path) -> None:
        self.kernel = kernel
        self.folder = folder

    def account(self, name: str, location: str) -> Call:
        account_id = uuids.uuid7()
        self.kernel.catalogs.create(account_id, name, (self.folder / location).as_uri())
        call = self.kernel.calls.open(Principal(name, account_id), name)
        self.kernel.namespaces.create(call, T.namespace, {})
        return call

    def register(self, call: Call, table: TableFiles) -> UUID:
        self.kernel.registration.register_table(call, T.namespace, T.name, table.metadata_location)
        return next(each.id for each in self.kernel.tables.list_all(call))

    def drop(self, call: Call) -> Drained:
        self.kernel.drops.drop(call, T, purge=True)
        return self.kernel.purge_queue.drain_once()


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[Lakes]:
    settings = Settings(
        data_dir=str(tmp_path / "data"),
        storage=StorageSettings(fsync=False),
        purge=PurgeSettings(max_attempts=1),
    )
    prepare_store(settings)
    opened = open_kernel(settings)
    yield Lakes(opened, tmp_path)
    opened.close()


def table_at(lakes: Lakes, call: Call) -> TableFiles:
    table = TableFiles(lakes.kernel.files, f"{call.catalog.storage_location}/ns/{call.principal.name}")
    table.append(count=3)
    table.commit()
    return table


def hostile_at(lakes: Lakes, call: Call) -> TableFiles:
    """A table whose manifest list is a bomb."""
    table = table_at(lakes, call)
    table.snapshots[0]["manifest-list"] = table.write(table.path("metadata/bomb.avro"), bomb())
    table.commit()
    return table


def test_a_table_that_cannot_be_read_stops_no_purge_of_another_account(lakes: Lakes) -> None:
    honest, hostile = lakes.account("honest", "a"), lakes.account("hostile", "b")
    table = table_at(lakes, honest)
    lakes.register(honest, table)
    lakes.register(hostile, hostile_at(lakes, hostile))
    assert lakes.drop(honest) == Drained(succeeded=1)
    assert table.remaining() == []
    # a purge of the other account that failed stops no look for orphans either
    assert lakes.drop(hostile) == Drained(failed=1)
    (job,) = lakes.kernel.jobs.list(hostile)
    assert REFUSED in (job.last_error or "")
    lakes.register(honest, table_at(lakes, honest))
    assert lakes.kernel.orphans.find(honest, T).problem is None


def test_a_damaged_table_of_another_account_keeps_what_it_names(lakes: Lakes) -> None:
    honest, hostile = lakes.account("honest", "a"), lakes.account("hostile", "b")
    table, damaged = table_at(lakes, honest), table_at(lakes, hostile)
    named = table.written[0]
    damaged.append(named)
    damaged.append(manifest=damaged.manifest(data=b"broken"))
    damaged.commit()
    lakes.register(honest, table)
    lakes.register(hostile, damaged)
    assert lakes.drop(honest) == Drained(succeeded=1)
    assert table.remaining() == [named]


def test_where_two_accounts_may_use_a_location_nothing_of_the_other_is_named(lakes: Lakes) -> None:
    honest, hostile = lakes.account("honest", "a"), lakes.account("hostile", "a")
    table = table_at(lakes, honest)
    lakes.register(honest, table)
    secret = lakes.register(hostile, hostile_at(lakes, hostile))
    assert lakes.drop(honest) == Drained(failed=1)
    (job,) = lakes.kernel.jobs.list(honest)
    error = job.last_error or ""
    assert "a table of another account" in error
    assert not [part for part in (str(secret), "hostile", "bomb") if part in error]
    assert table.remaining() == list(dict.fromkeys(table.written))
    # nor in a look for orphans beside its purge
    assert lakes.drop(hostile) == Drained(failed=1)
    table.location = f"{honest.catalog.storage_location}/ns"
    table.commit()
    lakes.register(honest, table)
    with pytest.raises(SharedFilesUnknownError, match="a purge of another account") as raised:
        lakes.kernel.orphans.find(honest, T)
    assert "hostile" not in raised.value.message
