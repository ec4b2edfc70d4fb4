"""Files of a group: read, stored in a sidecar, and submitted once. `capture_snapshot` makes the groups."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

import msgspec

from floecat.errors import FloecatError, UnavailableError
from floecat.iceberg.schemas.schema import Schema
from floecat.jobs.running_job import JobFailedError, RunningJob
from floecat.statistics.capture.reading import counting
from floecat.statistics.capture.reading.files_with_deletes import LiveFile
from floecat.statistics.capture.reading.processes import Check, FileEndedProcessError, RunWork
from floecat.statistics.capture.reading.sidecars import FilesSummary, Sidecar, write_sidecar
from floecat.statistics.capture.reading.tables import CapturedTable, find_table, submit
from floecat.statistics.files.sources import NeedsProcessError
from floecat.statistics.files.summaries import CountedColumns, DataFile, FileSummary
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.database.engine import Connection
from floecat.store.jobs.jobs import JobRow
from floecat.store.statistics import files as file_rows
from floecat.store.statistics.files import SidecarRow

if TYPE_CHECKING:
    from floecat.entries.open_entries import EntryParts
    from floecat.settings import StatisticsSettings

__all__ = [
    "FileCapturer",
    "FileGroup",
    "FileProblem",
    "GroupOrder",
    "GroupResult",
    "ReadGroup",
    "WrittenGroup",
    "capture_elsewhere",
    "capture_group",
    "encode_columns",
    "group_problems",
    "has_columns",
    "named_problems",
    "nothing_captured",
    "read_elsewhere",
    "read_file",
    "read_group",
    "shortened",
    "submission",
    "write_group",
]

_log = logging.getLogger(__name__)
_LONGEST_REASON: Final = 300
_NAMED_PROBLEMS: Final = 5
_FEW_FILES: Final = 16

_T = TypeVar("_T")


class FileProblem(msgspec.Struct, frozen=True):
    """A data file that could not be captured."""

    location: str
    reason: str
    is_lasting: bool = False
    """Whether another attempt would take as much time, or end another process."""


class FileGroup(msgspec.Struct, frozen=True):
    """Data files that are captured together."""

    snapshot_id: int
    columns: CountedColumns
    files: tuple[LiveFile, ...]

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(live.file.size_bytes for live in self.files)


class GroupResult(NamedTuple):
    """The result of a group."""

    summaries: Mapping[str, FileSummary]
    """Summaries by file key."""
    problems: Sequence[FileProblem] = ()


class GroupOrder(NamedTuple):
    """A group to be read and stored. It can be pickled, with the keys of the storage."""

    source: counting.FileSource
    storage: CatalogStorage
    files: tuple[LiveFile, ...]
    path: str
    """Path of the sidecar."""
    memory_bytes: int
    """Bytes that may be held of a file at a time."""
    only_small: bool = False
    """See `FileSummaries`."""


class WrittenGroup(NamedTuple):
    """A group that is in a sidecar."""

    merged: FilesSummary | None = None
    """The files together; None if none could be read."""
    sidecar: Sidecar | None = None
    keys: tuple[str, ...] = ()
    """Keys of the files."""
    problems: tuple[FileProblem, ...] = ()


ReadGroup: TypeAlias = Callable[[CapturedTable, FileGroup, Callable[[int], None]], GroupResult]
"""Reads the files of a group elsewhere; see `read_group`."""


def read_group(order: GroupOrder, check: Callable[[int], None] = lambda _: None) -> GroupResult:
    """Reads the files of a group. One that cannot be read is reported, and stops no other.

    Args:
        order: the files, and how they are read.
        check: called with the number of files done, before each file and at the end; raises to stop.

    Raises:
        NeedsProcessError: a file may need more memory.
        UnavailableError: storage fails.
    """
    summaries: dict[str, FileSummary] = {}
    problems: list[FileProblem] = []
    with counting.FileReader(
        order.source, order.storage.files, order.memory_bytes, only_small=order.only_small
    ) as reader:
        for done, live in enumerate(order.files):
            check(done)
            found = read_file(reader.summary, live.file)
            if isinstance(found, FileProblem):
                problems.append(found)
            else:
                summaries[live.key] = found
    check(len(order.files))
    return GroupResult(summaries, problems)


def read_file(read: Callable[[DataFile], _T], file: DataFile) -> _T | FileProblem:
    """Reads a data file, or says why that cannot be done.

    Args:
        read: reads it, as `FileReader.summary` does.

    Raises:
        UnavailableError: storage fails.
    """
    try:
        return read(file)
    except (UnavailableError, NeedsProcessError):
        raise
    except FloecatError as error:
        return FileProblem(file.location, shortened(error.message))
    except MemoryError:
        return _problem(file, "it takes more memory than a worker has (floecat.statistics.memory-bytes)")
    except Exception as error:  # noqa: BLE001 - an unexpected file must not hold up the table
        _log.exception("cannot capture data file %s", file.location)
        return _problem(file, type(error).__name__)


def read_elsewhere(
    run: RunWork, read: Callable[[DataFile, Check], _T], file: DataFile, check: Check = lambda _: None
) -> _T | FileProblem:
    """Reads a data file in a process of its own, or says why that cannot be done.

    Args:
        run: runs it there.
        read: reads it; can be pickled.
        check: as of `RunWork`.

    Raises:
        UnavailableError: storage fails.
    """
    try:
        return run(partial(read, file), check, is_small=False)
    except FileEndedProcessError as error:
        return _problem(file, error.reason, is_lasting=True)


def _problem(file: DataFile, reason: str, *, is_lasting: bool = False) -> FileProblem:
    return FileProblem(file.location, shortened(f"Cannot read {file.location}: {reason}"), is_lasting)


def write_group(order: GroupOrder, result: GroupResult) -> WrittenGroup:
    """Writes the sidecar of a group that was read.

    Raises:
        UnavailableError: storage fails.
    """
    summaries = result.summaries
    if not summaries:
        return WrittenGroup(problems=tuple(result.problems))
    size_bytes = sum(live.file.size_bytes for live in order.files if live.key in summaries)
    merged = counting.of_files(summaries.values(), size_bytes, order.source.schema)
    sidecar = write_sidecar(order.storage, order.path, merged, summaries)
    return WrittenGroup(merged, sidecar, tuple(summaries), tuple(result.problems))


def capture_group(order: GroupOrder, check: Callable[[int], None]) -> WrittenGroup:
    """Reads a group and writes its sidecar; see `read_group` and `write_group`."""
    return write_group(order, read_group(order, check))


def capture_elsewhere(run: RunWork, order: GroupOrder, check: Check) -> WrittenGroup:
    """Captures a group in a process of its own. A file that ends the process is reported, too.

    Args:
        run: runs it there.
        order: the group.
        check: as of `RunWork`.

    Raises:
        UnavailableError: storage fails.
    """
    problems: list[FileProblem] = []
    while order.files:
        try:
            written = run(partial(capture_group, order), check, is_small=False)
        except FileEndedProcessError as error:
            before, after = order.files[: error.done], order.files[error.done + 1 :]
            if len(before) == len(order.files):
                raise
            problems.append(_problem(order.files[error.done].file, error.reason, is_lasting=True))
            # what can be read comes last, to be read twice at most
            order = order._replace(files=after + before)
        else:
            return written._replace(problems=(*problems, *written.problems))
    return WrittenGroup(problems=tuple(problems))


class FileCapturer:
    """Captures groups of data files. Safe to share between threads."""

    def __init__(self, parts: EntryParts, settings: StatisticsSettings, run: RunWork) -> None:
        self._parts = parts
        self._settings = settings
        self._run = run

    def work(self, job: RunningJob, read: ReadGroup | None = None) -> str | None:
        """Works on the job of a group, whose files `read` reads elsewhere, if that is given.

        Raises:
            FloecatError: no file could be read, or storage fails.
        """
        attachment, parent_id = job.attachment(), job.row.parent_id
        table = find_table(self._parts, UUID(job.row.subject))
        if table is None or attachment is None or parent_id is None:
            return "the table was dropped"
        group = msgspec.msgpack.decode(attachment, type=FileGroup)
        # of this attempt: should it be sent twice, it is taken once
        result_id = f"{parent_id}-{job.row.id}-{job.row.lease_epoch}"
        written = self.read(job, table, group, result_id, read)
        job.progress["problems"] = msgspec.to_builtins(named_problems(written.problems))
        if written.merged is None and written.problems:
            raise nothing_captured(written.problems, len(written.problems))
        submit(job, table, submission(table, group.columns, written, result_id))
        return None

    def read(
        self,
        job: RunningJob,
        table: CapturedTable,
        group: FileGroup,
        result_id: str,
        read: ReadGroup | None = None,
    ) -> WrittenGroup:
        """Reads the files of a group, and writes the sidecar that is named by `result_id`.

        Raises:
            UnavailableError: storage fails.
        """

        def check(done: int) -> None:
            job.progress["done"] = done
            job.check()

        order = GroupOrder(
            counting.FileSource.of(table, group.snapshot_id, group.columns),
            table.storage,
            group.files,
            f"{table.folder}/{result_id}.stats",
            self._settings.memory_bytes,
        )
        if read is not None:
            return write_group(order, read(table, group, check))
        if len(group.files) <= _FEW_FILES and group.size_bytes <= self._settings.in_process_bytes:
            with suppress(NeedsProcessError):
                small = order._replace(only_small=True)
                return self._run(partial(capture_group, small), check, is_small=True)
        return capture_elsewhere(self._run, order, check)


def nothing_captured(problems: Sequence[FileProblem], files: int) -> FloecatError:
    """The error for files of which none could be read.

    Args:
        problems: some of them, as `named_problems` chooses.
        files: how many they are.
    """
    reason = problems[0].reason if problems else "No data file was captured"
    if problems and files > 1:
        others = "1 other data file" if files == 2 else f"{files - 1} other data files"
        reason = f"{reason}; {others} cannot be read, either"
    is_lasting = bool(problems) and all(each.is_lasting for each in problems)
    return JobFailedError(reason) if is_lasting else FloecatError(reason)


def named_problems(problems: Iterable[FileProblem]) -> list[FileProblem]:
    """A few problems for the row of a job, by their reasons; those that may pass are first, if there are any.

    So all of them are lasting only if all that there were are.
    """
    chosen: dict[str, FileProblem] = {}
    for each in sorted(problems, key=lambda each: each.is_lasting):
        chosen.setdefault(each.reason, FileProblem("", each.reason, each.is_lasting))
    return list(chosen.values())[:_NAMED_PROBLEMS]


def group_problems(groups: Sequence[JobRow]) -> list[FileProblem]:
    """The files that groups could not read, with reasons."""
    found: list[FileProblem] = []
    for group in groups:
        reported = msgspec.json.decode(group.progress).get("problems", [])
        found += msgspec.convert(reported, list[FileProblem])
        # of a group of which nothing could be read, the error begins with the first of them
        error = group.last_error or ""
        if group.state != "succeeded" and not any(error.startswith(each["reason"]) for each in reported):
            found.append(FileProblem("", group.last_error or "a group of files failed"))
    return found


def submission(
    table: CapturedTable, columns: CountedColumns, written: WrittenGroup, result_id: str
) -> Callable[[Connection], bool]:
    """A function that submits a group in a transaction: with the same id again it only returns False."""
    sidecar = written.sidecar
    if sidecar is None:
        return lambda _: False
    held = encode_columns(columns, table.metadata.last_column_id)
    row = SidecarRow(sidecar.path, result_id, held, len(written.keys), sidecar.size_bytes)
    return lambda conn: file_rows.put(conn, table.row.id, row, written.keys)


def shortened(reason: str) -> str:
    """A reason of a length that fits into the row of a job; one that is cut ends with an ellipsis."""
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"


class _StoredColumns(CountedColumns, frozen=True):
    last_id: int = 0


def encode_columns(columns: CountedColumns, last_id: int) -> str:
    """The columns of a sidecar as its row has them.

    Args:
        columns: what its files were counted for.
        last_id: the last field id that the table had: the files have no column with a higher one.
    """
    return msgspec.json.encode(_StoredColumns(columns.types, columns.expressions, last_id)).decode()


def has_columns(encoded: str, wanted: CountedColumns, schema: Schema) -> bool:
    """Whether a sidecar has the columns that are wanted, in the same types, or its files hold nulls for them.

    Args:
        encoded: as `encode_columns` made it.
        wanted: the columns and expressions.
        schema: the current one of the table.
    """
    held = msgspec.json.decode(encoded, type=_StoredColumns)
    terms = held.terms
    return all(
        (term in terms and held.types[id] == wanted.types[id])
        or (id > held.last_id and counting.is_null_before(schema, id))
        for term in wanted.terms
        for id in (term.field_id,)
    )
