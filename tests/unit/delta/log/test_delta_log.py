from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from floecat.delta.log import log_reader as delta_log_reader
from floecat.delta.log.delta_log import DeltaLog, LogListing
from floecat.delta.log.log_bounds import LogBounds, TooLargeError
from floecat.delta.protocol.actions import Commit, CommitInfo, Protocol, Snapshot
from floecat.errors import (
    FileMissingError,
    FloecatError,
    InvalidDeltaTableError,
    LocationNotAllowedError,
    StorageUnavailableError,
    UnavailableError,
    UnsupportedDeltaTableError,
)
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations
from floecat.settings.limits import LimitSettings
from floecat.working_memory import WorkingMemory
from tests.delta_tables import FIRST_VERSION_AT_S, TableFacts, all_tables, delta_table, large_table
from tests.services.faults import FaultyFileIO
from tests.unit.delta.log_lines import (
    PARTITIONED,
    PROTOCOL,
    add,
    checkpoint_bytes,
    commit_bytes,
    descriptor,
    metadata,
    remove,
    schema_string,
)

FIRST_AT_MS = 1_700_000_000_000
UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


class LogOnDisk:
    """A table whose log a test writes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = FaultyFileIO(LocalFileIO(fsync=False))
        self.log = self.bounded()

    def bounded(self, *, in_request: bool = False, **limits: int) -> DeltaLog:
        """A reader with bounds."""
        bounds = LogBounds(LimitSettings(**limits), in_request)
        return DeltaLog(self.files, AllowedLocations([str(self.root)]), str(self.root), bounds=bounds)

    def put(self, name: str, data: bytes, at_ms: int | None = None) -> Path:
        path = self.root / "_delta_log" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        version = int(name[:20]) if name[:20].isdigit() else 0
        at_s = (FIRST_AT_MS + version * 1000 if at_ms is None else at_ms) / 1000
        os.utime(path, (at_s, at_s))
        return path

    def commit(self, version: int, *actions: Mapping[str, Any], at_ms: int | None = None) -> Path:
        return self.put(f"{version:020}.json", commit_bytes(*actions), at_ms)

    def checkpoint(self, version: int, *actions: Mapping[str, Any]) -> Path:
        return self.put(f"{version:020}.checkpoint.parquet", checkpoint_bytes(*actions))

    def snapshot(self, version: int | None = None) -> Snapshot:
        listing = self.log.listing()
        return self.log.snapshot(listing, listing.latest if version is None else version)

    def live(self, version: int | None = None) -> list[str]:
        return sorted(self.snapshot(version).files["path"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> LogOnDisk:
    return LogOnDisk(tmp_path / "t")


@pytest.fixture
def started(table: LogOnDisk) -> LogOnDisk:
    table.commit(
        0,
        {"commitInfo": {"operation": "CREATE"}},
        PROTOCOL,
        PARTITIONED,
        add("a", partitionValues={"p": "1"}),
    )
    table.commit(
        1, {"commitInfo": {"operation": "WRITE"}}, add("b%20", partitionValues={"p": "2"}, stats="{}")
    )
    table.commit(2, remove("a"), add("c", deletionVector=descriptor()))
    return table


def open_table(name: str) -> DeltaLog:
    folder = delta_table(name)
    return DeltaLog(LocalFileIO(fsync=False), AllowedLocations([str(folder)]), str(folder))


# states and changes


def test_a_state(started: LogOnDisk) -> None:
    snapshot = started.snapshot()
    assert (snapshot.version, snapshot.timestamp_ms) == (2, FIRST_AT_MS + 2000)
    assert snapshot.protocol == Protocol(1, 2)
    assert snapshot.metadata.partition_columns == ("p",)
    assert sorted(snapshot.files["path"].to_pylist()) == ["b ", "c"]
    assert snapshot.files["partition_values"].to_pylist() == [{"p": "2"}, {"p": None}]
    assert started.live(0) == ["a"]
    assert started.live(1) == ["a", "b "]


def test_the_changes_of_a_version(started: LogOnDisk) -> None:
    snapshot = started.snapshot(1)
    commit = started.log.commit(2, snapshot.metadata, snapshot.protocol)
    assert (commit.version, commit.timestamp_ms) == (2, FIRST_AT_MS + 2000)
    assert (commit.protocol, commit.metadata, commit.commit_info) == (None, None, None)
    assert commit.adds["path"].to_pylist() == ["c"]
    assert commit.removes.to_pylist() == [{"path": "a", "dv_id": None}]
    first = started.log.commit(0, snapshot.metadata, snapshot.protocol)
    assert first.protocol == Protocol(1, 2)
    assert first.metadata == snapshot.metadata
    assert first.commit_info == CommitInfo(operation="CREATE")


def test_changes_in_order(started: LogOnDisk) -> None:
    listing = started.log.listing()
    commits = list(started.log.commits(listing, 0, 2))
    assert [(commit.version, commit.adds["path"].to_pylist()) for commit in commits] == [
        (1, ["b "]),
        (2, ["c"]),
    ]
    assert commits[0].adds["partition_values"].to_pylist() == [{"p": "2"}]
    assert [commit.version for commit in started.log.commits(listing, -1, 1)] == [0, 1]
    assert list(started.log.commits(listing, 2, 2)) == []
    with pytest.raises(InvalidDeltaTableError, match="Version 3 is missing"):
        list(started.log.commits(listing, 1, 3))


def test_a_listing_of_what_is_new_is_enough_for_changes(started: LogOnDisk) -> None:
    known = started.snapshot(1)
    started.files.calls.clear()
    listing = started.log.listing(after=1)
    assert (listing.latest, listing.versions) == (2, (2,))
    started.log.commit(2, known.metadata, known.protocol)
    assert [kind for kind, _ in started.files.calls] == ["list", "read"]


def test_a_listing_of_what_is_new_is_completed_for_a_state(started: LogOnDisk) -> None:
    listing = started.log.listing(after=1)
    assert sorted(started.log.snapshot(listing, 2).files["path"].to_pylist()) == ["b ", "c"]
    assert [commit.version for commit in started.log.commits(listing, 1, 2)] == [2]
    started.checkpoint(2, PROTOCOL, PARTITIONED, add("b%20"), add("c"))
    assert sorted(started.log.snapshot(started.log.listing(after=1), 2).files["path"].to_pylist()) == [
        "b ",
        "c",
    ]


def test_a_commit_is_read_without_a_listing(started: LogOnDisk) -> None:
    known = started.snapshot(1)
    fresh = DeltaLog(started.files, AllowedLocations([str(started.root)]), str(started.root))
    assert fresh.commit(2, known.metadata, known.protocol).timestamp_ms == FIRST_AT_MS + 2000
    with pytest.raises(InvalidDeltaTableError, match="Version 5 is missing"):
        fresh.commit(5, known.metadata, known.protocol)


def test_all_versions_may_be_asked_for_as_after_minus_one(started: LogOnDisk) -> None:
    listing = started.log.listing(after=-1)
    assert (listing.after, listing.versions) == (None, (0, 1, 2))


def test_a_commit_that_changes_the_partitioning(table: LogOnDisk) -> None:
    table.commit(0, PROTOCOL, PARTITIONED, add("a", partitionValues={"p": "1"}))
    replaced = metadata(schema_string("a", "q"), ["q"])
    table.commit(1, add("b", partitionValues={"q": "2"}), replaced, remove("a", partitionValues={"p": "1"}))
    known = table.snapshot(0)
    assert known.files["partition_values"].to_pylist() == [{"p": "1"}]
    commit = table.log.commit(1, known.metadata, known.protocol)
    assert commit.metadata is not None
    assert commit.metadata.partition_columns == ("q",)
    assert commit.adds["partition_values"].to_pylist() == [{"q": "2"}]
    assert table.snapshot().files["partition_values"].to_pylist() == [{"q": "2"}]


def test_values_of_mapped_partitions_have_physical_names(table: LogOnDisk) -> None:
    schema = schema_string("a", "p", p={"delta.columnMapping.physicalName": "col-1"})
    mapped = metadata(schema, ["p"], delta__columnMapping__mode="name")
    table.commit(
        0,
        {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
        mapped,
        add("x", partitionValues={"col-1": "1"}),
    )
    assert table.snapshot().files["partition_values"].to_pylist() == [{"col-1": "1"}]


# checkpoints


def test_a_state_from_a_checkpoint(started: LogOnDisk) -> None:
    started.checkpoint(1, PROTOCOL, PARTITIONED, add("a"), add("b%20"), remove("old"))
    (started.root / "_delta_log" / "00000000000000000000.json").unlink()
    listing = started.log.listing()
    assert (listing.oldest, listing.versions) == (1, (1, 2))
    assert started.live(1) == ["a", "b "]
    assert started.live(2) == ["b ", "c"]
    assert [commit.version for commit in started.log.commits(listing, 1, 2)] == [2]


@pytest.mark.parametrize("form", ["json", "parquet", "classic"])
def test_a_checkpoint_with_sidecars(started: LogOnDisk, form: str) -> None:
    sidecars = [
        {"sidecar": {"path": f"{name}.parquet", "sizeInBytes": 1, "modificationTime": 1}} for name in "xy"
    ]
    actions = [{"checkpointMetadata": {"version": 1}}, PROTOCOL, PARTITIONED, *sidecars]
    name = {
        "json": f"checkpoint.{UUID}.json",
        "parquet": f"checkpoint.{UUID}.parquet",
        "classic": "checkpoint.parquet",
    }[form]
    data = commit_bytes(*actions) if form == "json" else checkpoint_bytes(*actions)
    started.put(f"{1:020}.{name}", data)
    started.put("_sidecars/x.parquet", checkpoint_bytes(add("a", partitionValues={"p": "1"})))
    last = started.put(
        "_sidecars/y.parquet", checkpoint_bytes(add("b%20", partitionValues={"p": "2"}), remove("z"))
    )
    assert started.live(1) == ["a", "b "]
    snapshot = started.snapshot(2)
    assert sorted(snapshot.files["path"].to_pylist()) == ["b ", "c"]
    assert snapshot.files["partition_values"].to_pylist() == [{"p": "2"}, {"p": None}]
    (started.root / "_delta_log" / f"{0:020}.json").unlink()
    last.write_bytes(last.read_bytes()[:-10])
    with pytest.raises(
        InvalidDeltaTableError, match=r"_sidecars/y\.parquet is damaged .*; Version 0 is missing"
    ):
        started.snapshot(2)
    last.unlink()
    with pytest.raises(
        InvalidDeltaTableError, match=r"sidecar of a Delta checkpoint is missing: .*_sidecars/y\.parquet"
    ):
        started.snapshot(2)


def test_a_sidecar_that_is_a_link_is_not_followed_outside(started: LogOnDisk, tmp_path: Path) -> None:
    (tmp_path / "outside.parquet").write_bytes(checkpoint_bytes(add("secret")))
    started.put(
        f"{2:020}.checkpoint.{UUID}.json",
        commit_bytes(PROTOCOL, PARTITIONED, {"sidecar": {"path": "x.parquet"}}),
    )
    (started.root / "_delta_log" / "_sidecars").mkdir()
    (started.root / "_delta_log" / "_sidecars" / "x.parquet").symlink_to(tmp_path / "outside.parquet")
    with pytest.raises(InvalidDeltaTableError, match="symbolic link"):
        started.snapshot()


def test_a_checkpoint_in_parts(started: LogOnDisk) -> None:
    parts = [[PROTOCOL, add("a")], [add("b%20"), PARTITIONED], [{"txn": {"appId": "a", "version": 1}}]]
    paths = [
        started.put(f"{1:020}.checkpoint.{number:010}.{len(parts):010}.parquet", checkpoint_bytes(*part))
        for number, part in enumerate(parts, start=1)
    ]
    (started.root / "_delta_log" / "00000000000000000000.json").unlink()
    assert started.live() == ["b ", "c"]
    paths[1].unlink()
    with pytest.raises(
        InvalidDeltaTableError, match=r"Version 0 is missing .* part .*0000000002\.0000000003\.parquet"
    ):
        started.snapshot()


def test_an_incomplete_checkpoint_is_passed_over(started: LogOnDisk) -> None:
    started.put(f"{1:020}.checkpoint.{1:010}.{2:010}.parquet", checkpoint_bytes(add("wrong")))
    assert started.live() == ["b ", "c"]


@pytest.mark.parametrize("hint", [b'{"version":77,"size":1}', b"{broken", b""])
def test_the_hint_of_the_last_checkpoint_is_not_trusted(started: LogOnDisk, hint: bytes) -> None:
    started.put("_last_checkpoint", hint)
    assert started.live() == ["b ", "c"]


def test_log_compactions_stand_for_commits(started: LogOnDisk) -> None:
    started.put(f"{1:020}.{2:020}.compacted.json", commit_bytes(add("c"), add("compacted"), remove("a")))
    assert started.live() == ["c", "compacted"]
    assert started.live(1) == ["a", "b "]


# what is missing or broken


def test_a_gap_is_an_error(started: LogOnDisk) -> None:
    (started.root / "_delta_log" / "00000000000000000001.json").unlink()
    listing = started.log.listing()
    for read in (lambda: started.log.snapshot(listing, 2), lambda: listing.versions, lambda: listing.oldest):
        with pytest.raises(InvalidDeltaTableError, match="Version 1 is missing"):
            read()
    with pytest.raises(InvalidDeltaTableError, match="Version 1 is missing"):
        started.log.metadata_history(listing)


def test_no_log(table: LogOnDisk) -> None:
    with pytest.raises(InvalidDeltaTableError, match="There is no Delta log in file://"):
        table.log.listing()
    table.put("_last_checkpoint", b"{}")
    with pytest.raises(InvalidDeltaTableError, match="There is no Delta log"):
        table.log.listing()
    assert table.log.listing(after=3).latest == 3


@pytest.mark.parametrize(
    ("actions", "lacks"), [([PROTOCOL, add("a")], "metadata"), ([PARTITIONED, add("a")], "protocol")]
)
def test_protocol_and_metadata_must_be_there(
    table: LogOnDisk, actions: list[dict[str, Any]], lacks: str
) -> None:
    table.commit(0, *actions)
    with pytest.raises(InvalidDeltaTableError, match=f"has no {lacks} at version 0"):
        table.snapshot()
    with pytest.raises(InvalidDeltaTableError, match=f"has no {lacks}"):
        list(table.log.commits(table.log.listing(), -1, 0))
    with pytest.raises(InvalidDeltaTableError, match=f"has no {lacks}"):
        table.log.metadata_history(table.log.listing())


def test_a_broken_line_is_named(started: LogOnDisk) -> None:
    started.put(f"{2:020}.json", commit_bytes(add("c")) + b'{"add":{"path":"secret"')
    with pytest.raises(
        InvalidDeltaTableError, match=r"Line 2 of .*/_delta_log/00000000000000000002\.json"
    ) as raised:
        started.snapshot()
    assert "secret" not in raised.value.message
    started.put(f"{2:020}.json", b"")
    with pytest.raises(InvalidDeltaTableError, match=r"00000000000000000002\.json of the log is empty"):
        started.snapshot()


def test_unknown_features_are_refused_before_files_are_read(table: LogOnDisk) -> None:
    unknown = {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["deletionVectors", "new"],
            "writerFeatures": ["deletionVectors", "new"],
        }
    }
    table.commit(0, PROTOCOL, PARTITIONED, add("a"))
    table.commit(1, unknown, {"add": {"path": "in a way not known"}})
    known = table.snapshot(0)
    for read in (table.snapshot, lambda: table.log.commit(1, known.metadata, known.protocol)):
        with pytest.raises(UnsupportedDeltaTableError, match="not supported: new"):
            read()


def test_a_file_that_is_cleaned_up_meanwhile(started: LogOnDisk) -> None:
    listing = started.log.listing()
    (started.root / "_delta_log" / "00000000000000000001.json").unlink()
    with pytest.raises(FileMissingError, match=r"00000000000000000001\.json"):
        started.log.snapshot(listing, 2)
    with pytest.raises(FileMissingError):
        list(started.log.commits(listing, 0, 2))


def test_a_commit_that_comes_meanwhile_is_not_seen(started: LogOnDisk) -> None:
    listing = started.log.listing()
    started.commit(3, add("d"))
    assert listing.latest == 2
    assert sorted(started.log.snapshot(listing, 2).files["path"].to_pylist()) == ["b ", "c"]


def test_other_files_in_the_folder(started: LogOnDisk) -> None:
    for name in [
        "_changes/00000000000000000003.json",
        "_staged_commits/00000000000000000003.json",
        ".tmp",
        f"{3:020}.json.tmp",
    ]:
        started.put(name, b"secret")
    assert started.log.listing().latest == 2


def test_failures_of_storage_go_through(started: LogOnDisk) -> None:
    listing = started.log.listing()
    started.files.fail("read", nth=2)
    with pytest.raises(StorageUnavailableError):
        started.log.snapshot(listing, 2)


def test_places_that_are_not_allowed(started: LogOnDisk, tmp_path: Path) -> None:
    with pytest.raises(LocationNotAllowedError):
        DeltaLog(started.files, AllowedLocations([f"{tmp_path}/other"]), str(started.root))
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "_delta_log").symlink_to(started.root / "_delta_log")
    log = DeltaLog(started.files, AllowedLocations([f"{tmp_path}/linked"]), f"{tmp_path}/linked")
    with pytest.raises(InvalidDeltaTableError, match="symbolic link"):
        log.listing()


# times and history


def test_times_of_files_are_made_to_grow(table: LogOnDisk) -> None:
    table.commit(0, PROTOCOL, PARTITIONED, at_ms=FIRST_AT_MS)
    table.commit(1, add("a"), at_ms=FIRST_AT_MS - 5000)
    table.commit(2, add("b"), at_ms=FIRST_AT_MS)
    assert [table.snapshot(version).timestamp_ms - FIRST_AT_MS for version in range(3)] == [0, 1, 2]
    commits = table.log.commits(table.log.listing(), -1, 2)
    assert [commit.timestamp_ms - FIRST_AT_MS for commit in commits] == [0, 1, 2]


def test_in_commit_times_once_they_are_enabled(table: LogOnDisk) -> None:
    enabled = metadata(delta__enableInCommitTimestamps="true", delta__inCommitTimestampEnablementVersion="1")
    table.commit(0, {"commitInfo": {"inCommitTimestamp": 3}}, PROTOCOL, PARTITIONED)
    table.commit(1, {"commitInfo": {"inCommitTimestamp": 9}}, enabled)
    table.commit(2, {"commitInfo": {"inCommitTimestamp": 10}}, add("a"))
    table.commit(3, {"commitInfo": {}}, add("b"))
    assert [table.snapshot(version).timestamp_ms for version in range(3)] == [FIRST_AT_MS, 9, 10]
    commits = list(table.log.commits(table.log.listing(), -1, 2))
    assert [commit.timestamp_ms for commit in commits] == [FIRST_AT_MS, 9, 10]
    with pytest.raises(
        InvalidDeltaTableError, match=r"00000000000000000003\.json lacks the in-commit timestamp"
    ):
        table.snapshot(3)


@pytest.mark.parametrize("compacted", [False, True])
def test_in_commit_times_of_a_version_that_has_a_checkpoint(table: LogOnDisk, compacted: bool) -> None:
    enabled = metadata(delta__enableInCommitTimestamps="true")
    table.commit(0, {"commitInfo": {"inCommitTimestamp": 8}}, PROTOCOL, enabled)
    path = table.commit(1, {"commitInfo": {"inCommitTimestamp": 9}}, add("a"))
    if compacted:
        table.put(f"{0:020}.{1:020}.compacted.json", commit_bytes(PROTOCOL, enabled, add("a")))
    else:
        table.checkpoint(1, PROTOCOL, enabled, add("a"))
    assert table.snapshot(1).timestamp_ms == 9
    if not compacted:
        path.unlink()
        assert table.snapshot(1).timestamp_ms == FIRST_AT_MS + 1000


def test_the_history_of_the_metadata(table: LogOnDisk) -> None:
    changes = [metadata(schema_string("a", *"bcd"[:number], "p"), ["p"]) for number in range(4)]
    table.commit(0, PROTOCOL, changes[0])
    table.commit(1, add("a"), changes[1])
    table.commit(2, add("b", partitionValues={"p": "metaData"}))
    table.commit(3, {"metaData": {"id": "not yet known"}})
    table.commit(4, changes[2])
    listing = table.log.listing()
    assert [version for version, _ in table.log.metadata_history(listing)] == [0, 1, 4]
    assert table.log.metadata_history(listing)[1][1].schema_string == changes[1]["metaData"]["schemaString"]
    assert [version for version, _ in table.log.metadata_history(table.log.listing(after=1))] == [4]
    assert table.log.metadata_history(table.log.listing(after=4)) == []
    table.checkpoint(2, PROTOCOL, changes[1], add("a"), add("b"))
    (table.root / "_delta_log" / "00000000000000000001.json").unlink()
    history = table.log.metadata_history(table.log.listing())
    assert [version for version, _ in history] == [0, 2, 4]
    assert history[1][1].schema_string == changes[1]["metaData"]["schemaString"]


def test_what_is_broken_before_the_newest_checkpoint_is_not_in_the_history(table: LogOnDisk) -> None:
    first = table.commit(0, PROTOCOL, PARTITIONED)
    second = table.commit(1, metadata(schema_string("a", "b", "p"), ["p"]))
    table.commit(2, add("x"))
    table.checkpoint(2, PROTOCOL, PARTITIONED, add("x"))
    third = table.commit(3, PARTITIONED)
    for broken in (first, second):
        broken.write_bytes(b'{"metaData":{"schemaString":')
    assert [version for version, _ in table.log.metadata_history(table.log.listing())] == [2, 3]
    assert table.live() == ["x"]
    third.write_bytes(b'{"metaData":{"schemaString":')
    with pytest.raises(InvalidDeltaTableError, match="Line 1 of"):
        table.log.metadata_history(table.log.listing())


# tables that others wrote


@pytest.mark.parametrize("facts", all_tables(), ids=lambda facts: facts.name)
def test_every_table_reads_or_is_refused_for_a_reason(facts: TableFacts) -> None:
    log = open_table(facts.name)
    refused = _REFUSED.get(facts.name)
    if refused is not None:
        kind, reason = refused
        with pytest.raises(kind, match=reason):
            log.snapshot(listing := log.listing(), listing.latest)
        return
    listing = log.listing()
    assert listing.versions == tuple(range(facts.versions))
    _check_versions(log, listing, first=1 if facts.name == _WITHOUT_SCHEMA_AT_FIRST else 0)


def _check_versions(log: DeltaLog, listing: LogListing, first: int) -> None:
    """The state at a version is that of the version before, changed by its commit."""
    state: dict[tuple[str, str | None], Any] = {}
    before: Snapshot | None = None
    for commit in log.commits(listing, first - 1, listing.latest):
        snapshot = log.snapshot(listing, commit.version)
        for key in _keys(commit.removes):
            state.pop(key, None)
        state.update(zip(_keys(commit.adds), _facts(commit), strict=True))
        assert dict(zip(_keys(snapshot.files), _facts(snapshot), strict=True)) == state
        assert commit.protocol in (None, snapshot.protocol)
        assert commit.metadata in (None, snapshot.metadata)
        if before is not None:
            assert snapshot.protocol == (commit.protocol or before.protocol)
            assert snapshot.metadata == (commit.metadata or before.metadata) or listing.checkpoint(
                commit.version
            )
        assert snapshot.timestamp_ms == commit.timestamp_ms
        before = snapshot


def _keys(table: pa.Table) -> list[tuple[str, str | None]]:
    return list(zip(table["path"].to_pylist(), table["dv_id"].to_pylist(), strict=True))


def _facts(of: Commit | Snapshot) -> list[Any]:
    files = of.adds if isinstance(of, Commit) else of.files
    columns: list[Any] = files.select(
        ["size_bytes", "modified_at_ms", "partition_values", "deletion_vector"]
    ).to_pylist()
    return columns


_WITHOUT_SCHEMA_AT_FIRST = "delta-rs/delta-live-table"

_REFUSED: dict[str, tuple[type[FloecatError], str]] = {
    "delta-rs/simple_table_features": (UnsupportedDeltaTableError, "reader version 5 and .*: blahabl"),
    "delta/catalog-owned-preview": (UnsupportedDeltaTableError, "catalogManaged"),
    "delta/spark-shredded-variant-preview-delta": (UnsupportedDeltaTableError, "variantShredding-preview"),
    "delta/variant-stats-state-reconstruction": (UnsupportedDeltaTableError, "variantShredding-preview"),
    "golden/deltalog-commit-info/delta": (InvalidDeltaTableError, "no schema"),
    "golden/deltalog-invalid-protocol-version/delta": (UnsupportedDeltaTableError, "reader version 99"),
    "golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata/delta": (
        InvalidDeltaTableError,
        "has no metadata at version 10",
    ),
    "golden/deltalog-state-reconstruction-without-metadata/delta": (
        InvalidDeltaTableError,
        "has no metadata",
    ),
    "golden/deltalog-state-reconstruction-without-protocol/delta": (
        InvalidDeltaTableError,
        "has no protocol",
    ),
    "golden/update-deleted-directory/delta": (InvalidDeltaTableError, "no schema"),
    "golden/versions-not-contiguous/delta": (InvalidDeltaTableError, "Version 1 is missing"),
}


_READ_BY_OTHERS = [
    facts
    # The other reader does not canonicalize paths.
    for facts in all_tables()
    if facts.name not in _REFUSED and "canonicalized-paths" not in facts.name
]


@pytest.mark.parametrize("facts", _READ_BY_OTHERS, ids=lambda facts: facts.name)
def test_live_files_are_those_that_another_reader_sees(facts: TableFacts) -> None:
    folder = delta_table(facts.name)
    log = open_table(facts.name)
    for version in log.listing().versions:
        if facts.name == _WITHOUT_SCHEMA_AT_FIRST and version == 0:
            continue
        others = DeltaTable(str(folder), version=version).file_uris()
        mine = sorted(log.snapshot(log.listing(), version).files["path"].to_pylist())
        expected = sorted(uri.removeprefix(f"{folder}/") for uri in others)
        assert mine == expected, version


def test_a_table_whose_schema_came_later() -> None:
    log = open_table(_WITHOUT_SCHEMA_AT_FIRST)
    listing = log.listing()
    assert [version for version, _ in log.metadata_history(listing)] == [1]
    with pytest.raises(InvalidDeltaTableError, match="has no schema"):
        log.snapshot(listing, 0)
    known = log.snapshot(listing, 1)
    with pytest.raises(InvalidDeltaTableError, match="has no schema"):
        log.commit(0, known.metadata, known.protocol)


@pytest.mark.parametrize("name", ["canonicalized-paths-normal-a", "canonicalized-paths-normal-b"])
def test_another_spelling_of_a_path_removes_a_file(name: str) -> None:
    log = open_table(f"golden/{name}/delta")
    listing = log.listing()
    assert log.snapshot(listing, 0).files["path"].to_pylist() == ["file:///some/unqualified/absolute/path"]
    assert len(log.snapshot(listing, 1).files) == 0


def test_a_file_that_was_deleted_and_added_again() -> None:
    log = open_table("golden/delete-re-add-same-file-different-transactions/delta")
    files = log.snapshot(log.listing(), 3).files.sort_by("path")
    assert files["path"].to_pylist() == ["bar", "foo"]
    assert files["modified_at_ms"].to_pylist()[1] == 1_700_000_000_000


def test_partition_values_are_not_decoded() -> None:
    log = open_table("golden/data-reader-escaped-chars/delta")
    files = log.snapshot(log.listing(), 2).files.sort_by("path")
    assert files["partition_values"].to_pylist() == [{"_2": f"bar+%{number}"} for number in (21, 22, 23)]
    assert all(
        (delta_table("golden/data-reader-escaped-chars/delta") / path).exists()
        for path in files["path"].to_pylist()
    )


@pytest.mark.parametrize(
    "name",
    [
        "delta-rs/delta-1.2.1-only-struct-stats",
        "kernel-rs/v1-multi-part-struct-stats-only",
        "kernel-rs/v2-json-sidecars-struct-stats-only",
        "kernel-rs/v2-parquet-sidecars-struct-stats-only",
    ],
)
def test_struct_statistics_of_checkpoints(name: str) -> None:
    log = open_table(name)
    files = log.snapshot(listing := log.listing(), listing.latest).files
    texts, structs = files["stats"].to_pylist(), files["stats_parsed"].to_pylist()
    assert any(structs)
    for text, struct in zip(texts, structs, strict=True):
        assert (text is None) != (struct is None)
        assert struct is None or struct["numRecords"] > 0


def test_in_commit_times_of_a_table_that_has_them() -> None:
    log = open_table("delta-rs/cdc_ict_table")
    listing = log.listing()
    times = [log.snapshot(listing, version).timestamp_ms for version in listing.versions]
    # The second one was changed by those who made the table, to tell it from the time of the writer.
    assert times == [1783874203271, 1683874206883, 1783874212175, 1783874213881]


def test_times_of_files_of_a_table_that_has_no_others() -> None:
    log = open_table("golden/snapshot-data3/delta")
    listing = log.listing()
    times = [log.snapshot(listing, version).timestamp_ms for version in listing.versions]
    assert times == [(FIRST_VERSION_AT_S + version) * 1000 for version in listing.versions]


def test_a_log_of_checkpoints_only(tmp_path: Path) -> None:
    shutil.copytree(delta_table("golden/only-checkpoint-files/delta"), tmp_path / "t")
    table = LogOnDisk(tmp_path / "t")
    expected = {version: table.live(version) for version in (1, 2)}
    for commit in (tmp_path / "t" / "_delta_log").glob("*.json"):
        commit.unlink()
    listing = table.log.listing()
    assert (listing.versions, listing.oldest, listing.latest) == ((1, 2), 2, 2)
    assert {version: table.live(version) for version in listing.versions} == expected
    assert listing.fingerprint is not None
    assert [version for version, _ in table.log.metadata_history(listing)] == [1, 2]


def test_a_large_table() -> None:
    log = DeltaLog(LocalFileIO(fsync=False), AllowedLocations(["/"]), str(large_table()))
    listing = log.listing()
    snapshot = log.snapshot(listing, listing.latest)
    assert len(snapshot.files) == 300_000
    assert snapshot.files.nbytes < 100_000_000
    first, second = (
        snapshot.files.select(["path", "partition_values"]).sort_by("path").slice(0, 2).to_pylist()
    )
    assert first == {"path": "part_0/file_0.parquet", "partition_values": {"partition_col": "part_0"}}
    assert second["path"] == "part_0/file_100.parquet"
    assert len(log.metadata_history(listing)) == 1


@pytest.fixture
def many_commits(table: LogOnDisk) -> LogOnDisk:
    table.commit(0, PROTOCOL, PARTITIONED)
    for version in range(1, 60):
        table.commit(version, add(f"{version:03}"))
    return table


def test_files_are_read_once_each_and_in_order(many_commits: LogOnDisk) -> None:
    listing = many_commits.log.listing()
    many_commits.files.calls.clear()
    assert sorted(many_commits.log.snapshot(listing, 59).files["path"].to_pylist()) == [
        f"{version:03}" for version in range(1, 60)
    ]
    read = [location for kind, location in many_commits.files.calls if kind == "read"]
    assert len(read) == len(set(read)) == 60
    assert [commit.version for commit in many_commits.log.commits(listing, 10, 59)] == list(range(11, 60))


def test_large_files_are_not_read_far_ahead(many_commits: LogOnDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_log_reader, "_BYTES_AHEAD", 200)
    listing = many_commits.log.listing()
    many_commits.files.calls.clear()
    commits = many_commits.log.commits(listing, -1, 59)
    read = [next(commits).version for _ in range(20)]
    assert read == list(range(20))
    assert len([location for kind, location in many_commits.files.calls if kind == "read"]) <= 22
    assert [commit.version for commit in commits] == list(range(20, 60))


def test_a_log_is_read_in_part_and_let_go(many_commits: LogOnDisk) -> None:
    commits = many_commits.log.commits(many_commits.log.listing(), 0, 59)
    assert next(commits).version == 1
    commits.close()  # type: ignore[attr-defined]
    assert len([location for kind, location in many_commits.files.calls if kind == "read"]) < 30


def test_a_log_has_a_most_number_of_files(many_commits: LogOnDisk) -> None:
    assert many_commits.bounded(delta_log_files=60).listing().latest == 59
    with pytest.raises(UnsupportedDeltaTableError, match=r"59 files \(floecat\.limits\.delta-log-files"):
        many_commits.bounded(delta_log_files=59).listing()


def test_a_state_has_a_most_number_of_bytes(many_commits: LogOnDisk) -> None:
    size = sum(path.stat().st_size for path in (many_commits.root / "_delta_log").iterdir())
    log = many_commits.bounded(delta_log_bytes=size // 2)
    with pytest.raises(UnsupportedDeltaTableError, match=r"floecat\.limits\.delta-log-bytes"):
        log.snapshot(log.listing(), 59)
    # each commit alone is small
    assert [commit.version for commit in log.commits(log.listing(), 10, 59)] == list(range(11, 60))


def test_bytes_of_vectors_count(started: LogOnDisk) -> None:
    started.commit(2, add("v", deletionVector=descriptor(sizeInBytes=1_000_000)))
    log = started.bounded(delta_log_bytes=1_000_000)
    assert len(log.snapshot(log.listing(), 1).files) == 2
    with pytest.raises(UnsupportedDeltaTableError, match=r"floecat\.limits\.delta-log-bytes"):
        log.snapshot(log.listing(), 2)


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_a_request_leaves_a_large_checkpoint_to_the_pipeline(started: LogOnDisk, kind: str) -> None:
    adds = [add(f"{number}", stats="x" * 1000) for number in range(1000)]
    write = checkpoint_bytes if kind == "parquet" else commit_bytes
    started.put(f"{2:020}.checkpoint.{UUID}.{kind}", write(PROTOCOL, PARTITIONED, *adds))
    for limits in ({"delta_log_bytes_in_request": 1_000_000}, {"delta_log_bytes_in_request": 10_000}):
        log = started.bounded(in_request=True, **limits)
        with pytest.raises(TooLargeError):
            log.snapshot(log.listing(), 2)
    log = started.bounded(in_request=True)
    assert len(log.snapshot(log.listing(), 2).files) == 1000


def test_files_of_a_log_share_the_working_memory(started: LogOnDisk) -> None:
    for version in range(3, 2_003):
        started.put(f"{version:020}.json", b"")
    memory = WorkingMemory(2 << 20, wait_ms=0)
    log = started.bounded(in_request=True)
    with memory.work():
        assert log.listing().latest == 2_002
        with memory.work(), pytest.raises(UnavailableError, match=r"floecat\.limits\.working-memory-bytes"):
            log.listing()


def test_a_checkpoint_with_a_long_footer_is_refused(started: LogOnDisk) -> None:
    data = checkpoint_bytes(PROTOCOL, PARTITIONED, add("a"))
    started.put(f"{1:020}.checkpoint.parquet", data)
    footer = int.from_bytes(data[-8:-4], "little")
    exact, shorter = (started.bounded(checkpoint_footer_bytes=most) for most in (footer, footer - 1))
    assert len(exact.snapshot(exact.listing(), 1).files) == 1
    # the commits have the state, too
    assert len(shorter.snapshot(shorter.listing(), 1).files) == 2
    assert "floecat.limits.checkpoint-footer-bytes" in shorter.faults[0].message


def test_a_sidecar_that_is_listed_many_times_is_read_once(started: LogOnDisk) -> None:
    sidecars = [{"sidecar": {"path": "x.parquet"}}] * 1000
    started.put(f"{2:020}.checkpoint.{UUID}.json", commit_bytes(PROTOCOL, PARTITIONED, *sidecars))
    started.put("_sidecars/x.parquet", checkpoint_bytes(add("a")))
    started.files.calls.clear()
    assert started.live(2) == ["a"]
    assert sum("x.parquet" in location for _, location in started.files.calls) == 1
