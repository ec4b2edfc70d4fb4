from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from floecat.errors import StorageUnavailableError
from floecat.events.committed_tables import CommittedTable, CommittedTables
from floecat.events.table_description import TableDescription
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.database.engine import Store
from floecat.working_memory import take_memory
from tests.storages import storage_at

DOCUMENT = (
    b'{"format-version":1,"table-uuid":"2b7d3a9e-0000-4000-8000-000000000001","location":"s3://lake/t",'
    b'"last-updated-ms":1,"last-column-id":1,"partition-spec":[],'
    b'"schema":{"type":"struct","fields":[{"id":1,"name":"id","type":"long","required":true}]},'
    b'"current-snapshot-id":5,"snapshots":[{"snapshot-id":5,"timestamp-ms":1,"manifest-list":"s3://lake/t/m.avro",'
    b'"summary":{"operation":"append","total-records":"12"}}]}'
)
LARGE_BYTES = 4 << 20
LAKE = storage_at(["s3://lake"])


class Storage:
    """Answers by the last letter of the location: `ok`, `broken`, `away`, or not until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.two = threading.Barrier(2)
        self.waits_s = 60.0
        self.read_together = False

    def read(self, storage: CatalogStorage, location: str, /) -> bytes:
        storage.allowed.check(location)
        match location.rsplit("/", 1)[-1]:
            case "ok":
                return DOCUMENT
            case "large":
                take_memory(LARGE_BYTES)
                with suppress(threading.BrokenBarrierError):
                    self.two.wait(self.waits_s)
                    self.read_together = True
                return DOCUMENT
            case "broken":
                return b'{"format-version": 2, "secret": "hunter2"}'
            case "unforeseen":
                raise ZeroDivisionError("hunter2")
            case "away":
                raise StorageUnavailableError("Storage does not answer")
            case _:
                self.let_go.wait(120)
                return DOCUMENT


@pytest.fixture
def storage() -> Iterator[Storage]:
    storage = Storage()
    yield storage
    storage.let_go.set()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    store.upgrade()
    yield store
    store.close()


def committed(*names: str) -> list[CommittedTable]:
    return [CommittedTable(uuid.uuid4(), f"s3://lake/{name}", LAKE) for name in names]


def test_a_metadata_file_describes_its_table(store, storage):
    (answer,) = CommittedTables(store, storage).describe(committed("ok"))
    assert isinstance(answer, TableDescription)
    assert (answer.format_version, answer.location, answer.sequence_number) == (1, "s3://lake/t", 0)
    assert (answer.snapshot_id, answer.snapshot_operation, answer.row_count) == (5, "append", 12)
    assert [(column.name, column.type, column.required) for column in answer.columns] == [
        ("id", "long", True)
    ]


def test_one_that_cannot_be_described_has_a_reason_and_the_others_go_on(store, storage):
    tables = CommittedTables(store, storage)
    ok, broken, unforeseen, away, ok_again = tables.describe(
        committed("ok", "broken", "unforeseen", "away", "ok")
    )
    assert isinstance(ok, TableDescription)
    assert isinstance(broken, str)
    assert unforeseen == "Cannot read metadata file s3://lake/unforeseen"
    assert away == "Storage does not answer"
    assert ok_again == ok
    assert "hunter2" not in broken


def test_nothing_outside_the_allowed_locations_is_read(store, storage):
    outside = CommittedTable(uuid.uuid4(), "s3://elsewhere/ok", LAKE)
    (answer,) = CommittedTables(store, storage).describe([outside])
    assert isinstance(answer, str)


def test_a_storage_that_hangs_is_not_waited_for(store, storage):
    tables = CommittedTables(store, storage, time_budget_s=2)
    ok, *hanging = tables.describe(committed("ok", *["hangs"] * 40))
    assert not storage.let_go.is_set()
    assert isinstance(ok, TableDescription)
    assert hanging == ["Storage did not give the metadata file within 2 s"] * 40


@pytest.mark.parametrize(("memory_bytes", "together"), [(LARGE_BYTES, False), (2 * LARGE_BYTES, True)])
def test_large_files_are_read_within_one_memory(store, storage, memory_bytes, together):
    tables = CommittedTables(store, storage, memory_bytes=memory_bytes, time_budget_s=120)
    if not together:
        storage.waits_s = 0.5  # for the other one, which does not come
    answers = tables.describe(committed("large", "large"))
    assert all(isinstance(answer, TableDescription) for answer in answers)
    assert storage.read_together == together


def test_nothing_to_describe_costs_no_statement(store, storage):
    with store.count_statements() as counter:
        assert CommittedTables(store, storage).describe([]) == []
    assert counter.total == 0
