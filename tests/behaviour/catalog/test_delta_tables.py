"""Delta tables as entries of a catalog: registration, loads, what is refused, what goes with a drop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from floecat.commits.commit import CreateTable
from floecat.delta import delta_rows as delta_tables
from floecat.delta.delta_rows import DeltaTableRow
from floecat.entries.calls import Call, PageRequest
from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    CommitFailedError,
    ConflictError,
    FileMissingError,
    FloecatError,
    IdempotencyConflictError,
    IllegalArgumentError,
    InvalidDeltaTableError,
    LocationNotAllowedError,
    NoSuchNamespaceError,
    NoSuchTableError,
    UnavailableError,
    UnsupportedDeltaTableError,
    UnsupportedOperationError,
)
from floecat.events.commit_cursor import CommitCursor
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.queue import Drained
from floecat.runtime import Kernel, open_kernel
from floecat.settings import DeltaCompatSettings
from floecat.store.entries import tables
from floecat.store.entries.documents import no_metadata_location
from floecat.store.entries.tables import EntryRow
from tests.behaviour.catalog.changes import SCHEMA, change, create, set_property, table
from tests.behaviour.catalog.conftest import with_key
from tests.behaviour.catalog.delta_engine import SetEngine, delta_log, engine_of, register
from tests.storages import call_on

KEY = "0190a1b2-0000-7000-8000-000000000001"


@pytest.fixture
def engine(kernel: Kernel) -> SetEngine:
    return engine_of(kernel)


def entry(kernel: Kernel, call: Call, name: str) -> EntryRow:
    with kernel.store.read() as conn:
        row = tables.find(conn, call.catalog.id, table(name))
    assert row is not None
    return row


def delta_row(kernel: Kernel, call: Call, name: str) -> DeltaTableRow:
    with kernel.store.read() as conn:
        row = delta_tables.get(conn, entry(kernel, call, name).id)
    assert row is not None
    return row


def load(kernel: Kernel, call: Call, name: str, **options: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(kernel.catalog.tables.load(call, table(name), **options).metadata)
    return loaded


def operations(kernel: Kernel) -> list[tuple[str, bool]]:
    events = kernel.events.commits.after(CommitCursor(), limit=100).events
    return [(event.operation, event.wrote_metadata) for event in events]


class TestRegistration:
    def test_the_entry_is_a_table_of_another_format(self, kernel: Kernel, call: Call, engine: SetEngine):
        engine.version = 7
        made = register(kernel, call, "d")
        row = entry(kernel, call, "d")
        assert (row.kind, row.format, row.location) == ("table", "delta", made.location)
        assert (made.identifier, made.table_uuid, made.snapshot_id) == (table("d"), row.object_uuid, 7)
        assert made.problem is None
        assert [asked.principal for asked in engine.asked] == ["tester"]
        assert kernel.catalog.tables.list(call, ("ns",), PageRequest()).items == [table("d")]
        assert operations(kernel) == [("register", False)]

    def test_a_location_is_kept_in_its_one_spelling(self, kernel: Kernel, call: Call, engine: SetEngine):
        location = delta_log(kernel, "d")
        spelled = location.replace("file://", "file:") + "/"
        made = kernel.delta.registration.register(call, ("ns",), "d", spelled)
        assert made.location == location
        assert delta_row(kernel, call, "d").location == location

    def test_artifacts_go_beside_the_table(self, kernel: Kernel, call: Call, engine: SetEngine):
        engine.problem = UnsupportedDeltaTableError("no")
        made = register(kernel, call, "d")
        assert entry(kernel, call, "d").metadata_location == no_metadata_location(f"{made.location}/metadata")

    def test_the_format_version_is_noted(self, kernel: Kernel, call: Call, engine: SetEngine):
        register(kernel, call, "a", format_version=3)
        register(kernel, call, "b")
        assert [delta_row(kernel, call, name).format_version for name in "ab"] == [3, None]
        for wrong in (0, 1, 4):
            with pytest.raises(BadRequestError, match="version 2 or 3"):
                register(kernel, call, "c", format_version=wrong)

    @pytest.mark.parametrize(
        "problem",
        [
            InvalidDeltaTableError("version 3 is missing"),
            UnsupportedDeltaTableError("feature someFutureFeature"),
            FileMissingError("gone"),
            UnavailableError("busy"),
        ],
    )
    def test_one_that_cannot_be_read_is_registered_all_the_same(
        self, kernel: Kernel, call: Call, engine: SetEngine, problem: FloecatError
    ):
        engine.problem = problem
        made = register(kernel, call, "d")
        assert (made.snapshot_id, made.problem) == (None, problem)
        assert kernel.catalog.tables.list(call, ("ns",), PageRequest()).items == [table("d")]
        kernel.catalog.tables.exists(call, table("d"))
        with pytest.raises(type(problem), match=problem.message):
            kernel.catalog.tables.load(call, table("d"))

    def test_a_fault_of_the_engine_is_told_without_its_text(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        engine.problem = ValueError("s3://bucket?secret=1")
        made = register(kernel, call, "d")
        assert made.problem is not None
        assert made.problem.message == "internal error: ValueError"

    def test_the_log_may_be_left_unread(self, kernel: Kernel, call: Call, engine: SetEngine):
        made = register(kernel, call, "d", read=False)
        assert (made.snapshot_id, made.problem, engine.asked) == (None, None, [])
        assert load(kernel, call, "d")["current-snapshot-id"] == 0

    def test_what_is_refused(self, kernel: Kernel, call: Call, engine: SetEngine, tmp_path: Path):
        location = delta_log(kernel, "d")
        create(kernel, call, "taken")
        outside = tmp_path / "outside" / "_delta_log"
        outside.mkdir(parents=True)
        (outside / "00000000000000000000.json").write_text("{}")
        registering = kernel.delta.registration.register
        for error, namespace, name, place in [
            (BadRequestError, ("ns",), "", location),
            (BadRequestError, ("ns",), "a\x00b", location),
            (BadRequestError, ("ns",), "d", "relative/path"),
            (NoSuchNamespaceError, ("none",), "d", location),
            (AlreadyExistsError, ("ns",), "taken", location),
            (LocationNotAllowedError, ("ns",), "d", outside.parent.as_uri()),
            (BadRequestError, ("ns",), "d", location + "2"),
            (BadRequestError, ("ns",), "d", f"{location}/_delta_log"),
        ]:
            with pytest.raises(error):
                registering(call, namespace, name, place)
        assert engine.asked == []
        assert kernel.catalog.tables.list(call, ("ns",), PageRequest()).items == [table("taken")]

    def test_the_missing_log_is_named(self, kernel: Kernel, call: Call, engine: SetEngine):
        location = f"{kernel.settings.warehouse_location}/none"
        with pytest.raises(BadRequestError, match=f"no Delta table at {location}"):
            kernel.delta.registration.register(call, ("ns",), "d", location)

    def test_a_key_has_one_effect(self, kernel: Kernel, call: Call, engine: SetEngine):
        keyed = with_key(call, KEY)
        first = register(kernel, keyed, "d")
        engine.version = 5
        again = register(kernel, keyed, "d")
        assert (again.table_uuid, again.snapshot_id) == (first.table_uuid, 5)
        assert [operation for operation, _ in operations(kernel)] == ["register"]
        with pytest.raises(IdempotencyConflictError):
            register(kernel, with_key(call, KEY, request_hash="other"), "e")

    def test_a_refusal_is_replayed(self, kernel: Kernel, call: Call, engine: SetEngine):
        create(kernel, call, "d")
        keyed = with_key(call, KEY)
        for _ in range(2):
            with pytest.raises(AlreadyExistsError, match=r"Table already exists: ns\.d"):
                register(kernel, keyed, "d")
            if entry(kernel, call, "d").format == "iceberg":
                kernel.purge.drops.drop(call, table("d"), purge=False)
                create(kernel, call, "d")

    def test_a_replay_after_a_drop_tells_what_was_made(self, kernel: Kernel, call: Call, engine: SetEngine):
        keyed = with_key(call, KEY)
        first = register(kernel, keyed, "d")
        kernel.purge.drops.drop(call, table("d"), purge=False)
        again = register(kernel, keyed, "d")
        assert (again.table_uuid, again.snapshot_id) == (first.table_uuid, None)

    def test_one_table_under_two_names(self, kernel: Kernel, call: Call, engine: SetEngine):
        location = delta_log(kernel, "d")
        made = [kernel.delta.registration.register(call, ("ns",), name, location) for name in "ab"]
        assert made[0].table_uuid != made[1].table_uuid
        with kernel.store.read() as conn:
            assert {row.name for row in delta_tables.at_location(conn, location)} == {"a", "b"}


class TestLoads:
    def test_a_load_that_is_due_brings_the_newest_version(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        register(kernel, call, "d")
        engine.version = 3
        assert load(kernel, call, "d")["current-snapshot-id"] == 3
        assert load(kernel, call, "d", snapshots="refs")["current-snapshot-id"] == 3

    def test_a_load_that_is_not_due_asks_nobody(self, kernel: Kernel, call: Call, engine: SetEngine):
        register(kernel, call, "d")
        engine.is_due, engine.version = False, 3
        engine.asked.clear()
        assert load(kernel, call, "d")["current-snapshot-id"] == 0
        assert engine.asked == []

    def test_an_entity_tag_stands_for_a_version(self, kernel: Kernel, call: Call, engine: SetEngine):
        register(kernel, call, "d")
        etag = kernel.catalog.tables.load(call, table("d")).etag
        assert kernel.catalog.tables.load(call, table("d"), if_none_match=etag).not_modified
        engine.version = 1
        loaded = kernel.catalog.tables.load(call, table("d"), if_none_match=etag)
        assert not loaded.not_modified
        assert loaded.etag != etag

    def test_an_old_version_is_not_answered_for_one_that_cannot_be_read(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        register(kernel, call, "d")
        engine.problem = UnsupportedDeltaTableError("type change of column n")
        with pytest.raises(UnsupportedDeltaTableError, match="column n"):
            kernel.catalog.tables.load(call, table("d"))
        assert kernel.catalog.fast_loads.load(call, table("d"), "all", None, may_wait=True).state == "slow"
        engine.problem = None
        assert load(kernel, call, "d")["current-snapshot-id"] == 0

    def test_a_table_that_was_never_read_is_never_answered(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        register(kernel, call, "d", read=False)
        engine.is_due = False
        assert kernel.catalog.fast_loads.load(call, table("d"), "all", None, may_wait=True).state == "slow"
        assert load(kernel, call, "d")["current-snapshot-id"] == 0

    def test_existence_and_listing_look_at_no_log(self, kernel: Kernel, call: Call, engine: SetEngine):
        register(kernel, call, "d", read=False)
        kernel.catalog.tables.exists(call, table("d"))
        assert kernel.catalog.tables.list(call, ("ns",), PageRequest()).items == [table("d")]
        assert engine.asked == []

    def test_a_table_that_goes_meanwhile_is_missing(self, kernel: Kernel, call: Call, engine: SetEngine):
        register(kernel, call, "d", read=False)
        refresh = engine.refresh

        def drop_then_refresh(delta_entry: Any) -> bool:
            refresh(delta_entry)
            kernel.purge.drops.drop(call, table("d"), purge=False)
            return True

        engine.refresh = drop_then_refresh  # type: ignore[method-assign]
        with pytest.raises(NoSuchTableError):
            kernel.catalog.tables.load(call, table("d"))

    def test_another_table_of_the_namespace_is_not_disturbed(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        create(kernel, call, "i")
        engine.problem = InvalidDeltaTableError("broken")
        register(kernel, call, "d")
        assert load(kernel, call, "i")["snapshots"] == []
        assert len(kernel.catalog.tables.list(call, ("ns",), PageRequest()).items) == 2

    def test_verified_loads_do_not_miss_the_derived_file(self, kernel: Kernel, call: Call, engine: SetEngine):
        kernel.catalog.loader._verify = True
        register(kernel, call, "d")
        assert load(kernel, call, "d")["current-snapshot-id"] == 0

    def test_all_versions_on_demand(self, kernel: Kernel, call: Call, engine: SetEngine):
        register(kernel, call, "d", read=False)
        create(kernel, call, "i")
        engine.version = 9
        seen: list[tuple[int, int]] = []
        row = kernel.delta.tables.materialise(call, table("d"), lambda done, of: seen.append((done, of)))
        assert (row.version, seen) == (9, [(1, 1)])
        with pytest.raises(NoSuchTableError):
            kernel.delta.tables.materialise(call, table("none"), lambda _done, _of: None)
        with pytest.raises(IllegalArgumentError, match=r"ns\.i is not a Delta table"):
            kernel.delta.tables.materialise(call, table("i"), lambda _done, _of: None)
        listed = [(row.name, row.version) for row in kernel.delta.tables.list(call)]
        assert listed == [("d", 9)]


class TestReadOnly:
    @pytest.fixture
    def before(self, kernel: Kernel, call: Call, engine: SetEngine) -> EntryRow:
        register(kernel, call, "d")
        return entry(kernel, call, "d")

    MESSAGE = r"Table ns\.d is a Delta table and is read-only here: write it with Delta"

    def test_commit(self, kernel: Kernel, call: Call, before: EntryRow):
        with pytest.raises(UnsupportedOperationError, match=self.MESSAGE):
            kernel.commits.tables.commit(call, set_property("d", "a", "b"))
        assert entry(kernel, call, "d") == before

    def test_transaction_with_another_table(self, kernel: Kernel, call: Call, before: EntryRow):
        create(kernel, call, "i")
        other = entry(kernel, call, "i")
        with pytest.raises(UnsupportedOperationError, match=self.MESSAGE):
            kernel.commits.tables.commit_transaction(
                call, [set_property("i", "a", "b"), set_property("d", "a", "b")]
            )
        assert entry(kernel, call, "d") == before
        assert entry(kernel, call, "i") == other

    def test_commit_to_one_that_was_never_read(self, kernel: Kernel, call: Call, engine: SetEngine):
        register(kernel, call, "d", read=False)
        with pytest.raises(UnsupportedOperationError, match=self.MESSAGE):
            kernel.commits.tables.commit(call, set_property("d", "a", "b"))

    def test_register_over_it(self, kernel: Kernel, call: Call, before: EntryRow):
        create(kernel, call, "i")
        location = entry(kernel, call, "i").metadata_location
        with pytest.raises(UnsupportedOperationError, match=self.MESSAGE):
            kernel.commits.registration.register_table(call, ("ns",), "d", location, overwrite=True)
        with pytest.raises(AlreadyExistsError):
            kernel.commits.registration.register_table(call, ("ns",), "d", location)
        assert entry(kernel, call, "d") == before

    def test_its_name_is_taken(self, kernel: Kernel, call: Call, before: EntryRow):
        create(kernel, call, "i")
        with pytest.raises(AlreadyExistsError):
            kernel.commits.tables.create_table(call, ("ns",), CreateTable(name="d", schema=SCHEMA))
        with pytest.raises(AlreadyExistsError):
            kernel.catalog.tables.rename(call, table("i"), table("d"))
        with pytest.raises(CommitFailedError, match="table already exists"):
            kernel.commits.tables.commit(call, change("d", [], [{"type": "assert-create"}]))
        with pytest.raises(AlreadyExistsError):
            register(kernel, call, "d")
        assert entry(kernel, call, "d") == before

    def test_a_refused_commit_is_replayed(self, kernel: Kernel, call: Call, before: EntryRow):
        keyed = with_key(call, KEY)
        for _ in range(2):
            with pytest.raises(UnsupportedOperationError, match=self.MESSAGE):
                kernel.commits.tables.commit(keyed, set_property("d", "a", "b"))


class TestChangesOfTheEntry:
    def test_rename(self, kernel: Kernel, call: Call, engine: SetEngine):
        made = register(kernel, call, "d")
        kernel.catalog.namespaces.create(call, ("other",), {})
        moved = TableIdentifier(("other",), "e")
        kernel.catalog.tables.rename(call, table("d"), moved)
        engine.version = 4
        metadata = json.loads(kernel.catalog.tables.load(call, moved).metadata)
        assert (metadata["current-snapshot-id"], metadata["table-uuid"]) == (4, made.table_uuid)
        assert engine.asked[-1].identifier == moved

    def test_unregister_answers_the_last_metadata(self, kernel: Kernel, call: Call, engine: SetEngine):
        register(kernel, call, "d")
        loaded = kernel.catalog.tables.load(call, table("d"))
        forgotten = kernel.catalog.tables.unregister(call, table("d"))
        assert (forgotten.metadata, forgotten.metadata_location) == (
            loaded.metadata,
            loaded.metadata_location,
        )
        with pytest.raises(NoSuchTableError):
            kernel.catalog.tables.exists(call, table("d"))

    def test_a_replayed_unregister_needs_no_file(self, kernel: Kernel, call: Call, engine: SetEngine):
        register(kernel, call, "d")
        keyed = with_key(call, KEY)
        first = kernel.catalog.tables.unregister(keyed, table("d"))
        assert kernel.catalog.tables.unregister(keyed, table("d")) == first

    def test_one_that_was_never_read_has_no_metadata_to_answer(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        engine.problem = InvalidDeltaTableError("broken")
        register(kernel, call, "d")
        with pytest.raises(UnsupportedOperationError, match="never read"):
            kernel.catalog.tables.unregister(call, table("d"))
        kernel.purge.drops.drop(call, table("d"), purge=False)
        assert kernel.catalog.tables.list(call, ("ns",), PageRequest()).items == []
        assert operations(kernel) == [("register", False), ("drop", False)]

    def test_a_drop_leaves_every_file(self, kernel: Kernel, call: Call, engine: SetEngine):
        made = register(kernel, call, "d")
        kernel.files.write_new(f"{made.location}/metadata/0-compat-m0.avro", b"x")
        kernel.purge.drops.drop(call, table("d"), purge=False)
        assert kernel.purge.queue.drain_once() == Drained()
        assert len(list(kernel.files.list(made.location))) == 2

    def test_lost_files_are_not_looked_for_before_there_are_any(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        register(kernel, call, "unread", read=False)
        register(kernel, call, "read")
        ids = [entry(kernel, call, name).id for name in ("unread", "read")]
        assert [lost.name for lost in kernel.events.lost_files.among(ids)] == ["read"]


ARTIFACTS = (
    "0-compat-m0.avro",
    "0-compat-d0.avro",
    "0-compat-pd-0123456789abcdef.parquet",
    "0-compat-dv-0.puffin",
    "3-compat-g1-m0.avro",
    "snap-0-compat.avro",
    "0-compat-0000000000000000.metadata.json",
)


class TestPurge:
    def write(self, kernel: Kernel, folder: str, *names: str) -> set[str]:
        for name in names:
            kernel.files.write_new(f"{folder}/{name}", b"x")
        return {f"{folder}/{name}" for name in names}

    def files(self, kernel: Kernel, location: str) -> set[str]:
        return {file.location for file in kernel.files.list(location)}

    def drop(self, kernel: Kernel, call: Call, name: str) -> Drained:
        kernel.purge.drops.drop(call, table(name), purge=True)
        return kernel.purge.queue.drain_once()

    def test_only_artifacts_go(self, kernel: Kernel, call: Call, engine: SetEngine):
        made = register(kernel, call, "d")
        others = self.write(
            kernel, made.location, "part-0.parquet", "0-compat-m0.avro", "data/snap-1-compat.avro"
        )
        others |= self.write(
            kernel,
            f"{made.location}/metadata",
            "00000-a.metadata.json",
            "snap-1-1-b.avro",
            "x-compat-m0.avro",
        )
        others |= self.write(kernel, f"{made.location}/metadata/deeper", "0-compat-m0.avro")
        others.add(f"{made.location}/_delta_log/00000000000000000000.json")
        self.write(kernel, f"{made.location}/metadata", *ARTIFACTS)
        assert self.drop(kernel, call, "d") == Drained(succeeded=1)
        assert self.files(kernel, made.location) == others

    def test_one_that_was_never_read_can_be_purged(self, kernel: Kernel, call: Call, engine: SetEngine):
        made = register(kernel, call, "d", read=False)
        self.write(kernel, f"{made.location}/metadata", *ARTIFACTS)
        assert self.drop(kernel, call, "d") == Drained(succeeded=1)
        assert self.files(kernel, made.location) == {f"{made.location}/_delta_log/00000000000000000000.json"}

    def test_artifacts_of_another_entry_of_the_table_stay(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        location = delta_log(kernel, "shared")
        for name in "ab":
            kernel.delta.registration.register(call, ("ns",), name, location)
        artifacts = self.write(kernel, f"{location}/metadata", *ARTIFACTS)
        assert self.drop(kernel, call, "a") == Drained(succeeded=1)
        assert artifacts <= self.files(kernel, location)
        assert self.drop(kernel, call, "b") == Drained(succeeded=1)
        assert not artifacts & self.files(kernel, location)

    def test_a_table_cannot_come_back_while_its_artifacts_go(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        register(kernel, call, "d")
        kernel.purge.drops.drop(call, table("d"), purge=True)
        with pytest.raises(ConflictError, match="are being deleted"):
            register(kernel, call, "d")
        assert kernel.catalog.tables.list(call, ("ns",), PageRequest()).items == []
        assert kernel.purge.queue.drain_once() == Drained(succeeded=1)
        register(kernel, call, "d")

    @pytest.mark.parametrize("enabled", [True, False])
    def test_the_purge_of_an_iceberg_table_leaves_a_delta_table_inside_it(
        self, kernel: Kernel, call: Call, engine: SetEngine, enabled: bool
    ):
        location = f"{kernel.settings.warehouse_location}/outer"
        create(kernel, call, "i", location=location)
        inner = delta_log(kernel, "outer/inner")
        kernel.delta.registration.register(call, ("ns",), "d", inner)
        files = self.write(kernel, inner, "part-0.parquet", "metadata/0-compat-m0.avro")
        document = json.loads(kernel.catalog.tables.load(call, table("i")).metadata)
        # a table that was converted in place: its metadata names the files that Delta has too
        document["statistics"] = [
            {
                "snapshot-id": 1,
                "statistics-path": f"{inner}/part-0.parquet",
                "file-size-in-bytes": 1,
                "file-footer-size-in-bytes": 1,
                "blob-metadata": [],
            }
        ]
        hostile = f"{location}/metadata/00001-x.metadata.json"
        kernel.files.write_new(hostile, json.dumps(document).encode())
        kernel.commits.registration.register_table(call, ("ns",), "i", hostile, overwrite=True)
        opened = TestSettings().open(kernel, enabled=enabled)
        try:
            assert self.drop(opened, call, "i") == Drained(succeeded=1)
        finally:
            opened.close()
        assert files <= self.files(kernel, inner)


class TestSettings:
    def open(self, kernel: Kernel, **changes: Any) -> Kernel:
        gateway = msgspec.structs.replace(
            kernel.settings.gateway, delta_compat=DeltaCompatSettings(**changes)
        )
        return open_kernel(msgspec.structs.replace(kernel.settings, gateway=gateway))

    def test_turned_off(self, kernel: Kernel, call: Call, engine: SetEngine):
        register(kernel, call, "d")
        create(kernel, call, "i")
        off = self.open(kernel, enabled=False)
        try:
            for refused in (
                lambda: off.catalog.tables.load(call, table("d")),
                lambda: register(off, call, "e"),
                lambda: off.delta.tables.materialise(call, table("d"), lambda _done, _of: None),
            ):
                with pytest.raises(UnsupportedOperationError, match=r"delta-compat\.enabled is false"):
                    refused()
            assert off.catalog.fast_loads.load(call, table("d"), "all", None, may_wait=True).state == "slow"
            off.catalog.tables.exists(call, table("d"))
            assert len(off.catalog.tables.list(call, ("ns",), PageRequest()).items) == 2
            assert load(off, call, "i")["snapshots"] == []
            off.purge.drops.drop(call, table("d"), purge=False)
        finally:
            off.close()

    @pytest.mark.parametrize("enabled", [True, False])
    def test_a_drop_purges_whether_or_not_they_are_read(
        self, kernel: Kernel, call: Call, engine: SetEngine, enabled: bool
    ):
        location = delta_log(kernel, "shared")
        for name in "ab":
            kernel.delta.registration.register(call, ("ns",), name, location)
        for name in (*ARTIFACTS, "part-0.parquet"):
            kernel.files.write_new(f"{location}/metadata/{name}", b"x")
        opened = self.open(kernel, enabled=enabled)
        try:
            for left, name in ((len(ARTIFACTS) + 2, "a"), (2, "b")):
                opened.purge.drops.drop(call, table(name), purge=True)
                assert opened.purge.queue.drain_once() == Drained(succeeded=1)
                assert len(list(opened.files.list(location))) == left
        finally:
            opened.close()

    def test_turned_off_commits_are_refused_as_ever(self, kernel: Kernel, call: Call, engine: SetEngine):
        register(kernel, call, "d")
        off = self.open(kernel, enabled=False)
        try:
            for opened in (kernel, off):
                with pytest.raises(UnsupportedOperationError, match="Delta table and is read-only here"):
                    opened.commits.tables.commit(call, set_property("d", "k", "v"))
            assert off.delta.refresh_service is None
            for refused in (off.delta.pipeline, lambda: off.delta.tables.list(call)):
                with pytest.raises(UnsupportedOperationError, match=r"delta-compat\.enabled is false"):
                    refused()
            assert off.registrations.known(call, "file:///lake") == []
        finally:
            off.close()

    def test_artifacts_in_a_place_of_their_own(
        self, kernel: Kernel, call: Call, engine: SetEngine, tmp_path: Path
    ):
        place = (tmp_path / "compat").as_uri()
        other = self.open(kernel, location=f"{place}/")
        try:
            engine, call = engine_of(other), call_on(other, call)
            made = register(other, call, "d")
            folder = f"{place}/{made.table_uuid}"
            assert entry(other, call, "d").metadata_location.startswith(f"{folder}/0-compat-")
            # the engine may write there, nobody else may
            engine.asked[-1].allowed.check(f"{folder}/0-compat-m0.avro")
            engine.asked[-1].allowed.check(f"{made.location}/x")
            with pytest.raises(LocationNotAllowedError):
                call.catalog.allowed.check(f"{folder}/0-compat-m0.avro")
            for name in ARTIFACTS:
                other.files.write_new(f"{folder}/{name}", b"x")
            assert other.events.lost_files.among([entry(other, call, "d").id]) == []
            other.purge.drops.drop(call, table("d"), purge=True)
            assert other.purge.queue.drain_once() == Drained(succeeded=1)
            assert list(other.files.list(place)) == []
        finally:
            other.close()

    def test_a_table_keeps_its_place_when_the_setting_changes(
        self, kernel: Kernel, call: Call, engine: SetEngine, tmp_path: Path
    ):
        made = register(kernel, call, "d")
        other = self.open(kernel, location=(tmp_path / "compat").as_uri())
        try:
            engine_of(other).version = 2
            load(other, call, "d")
            assert entry(other, call, "d").metadata_location.startswith(f"{made.location}/metadata/2-compat-")
        finally:
            other.close()

    def test_a_malformed_place_stops_the_start(self, kernel: Kernel) -> None:
        with pytest.raises(FloecatError, match=r"delta-compat\.location: Invalid location"):
            self.open(kernel, location="compat")
