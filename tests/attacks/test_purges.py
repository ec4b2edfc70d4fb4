"""Tables of one account that cannot be read, while another account on the same store drops its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from uuid import UUID

import msgspec
import pytest
import uuid_utils.compat as uuids

from floecat.auth.principals import Principal
from floecat.clock import SystemClock
from floecat.entries.calls import Call
from floecat.errors import UnavailableError
from floecat.fileio.base import DeleteOutcome
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.queue import Drained
from floecat.purge.sharing.live_tables import StoredTables
from floecat.purge.sharing.shared_files import SharedFilesUnknownError
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import CommitSettings, GatewaySettings, PurgeSettings, Settings, StorageSettings
from floecat.store.database.engine import Store
from floecat.store.jobs.job_claims import Lease
from tests.attacks.test_manifests import REFUSED, bomb
from tests.behaviour.catalog.changes import change, create, set_property
from tests.scan_files import Appends
from tests.unit.purge.table_files import TableFiles

T = TableIdentifier(("ns",), "t")


class Lakes:
    """A kernel with a catalog of each of two accounts."""

    def __init__(self, kernel: Kernel, folder: Path) -> None:
        self.kernel = kernel
        self.folder = folder

    def account(self, name: str, location: str) -> Call:
        account_id = uuids.uuid7()
        self.kernel.catalog.catalogs.create(account_id, name, (self.folder / location).as_uri())
        call = self.kernel.catalog.calls.open(Principal(name, account_id), name)
        self.kernel.catalog.namespaces.create(call, T.namespace, {})
        return call

    def register(self, call: Call, table: TableFiles) -> UUID:
        self.kernel.commits.registration.register_table(call, T.namespace, T.name, table.metadata_location)
        return next(each.id for each in self.kernel.catalog.tables.list_all(call))

    def drop(self, call: Call) -> Drained:
        self.kernel.purge.drops.drop(call, T, purge=True)
        return self.kernel.purge.queue.drain_once()


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


def table_at(lakes: Lakes, call: Call, folder: str = "t") -> TableFiles:
    location = f"{call.catalog.storage_location}/ns/{call.principal.name}/{folder}"
    table = TableFiles(lakes.kernel.files, location)
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
    assert lakes.kernel.purge.orphans.find(honest, T).problem is None


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
        lakes.kernel.purge.orphans.find(honest, T)
    assert "hostile" not in raised.value.message


def test_many_purges_of_one_account_keep_no_other_waiting(lakes: Lakes) -> None:
    honest, hostile = lakes.account("honest", "a"), lakes.account("hostile", "b")
    for number in range(20):
        lakes.register(hostile, table_at(lakes, hostile, f"t{number}"))
        lakes.kernel.purge.drops.drop(hostile, T, purge=True)
    table = table_at(lakes, honest)
    lakes.register(honest, table)
    lakes.kernel.purge.drops.drop(honest, T, purge=True)
    assert lakes.kernel.purge.queue.drain_once(max_jobs=2) == Drained(succeeded=2)
    assert table.remaining() == []


_SLOW_S = 0.05
_LISTS = 400
_READ_AT_A_BATCH = 2 * 8 * (0.5 / _SLOW_S + 1)
"""Eight threads read for half a second before a batch is announced, and again after it."""


class SlowFileIO(LocalFileIO):
    """The local disk, on which each manifest list of one folder takes a while.

    Attributes:
        at_delete: called once, in a batch.
    """

    def __init__(self, slow: str) -> None:
        super().__init__(fsync=False)
        self._slow = slow
        self.at_delete: Callable[[], None] = lambda: None
        self.slow_reads = 0

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        if location.startswith(self._slow) and "/snap-" in location:
            self.slow_reads += 1
            time.sleep(_SLOW_S)
        return super().read(location, max_bytes=max_bytes)

    def delete_many(self, locations: Iterable[str], allowed: AllowedLocations | None = None) -> DeleteOutcome:
        hook, self.at_delete = self.at_delete, lambda: None
        hook()
        return super().delete_many(locations, allowed)


@pytest.fixture
def slow_lakes(tmp_path: Path) -> Iterator[Lakes]:
    """Purges in small batches, for which no commit waits; the folder `b` is slow."""
    settings = Settings(
        data_dir=str(tmp_path / "data"),
        storage=StorageSettings(fsync=False),
        purge=PurgeSettings(max_attempts=1, files_per_call=4, delete_threads_per_job=1),
        gateway=GatewaySettings(commit=CommitSettings(purge_wait_ms=0)),
    )
    prepare_store(settings)
    store = Store.open(settings.store_url)
    opened = Kernel(settings, store, SlowFileIO((tmp_path / "b").as_uri()), SystemClock())
    yield Lakes(opened, tmp_path)
    opened.close()


def test_commits_of_another_account_without_end_hold_no_batch(
    slow_lakes: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of many lists is changed before every batch, and gets 65 manifests at once in one of them."""
    kernel, files = slow_lakes.kernel, slow_lakes.kernel.files
    assert isinstance(files, SlowFileIO)
    honest, hostile = slow_lakes.account("honest", "a"), slow_lakes.account("hostile", "b")
    table = table_at(slow_lakes, honest)
    table.append(count=12)
    table.commit()
    slow_lakes.register(honest, table)
    many = table_at(slow_lakes, hostile)
    for number in range(100, 100 + _LISTS):
        path = many.path(f"metadata/snap-{number}.avro")
        many.write(path, kernel.files.read(many.snapshots[0]["manifest-list"]))
        many.snapshots.append(many.snapshots[0] | {"snapshot-id": number, "manifest-list": path})
    many.commit()
    slow_lakes.register(hostile, many)
    own, large = appends_of(kernel, honest), appends_of(kernel, hostile)
    seen: list[int] = []
    begin = StoredTables.begin_batch

    def commit_and_begin(self: StoredTables, lease: Lease, folders: Sequence[str]) -> bool:
        kernel.commits.tables.commit(hostile, set_property("t", "a", str(len(seen))))
        seen.append(files.slow_reads)
        return begin(self, lease, folders)

    def in_a_batch() -> None:
        kernel.commits.tables.commit(hostile, change("large", large.append(*[1] * 65)))
        # of the same account, it may have files everywhere
        with pytest.raises(UnavailableError, match="being deleted by purge job"):
            kernel.commits.tables.commit(honest, change("large", own.append(*[1] * 65)))

    files.at_delete = in_a_batch
    with monkeypatch.context() as patched:
        patched.setattr(StoredTables, "begin_batch", commit_and_begin)
        assert slow_lakes.drop(honest) == Drained(succeeded=1)
    assert table.remaining() == []
    assert seen[0] >= _LISTS  # before the first batch there is time for it
    assert len(seen) >= 4
    assert files.slow_reads - seen[0] <= len(seen) * _READ_AT_A_BATCH


def appends_of(kernel: Kernel, call: Call) -> Appends:
    """Appends to a new table `large`."""
    made = create(kernel, call, "large")
    return Appends(msgspec.json.decode(made.metadata)["location"])
