"""Commits about files that are live with another deletion vector, or not at all: what entries say."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest

from floecat.delta.artifacts.artifact_paths import vector_digest_of
from floecat.delta.refresh.verification import count_table
from floecat.errors import InvalidDeltaTableError, UnsupportedDeltaTableError
from floecat.iceberg.manifests.lists import DELETE_MANIFEST, read_manifest_list
from floecat.iceberg.manifests.reader import ManifestEntryStatus
from tests.behaviour.delta.conftest import SCHEMA, artifacts, as_rows, delta_table, rows_of
from tests.clients.delta.writer import DeltaWriter
from tests.unit.iceberg.manifest_rows import rows_by_columns

ADDED, EXISTING, DELETED = (
    ManifestEntryStatus.ADDED,
    ManifestEntryStatus.EXISTING,
    ManifestEntryStatus.DELETED,
)


class Manifest(NamedTuple):
    path: str
    deletes: bool
    entries: list[dict[str, Any]]
    first_row_ids: dict[str, int | None]
    """Of live data files, by their location."""
    spec_id: int


def content(location: str) -> bytes:
    return Path(location.removeprefix("file://")).read_bytes()


def snapshot_of(lake, table, version: int) -> dict[str, Any]:
    metadata = msgspec.json.decode(lake.load(table).metadata)
    return next(each for each in metadata["snapshots"] if each["snapshot-id"] == version)


def manifests_of(lake, table, version: int) -> list[Manifest]:
    location = snapshot_of(lake, table, version)["manifest-list"]
    found = []
    for listed in read_manifest_list(content(location), location=location):
        path = listed.manifest_path
        entries = rows_by_columns(content(path))
        next_row_id, row_ids = listed.first_row_id, {}
        for entry in entries:
            if entry["status"] == DELETED:
                continue
            row_id = entry["first_row_id"]
            if row_id is None and next_row_id is not None:
                row_id, next_row_id = next_row_id, next_row_id + entry["record_count"]
            row_ids[entry["file_path"]] = row_id
        found.append(
            Manifest(path, listed.content == DELETE_MANIFEST, entries, row_ids, listed.partition_spec_id)
        )
    return found


def row_ids(lake, table, version: int) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for manifest in manifests_of(lake, table, version):
        if not manifest.deletes:
            found |= manifest.first_row_ids
    return found


def statuses(lake, table, version: int, *, deletes: bool) -> list[tuple[str, int | None, int | None]]:
    """Status, snapshot and sequence number of entries."""
    return sorted(
        (ManifestEntryStatus(entry["status"]).name, entry["snapshot_id"], entry["sequence_number"])
        for manifest in manifests_of(lake, table, version)
        if manifest.deletes == deletes
        for entry in manifest.entries
    )


def counters(lake, table, version: int) -> Mapping[str, str]:
    summary = snapshot_of(lake, table, version)["summary"]
    unchanging = ("total-files-size", "total-equality-deletes", "delta.operation")
    return {name: value for name, value in summary.items() if name not in unchanging}


def tombstone(file, vector: Mapping[str, Any] | None = None) -> dict[str, Any]:
    removal = {"path": file.add["path"], "deletionTimestamp": 0, "dataChange": True}
    return {"remove": removal | ({"deletionVector": vector} if vector else {})}


def read_whole(open_lake, writer: DeltaWriter, **settings: Any) -> list[tuple[Any, ...]]:
    """The rows of the newest version, made from the state of the log alone."""
    lake = open_lake(max_versions_in_request=1, **settings)
    folder = writer.folder.with_name(f"{writer.folder.name}-whole")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(writer.folder, folder, ignore=shutil.ignore_patterns("metadata"))
    return lake.rows(lake.register(folder, "whole"))


@pytest.fixture(params=[2, 3], ids=["v2", "v3"])
def format_version(request) -> int:
    return request.param


@pytest.fixture
def lake(open_lake, format_version):
    return open_lake(format_version=format_version)


def test_a_stale_tombstone_removes_nothing(lake, open_lake, tmp_path, format_version):
    writer = delta_table(tmp_path / "t")
    writer.delete({0: [0]})
    table = lake.register(writer.folder)
    first = writer.files[0].add["deletionVector"]
    writer.delete({0: [1]})
    # the file is live with its second vector
    writer.commit([tombstone(writer.files[0]), tombstone(writer.files[0], first)])
    writer.commit([tombstone(writer.files[1], first)])
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
    assert read_whole(open_lake, writer, format_version=format_version) == lake.rows(table)
    assert counters(lake, table, writer.version)["operation"] == "replace"
    # and this one is meant
    writer.remove([0])
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
    assert {entry[0] for entry in statuses(lake, table, writer.version, deletes=True)} == {"DELETED"}


def test_entries_stay_while_vectors_change(lake, tmp_path, format_version):
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    before = manifests_of(lake, table, 2)
    writer.delete({0: [0, 3], 1: [9]})
    lake.load(table)
    writer.delete({0: [4]})
    assert lake.rows(table) == as_rows(writer.rows[4])
    for version in (3, 4):
        data = [manifest for manifest in manifests_of(lake, table, version) if not manifest.deletes]
        assert sorted(data) == sorted(before)
    assert statuses(lake, table, 3, deletes=True) == [("ADDED", 3, 4), ("ADDED", 3, 4)]
    assert statuses(lake, table, 4, deletes=True) == [("ADDED", 4, 5), ("DELETED", 4, 4), ("EXISTING", 3, 4)]
    totals = {"total-data-files": "2", "total-records": "20", "total-delete-files": "2"}
    assert counters(lake, table, 3) == totals | {
        "operation": "delete",
        "added-delete-files": "2",
        "added-position-deletes": "3",
        "total-position-deletes": "3",
    }
    assert counters(lake, table, 4) == totals | {
        "operation": "delete",
        "added-delete-files": "1",
        "added-position-deletes": "3",
        "removed-delete-files": "1",
        "removed-position-deletes": "2",
        "total-position-deletes": "4",
    }
    if format_version == 3:
        assert [snapshot_of(lake, table, version)["added-rows"] for version in (3, 4)] == [0, 0]
    numbers = count_table(lake.kernel.store, lake.kernel.files, lake.delta_entry(table))
    assert (numbers.delta, numbers.missing, numbers.unexpected) == (numbers.iceberg, (), ())


def test_a_vector_that_goes_brings_rows_back(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    writer.delete({0: [0, 3]})
    table = lake.register(writer.folder)
    before = row_ids(lake, table, 3)
    file = writer.files[0]
    removal = writer._removal(file)
    file.deleted = set()
    del file.add["deletionVector"]
    writer.commit([{"remove": removal}, {"add": file.add}])
    assert lake.rows(table) == as_rows(writer.rows[4])
    assert row_ids(lake, table, 4) == before
    assert statuses(lake, table, 4, deletes=True) == [("DELETED", 4, 4)]
    assert counters(lake, table, 4) == {
        "operation": "overwrite",
        "removed-delete-files": "1",
        "removed-position-deletes": "2",
        "total-data-files": "2",
        "total-records": "20",
        "total-delete-files": "0",
        "total-position-deletes": "0",
    }


@pytest.mark.parametrize("deleted", [{0, 3}, {0}, {0, 3, 4}, set()])
def test_rows_come_back_while_a_file_goes(lake, tmp_path, deleted):
    """As `RESTORE` writes it; a `DELETE` may take away a file and its vector, and more rows of another."""
    writer = delta_table(tmp_path / "t", files=3)
    writer.delete({0: [0, 3], 1: [0, 1, 2]})
    table = lake.register(writer.folder)
    file, gone = writer.files[:2]
    removals = [writer._removal(file), writer._removal(gone)]
    file.deleted = deleted
    vector = {"deletionVector": writer.store_vector(sorted(deleted), "u")} if deleted else {}
    file.add = {name: value for name, value in file.add.items() if name != "deletionVector"} | vector
    del writer.files[1]
    writer.commit([*({"remove": removal} for removal in removals), {"add": file.add}])
    assert lake.rows(table) == as_rows(writer.rows[5])
    # the same vector again restores nothing
    assert counters(lake, table, 5)["operation"] == ("overwrite" if len(deleted) < 2 else "delete")


def test_a_commit_may_do_all_at_once(lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=4)
    writer.delete({1: [1]})
    table = lake.register(writer.folder)
    before = row_ids(lake, table, 5)
    actions = []
    commit = writer.commit
    writer.commit = actions.extend
    writer.delete({0: [0], 1: [2]})
    writer.append(rows_of(100, 101))
    writer.remove([3])
    writer.commit = commit
    writer.commit(actions)
    assert lake.rows(table) == as_rows(writer.rows[6])
    after = row_ids(lake, table, 6)
    kept = before.keys() & after.keys()
    assert len(kept) == 3
    assert {path: after[path] for path in kept} == {path: before[path] for path in kept}
    found = counters(lake, table, 6)
    assert (found["operation"], found["added-data-files"], found["deleted-data-files"]) == (
        "overwrite",
        "1",
        "1",
    )
    assert (found["added-delete-files"], found["removed-delete-files"]) == ("2", "1")


def test_manifests_that_are_rewritten_at_once_have_names_in_order(open_lake, tmp_path, format_version):
    writer = delta_table(tmp_path / "t", files=12)
    writer.delete({place: [place % 10] for place in range(12)})
    made = []
    for _ in range(2):
        lake = open_lake(format_version=format_version)
        table = lake.register(writer.folder)
        if not made:
            writer.delete({place: [5] for place in (1, 4, 7)})
            writer.remove([10, 8, 6, 3, 0])
        assert lake.rows(table) == as_rows(writer.rows[writer.version])
        made.append(artifacts(writer.folder))
        shutil.rmtree(writer.folder / "metadata")
    assert made[0] == made[1]


def test_a_new_file_with_a_vector(lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=1)
    table = lake.register(writer.folder)
    vector = writer.store_vector([1], "i")
    writer.append(rows_of(50, 51, 52), deletionVector=vector)
    writer.files[1].deleted = {1}
    assert lake.rows(table) == sorted([*as_rows(writer.rows[1]), (50, "r50"), (52, "r52")])
    # one that takes only what is appended would read what is deleted
    assert counters(lake, table, 2)["operation"] == "overwrite"


def test_vectors_that_delete_nothing(lake, open_lake, tmp_path, format_version):
    writer = delta_table(tmp_path / "t", files=3)
    table = lake.register(writer.folder)
    writer.delete({0: [], 1: []}, storage="u")
    first, second, _ = writer.files
    assert lake.rows(table) == as_rows(writer.rows[4])
    # stale, stale, and another one of no rows
    writer.commit([tombstone(first), tombstone(second), tombstone(second, writer.store_vector([], "u"))])
    assert lake.rows(table) == as_rows(writer.rows[5])
    assert read_whole(open_lake, writer, format_version=format_version) == lake.rows(table)
    writer.delete({0: [2]})
    assert lake.rows(table) == as_rows(writer.rows[6])
    writer.remove([1])
    assert lake.rows(table) == as_rows(writer.rows[7])
    numbers = count_table(lake.kernel.store, lake.kernel.files, lake.delta_entry(table))
    assert (numbers.missing, numbers.unexpected, numbers.stray_deletes) == ((), (), ())


@pytest.mark.parametrize("has_vector", [False, True])
def test_two_vectors_at_once_are_refused(lake, tmp_path, has_vector):
    writer = delta_table(tmp_path / "t")
    if has_vector:
        writer.delete({0: [0]})
    table = lake.register(writer.folder)
    add = writer.files[0].add | {"deletionVector": writer.store_vector([0, 1], "u")}
    writer.commit([{"add": add}])
    with pytest.raises(InvalidDeltaTableError, match="two deletion vectors"):
        lake.load(table)


def test_a_file_of_another_size_is_another_file(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    file = writer.files[0]
    removal = writer._removal(file)
    file.add = file.add | {"size": file.add["size"] + 1, "deletionVector": writer.store_vector([0], "u")}
    writer.commit([{"remove": removal}, {"add": file.add}])
    found = counters(lake, table, 3)
    assert (found["added-data-files"], found["deleted-data-files"]) == ("1", "1")


def test_deletes_are_of_the_spec_of_their_data_files(lake, tmp_path):
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    writer = DeltaWriter(tmp_path / "t", schema, partitions=["p"], mapping="name")
    writer.append(pa.table({"id": [1, 2, 3], "p": ["a"] * 3}))
    writer.append(pa.table({"id": [4, 5, 6], "p": ["b"] * 3}))
    table = lake.register(writer.folder)
    fields = [writer.schema.field("id"), writer.schema.field("p").with_name("q")]
    writer.set_schema(pa.schema(fields), partitions=["q"])
    writer.delete({0: [1]})
    writer.delete({0: [2], 1: [0]})
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
    found = manifests_of(lake, table, writer.version)
    specs = {
        entry["file_path"]: manifest.spec_id
        for manifest in found
        for entry in manifest.entries
        if not manifest.deletes and entry["status"] != DELETED
    }
    for manifest in found:
        for entry in manifest.entries if manifest.deletes else ():
            if entry["status"] != DELETED:
                assert specs[entry["referenced_data_file"]] == manifest.spec_id


def test_copies_keep_their_entries(lake, tmp_path):
    schema = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.int64()))])
    writer = DeltaWriter(tmp_path / "t", schema, mapping="name")
    for start in (0, 10):
        ids = list(range(start, start + 5))
        writer.append(pa.table({"id": ids, "l": [[id] for id in ids]}, schema=schema))
    table = lake.register(writer.folder)
    before = row_ids(lake, table, 2)
    assert all("compat-df-" in path for path in before)
    for change in ({0: [0]}, {0: [1], 1: [4]}):
        writer.delete(change)
        rows = [(row["id"], row["l"]) for row in writer.rows[writer.version].to_pylist()]
        assert lake.rows(table) == sorted(rows)
        assert row_ids(lake, table, writer.version) == before
    writer.commit([tombstone(writer.files[0])])
    assert len(lake.rows(table)) == 7
    writer.remove([0])
    assert len(lake.rows(table)) == 4


def test_a_change_of_type_that_was_refused_is_so_in_later_versions(lake, tmp_path):
    def schema(type: pa.DataType) -> pa.Schema:
        return pa.schema([("id", type)])

    writer = DeltaWriter(tmp_path / "t", schema(pa.int32()))
    writer.append(pa.table({"id": pa.array([1, 2], pa.int32())}))
    table = lake.register(writer.folder)
    # not recorded in the schema, which is against the protocol
    writer.set_schema(schema(pa.float64()))
    writer.append(pa.table({"id": [0.5]}))
    for _ in range(2):
        with pytest.raises(UnsupportedDeltaTableError, match="integer to double"):
            lake.load(table)
        writer.commit([])
    writer.remove([0])
    assert lake.rows(table) == [(0.5,)]


def test_two_adds_of_a_file_in_one_commit_are_refused(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    file = writer.files[0]
    adds = [file.add | {"deletionVector": writer.store_vector([row], "u")} for row in (0, 1)]
    writer.commit([tombstone(file), *({"add": add} for add in adds)])
    with pytest.raises(InvalidDeltaTableError, match="two deletion vectors"):
        lake.load(table)


class History:
    """A table that random commits change, by the rules of Delta's reconciliation.

    Args:
        folder: the table.
        seed: of the random numbers.
        storages: kinds of storage of its deletion vectors.
        schema: `SCHEMA`, or with a list as the second column.
        writer_options: of `DeltaWriter`.
    """

    def __init__(
        self, folder: Path, seed: int, storages: str = "i", schema: pa.Schema = SCHEMA, **writer_options: Any
    ) -> None:
        self.random = random.Random(seed)
        self.storages = storages
        self.schema = schema
        self.writer = DeltaWriter(folder, schema, **writer_options)
        self.live: dict[str, dict[str, Any]] = {}
        """Adds of live files."""
        self.rows: dict[str, pa.Table] = {}
        self.vectors: dict[str, list[dict[str, Any]]] = {}
        """All that a file ever had."""
        self.positions: dict[str, set[int]] = {}

    def step(self) -> None:
        actions = self._new_files(self.random.randint(0, 2))
        paths = self.random.sample(sorted(self.rows), min(len(self.rows), 3))
        for path in paths:
            if all(action["add"]["path"] != path for action in actions if "add" in action):
                actions += self._change(path)
        self.random.shuffle(actions)
        self.writer.commit(actions)

    def expected(self) -> list[tuple[Any, ...]]:
        left = [self.schema.empty_table()]
        for path in self.live:
            rows = self.rows[path]
            left.append(rows.take(sorted(set(range(len(rows))) - self.positions[path])))
        return as_rows(pa.concat_tables(left))

    def _new_files(self, count: int) -> list[dict[str, Any]]:
        actions = []
        for _ in range(count):
            start = 10 * len(self.rows)
            rows = self._rows(range(start, start + 6))
            add = self.writer._write(rows, None, {}).add
            self.rows[add["path"]] = rows
            self.vectors[add["path"]] = []
            actions.append(self._add(add, self._positions() if self.random.random() < 0.3 else None))
        return actions

    def _rows(self, ids: range) -> pa.Table:
        if self.schema == SCHEMA:
            return rows_of(*ids)
        return pa.table({"id": list(ids), "s": [[id] for id in ids]}, schema=self.schema)

    def _store(self, positions: list[int]) -> dict[str, Any]:
        storage = self.storages if len(self.storages) == 1 else self.random.choice(self.storages)
        return self.writer.store_vector(positions, storage)

    def _change(self, path: str) -> list[dict[str, Any]]:
        live = self.live.get(path)
        actions = self._stale(path) if self.random.random() < 0.6 else []
        kind = self.random.choice(["vector", "vector", "remove", "again", "none"])
        if live is None:
            # a file that was removed comes back
            return (
                actions
                if kind != "again"
                else self._with(actions, self._add(self._bare(path), self._positions()))
            )
        if kind == "remove":
            del self.live[path]
            return [*actions, self._removal(path, live)]
        if kind == "again":
            self.live[path] = live | {"stats": '{"numRecords":6}'}
            return [*actions, {"add": self.live[path]}]
        if kind == "vector":
            positions = None if self.random.random() < 0.2 else self._positions()
            add = self._add(live, positions)["add"]
            if add.get("deletionVector") == live.get("deletionVector"):
                return actions
            return self._with(actions, self._removal(path, live), {"add": add})
        return actions

    def _with(self, actions: list[dict[str, Any]], *more: dict[str, Any]) -> list[dict[str, Any]]:
        """Actions without those tombstones that are about the same file as others."""
        keys = {self._key(action) for action in more}
        return [*(action for action in actions if self._key(action) not in keys), *more]

    @staticmethod
    def _key(action: dict[str, Any]) -> tuple[Any, ...]:
        file = next(iter(action.values()))
        return file["path"], file.get("deletionVector", {}).get("pathOrInlineDv")

    def _stale(self, path: str) -> list[dict[str, Any]]:
        """Tombstones of what the file was, or never was."""
        live = self.live.get(path, {}).get("deletionVector") if path in self.live else "nothing"
        candidates = [None, *self.vectors[path], self._store([1, 2, 3, 4, 5])]
        stale = [vector for vector in candidates if vector != live]
        chosen = self.random.sample(stale, self.random.randint(0, len(stale)))
        found: list[dict[str, Any]] = []
        for vector in chosen:
            found = self._with(found, self._removal(path, {"deletionVector": vector} if vector else {}))
        return found

    def _removal(self, path: str, file: Mapping[str, Any]) -> dict[str, Any]:
        vector = file.get("deletionVector")
        removal = {"path": path, "deletionTimestamp": 0, "dataChange": True}
        return {"remove": removal | ({"deletionVector": vector} if vector else {})}

    def _bare(self, path: str) -> dict[str, Any]:
        size = (self.writer.folder / path).stat().st_size
        return {"path": path, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}

    def _add(self, add: Mapping[str, Any], positions: set[int] | None) -> dict[str, Any]:
        made = {key: value for key, value in add.items() if key != "deletionVector"}
        path = made["path"]
        self.positions[path] = positions or set()
        if positions is not None:
            made["deletionVector"] = self._store(sorted(positions))
            self.vectors[path].append(made["deletionVector"])
        self.live[path] = made
        return {"add": made}

    def _positions(self) -> set[int]:
        # none at all is a vector, too
        return set(self.random.sample(range(6), self.random.randint(0, 3)))


@pytest.mark.parametrize("seed", range(6))
def test_random_histories(lake, open_lake, tmp_path, format_version, seed):
    history = History(tmp_path / "t", seed)
    table = lake.register(history.writer.folder)
    ids: dict[str, int | None] = {}
    for step in range(14):
        before = dict(history.live)
        history.step()
        assert lake.rows(table) == history.expected()
        if step % 5 == 4:
            assert read_whole(open_lake, history.writer, format_version=format_version) == history.expected()
        now = row_ids(lake, table, history.writer.version)
        assert len(now) == len(history.live)
        if format_version == 3:
            # all but what comes back, is given anew as it is, or has a vector of no rows
            for location in now.keys() & ids.keys():
                path = location.rpartition("/")[2]
                old, new = before[path], history.live[path]
                changed = old.get("deletionVector") != new.get("deletionVector")
                if (old is new or changed) and not any(
                    file.get("deletionVector", {}).get("cardinality") == 0 for file in (old, new)
                ):
                    assert now[location] == ids[location]
        ids = now
    numbers = count_table(lake.kernel.store, lake.kernel.files, lake.delta_entry(table))
    assert (numbers.missing, numbers.unexpected, numbers.stray_deletes) == ((), (), ())
    assert numbers.iceberg.rows == 6 * len(history.live)
    assert numbers.delta.deleted_rows == numbers.iceberg.deleted_rows


def live_entries(lake, table, version: int) -> list[tuple[Any, ...]]:
    """What the live entries of a version say of files, however the version was made."""
    found = []
    for manifest in manifests_of(lake, table, version):
        for entry in manifest.entries:
            if entry["status"] != DELETED:
                path = entry["file_path"]
                path = vector_digest_of(path) if manifest.deletes else path
                referenced = entry["referenced_data_file"] or ""
                found.append(
                    (manifest.spec_id, path, referenced, entry["record_count"], entry["file_size_in_bytes"])
                )
    return sorted(found)


def whole_entries(open_lake, folder: Path, version: int, **settings: Any) -> list[tuple[Any, ...]]:
    """The live entries of the newest version, made at the same place from the state of the log alone."""
    made, aside = folder / "metadata", folder / "metadata-aside"
    made.rename(aside)
    try:
        lake = open_lake(max_versions_in_request=1, **settings)
        return live_entries(lake, lake.register(folder, "whole"), version)
    finally:
        shutil.rmtree(made)
        aside.rename(made)


LISTS = pa.schema([("id", pa.int64()), ("s", pa.list_(pa.int64()))])


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        *((seed, {"storages": "uip"}) for seed in range(100, 102)),
        # data files are copied, and their entries go by the copies
        (102, {"storages": "uip", "schema": LISTS, "mapping": "name"}),
    ],
)
def test_a_version_from_its_commit_is_that_from_the_whole_state(
    lake, open_lake, tmp_path, format_version, seed, options
):
    history = History(tmp_path / "t", seed, **options)
    table = lake.register(history.writer.folder)
    for step in range(16):
        history.step()
        version = history.writer.version
        found = live_entries(lake, table, version)
        if step % 3 == 2:
            assert found == whole_entries(
                open_lake, history.writer.folder, version, format_version=format_version
            )
    assert lake.rows(table) == history.expected()
    assert ("compat-df-" in str(found)) == (history.schema is LISTS)
