"""Groups of data files: what is read of them, and what is said of those that cannot be read."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uuid_utils.compat as uuids
from msgspec import Raw, json

from floecat.errors import FloecatError, UnavailableError
from floecat.fileio.locations import AllowedLocations
from floecat.iceberg.schemas.schema import Schema, parse_schema
from floecat.jobs.running_job import JobFailedError
from floecat.settings.limits import LimitSettings
from floecat.statistics.capture.reading.counting import FileSource
from floecat.statistics.capture.reading.file_groups import (
    FileProblem,
    GroupOrder,
    capture_elsewhere,
    encode_columns,
    group_problems,
    has_columns,
    named_problems,
    nothing_captured,
    read_group,
    shortened,
)
from floecat.statistics.capture.reading.files_with_deletes import LiveFile, file_key
from floecat.statistics.capture.reading.processes import Check, FileEndedProcessError
from floecat.statistics.capture.reading.sidecars import read_files
from floecat.statistics.files.summaries import CountedColumns, DataFile
from floecat.store.jobs.jobs import JobRow
from tests.storages import storage_at

COLUMNS = CountedColumns({1: "long"})


def schema(*defaults: tuple[int, str, Any]) -> Schema:
    fields = [{"id": 1, "name": "id", "required": False, "type": "long"}]
    fields += [
        {"id": id, "name": name, "required": False, "type": "int", "initial-default": value}
        for id, name, value in defaults
    ]
    return parse_schema(Raw(json.encode({"type": "struct", "schema-id": 0, "fields": fields})))


@pytest.fixture
def order(tmp_path: Path) -> GroupOrder:
    """Five files of two rows."""
    live = []
    for number in range(5):
        path = tmp_path / f"{number}.parquet"
        field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
        pq.write_table(pa.table([[number, number + 1]], schema=pa.schema([field])), path)
        file = DataFile(path.as_uri(), "parquet", 2, path.stat().st_size)
        live.append(LiveFile(file_key(file), file))
    allowed = AllowedLocations([tmp_path.as_uri()])
    source = FileSource(schema(), COLUMNS, None, allowed, LimitSettings())
    return GroupOrder(source, storage_at(allowed), tuple(live), f"{tmp_path.as_uri()}/g.stats", 1 << 20)


def spoil(order: GroupOrder, *numbers: int) -> None:
    for number in numbers:
        Path(order.files[number].file.location.removeprefix("file://")).write_bytes(b"PAR1 broken")


def test_a_file_that_cannot_be_read_is_reported_and_stops_no_other(order: GroupOrder) -> None:
    spoil(order, 1)
    told: list[int] = []
    result = read_group(order, told.append)
    assert told == [0, 1, 2, 3, 4, 5]
    assert list(result.summaries) == [order.files[number].key for number in (0, 2, 3, 4)]
    assert [problem.location for problem in result.problems] == [order.files[1].file.location]


class DyingProcesses:
    """Runs work here, and ends as a process does that certain files end."""

    def __init__(self, *deadly: str) -> None:
        self.deadly = deadly
        self.read: list[str] = []
        self.started = 0

    def __call__(self, work: Callable[[Check], Any], check: Check, *, is_small: bool) -> Any:
        assert not is_small
        self.started += 1
        files = work.args[0].files  # type: ignore[attr-defined]

        def die(done: int) -> None:
            check(done)
            if done == len(files):
                return
            if files[done].file.location in self.deadly:
                raise FileEndedProcessError(done, signal.SIGSEGV)
            self.read.append(files[done].file.location)

        return work(die)


def test_files_that_end_their_process_are_left_out_and_the_others_read(order: GroupOrder) -> None:
    locations = [live.file.location for live in order.files]
    spoil(order, 0)
    run = DyingProcesses(locations[1], locations[3])
    written = capture_elsewhere(run, order, lambda _: None)
    assert [problem.location for problem in written.problems] == [locations[n] for n in (1, 3, 0)]
    assert [problem.is_lasting for problem in written.problems] == [True, True, False]
    assert "ended the process by SIGSEGV" in written.problems[0].reason
    # what was read before the process ended comes last, to be read twice at most
    assert max(run.read.count(location) for location in locations) == 2
    assert written.sidecar is not None
    assert written.merged is not None
    assert (written.merged.row_count, written.keys) == (4, (order.files[4].key, order.files[2].key))
    stored = read_files(order.storage, written.sidecar, lambda _: True)
    assert {key: file.row_count for key, file in stored.items()} == dict.fromkeys(written.keys, 2)


def test_no_process_is_started_when_no_file_is_left(order: GroupOrder) -> None:
    run = DyingProcesses(*(live.file.location for live in order.files))
    written = capture_elsewhere(run, order, lambda _: None)
    assert (written.merged, len(written.problems), run.read, run.started) == (None, 5, [], 5)


def test_a_process_that_ends_when_all_files_are_read_is_an_error(order: GroupOrder) -> None:
    def run(work: Callable[[Check], Any], check: Check, *, is_small: bool) -> Any:
        raise FileEndedProcessError(len(order.files), signal.SIGKILL)

    with pytest.raises(UnavailableError, match="The capture process ended"):
        capture_elsewhere(run, order, lambda _: None)


def test_no_sidecar_is_written_of_files_that_cannot_be_read(order: GroupOrder, tmp_path: Path) -> None:
    spoil(order, *range(5))
    written = capture_elsewhere(DyingProcesses(), order, lambda _: None)
    assert (written.merged, written.sidecar, written.keys, len(written.problems)) == (None, None, (), 5)
    assert not (tmp_path / "g.stats").exists()


@pytest.mark.parametrize(
    ("lasting", "files", "message", "kind"),
    [
        ([], 3, "No data file was captured", FloecatError),
        ([False], 1, "no 0", FloecatError),
        ([True], 2, "no 0; 1 other data file cannot be read, either", JobFailedError),
        ([True, False], 9, "no 0; 8 other data files cannot be read, either", FloecatError),
    ],
)
def test_the_error_of_files_of_which_none_was_read(
    lasting: list[bool], files: int, message: str, kind: type[FloecatError]
) -> None:
    problems = [FileProblem(f"f{n}", f"no {n}", is_lasting) for n, is_lasting in enumerate(lasting)]
    error = nothing_captured(problems, files)
    assert (error.message, type(error)) == (message, kind)


def test_few_problems_are_named_by_their_reasons() -> None:
    lasting = [FileProblem(f"f{n}", "too long", is_lasting=True) for n in range(10)]
    passing = [FileProblem(f"g{n}", f"gone {n}") for n in range(10)]
    named = named_problems([*lasting, *passing])
    assert [(each.location, each.reason) for each in named] == [("", f"gone {n}") for n in range(5)]
    assert named_problems(lasting) == [FileProblem("", "too long", is_lasting=True)]
    assert len(shortened("x" * 1_000)) == 300
    assert shortened("x" * 1_000).endswith("…")


def group(state: str, error: str | None, *reasons: str) -> JobRow:
    problems = [{"location": "", "reason": reason} for reason in reasons]
    return JobRow(
        id=uuids.uuid7(),
        account_id=uuids.uuid7(),
        catalog_id=uuids.uuid7(),
        kind="capture-group",
        title="t",
        subject="t",
        resource="",
        payload="{}",
        progress=json.encode({"problems": problems}).decode(),
        state=state,
        max_attempts=1,
        not_before_ms=0,
        last_error=error,
        created_by="anna",
        created_at_ms=0,
        updated_at_ms=0,
    )


def test_problems_of_groups_are_what_they_report_or_why_they_failed() -> None:
    groups = [
        group("succeeded", None, "a is gone"),
        group("failed", "b is gone; 2 other data files cannot be read, either", "b is gone"),
        group("failed", "storage is away"),
        group("failed", None),
    ]
    reasons = [problem.reason for problem in group_problems(groups)]
    assert reasons == ["a is gone", "b is gone", "storage is away", "a group of files failed"]


def test_a_sidecar_serves_columns_that_it_has_or_that_its_files_cannot_have() -> None:
    held = encode_columns(COLUMNS, last_id=1)
    now = schema((2, "late", None), (3, "with_default", 7))
    assert has_columns(held, COLUMNS, now)
    assert has_columns(held, CountedColumns({1: "long", 2: "int"}), now)
    # files from before have its default
    assert not has_columns(held, CountedColumns({3: "int"}), now)
    assert not has_columns(held, CountedColumns({1: "int"}), now)
    assert not has_columns(encode_columns(COLUMNS, last_id=2), CountedColumns({2: "int"}), now)
