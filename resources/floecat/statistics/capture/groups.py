"""The files of a group: read, stored in a sidecar, and submitted once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from floecat.clock import Clock
from floecat.errors import FloecatError, UnavailableError
from floecat.iceberg.schemas.schema import Schema
from floecat.statistics.capture import counting
from floecat.statistics.capture.live_files import LiveFile
from floecat.statistics.capture.sidecars import write_sidecar
from floecat.statistics.capture.tables import CapturedTable
from floecat.statistics.files.summaries import CountedColumns, DataFile, FileSummary
from floecat.store.database.engine import Connection
from floecat.store.statistics import files as file_rows
from floecat.store.statistics.files import SidecarRow

__all__ = [
    "FileGroup",
    "FileProblem",
    "GroupResult",
    "encode_columns",
    "has_columns",
    "read_file",
    "read_group",
    "store_group",
]

_log = logging.getLogger(__name__)
_LONGEST_REASON: Final = 300


class FileProblem(msgspec.Struct, frozen=True):
    """A data file that could not be captured."""

    location: str
    reason: str


class FileGroup(msgspec.Struct, frozen=True):
    """Data files that are captured together."""

    snapshot_id: int
    columns: CountedColumns
    files: tuple[LiveFile, ...]


class GroupResult(NamedTuple):
    """What came of a group."""

    summaries: Mapping[str, FileSummary]
    """By file key."""
    problems: Sequence[FileProblem] = ()


ReadGroup: TypeAlias = Callable[[CapturedTable, FileGroup, Callable[[int], None]], GroupResult]
"""Reads the files of a group; see `read_group`."""


def read_group(
    table: CapturedTable,
    group: FileGroup,
    check: Callable[[int], None] = lambda _: None,
    *,
    memory_bytes: int,
) -> GroupResult:
    """Reads the files of a group. One that cannot be read is reported, and stops no other.

    Args:
        table: the table.
        group: the files.
        check: called before each file with the number of files done; raises to stop.
        memory_bytes: what may be held of a file at a time.

    Raises:
        UnavailableError: storage fails.
    """
    summaries: dict[str, FileSummary] = {}
    problems: list[FileProblem] = []
    source = counting.FileSource.of(table, group.snapshot_id, group.columns)
    with counting.FileReader(source, table.storage.files, memory_bytes) as reader:
        for done, live in enumerate(group.files):
            check(done)
            found = read_file(reader, live.file)
            if isinstance(found, FileProblem):
                problems.append(found)
            else:
                summaries[live.key] = found
    return GroupResult(summaries, problems)


def read_file(reader: counting.FileReader, file: DataFile) -> FileSummary | FileProblem:
    """Reads a data file, or says why that cannot be done.

    Raises:
        UnavailableError: storage fails.
    """
    try:
        return reader.summary(file)
    except UnavailableError:
        raise
    except FloecatError as error:
        return FileProblem(file.location, error.message[:_LONGEST_REASON])
    except Exception as error:  # noqa: BLE001 - an unexpected file must not hold up the table
        _log.exception("cannot capture data file %s", file.location)
        reason = f"Cannot read {file.location}: {type(error).__name__}"
        return FileProblem(file.location, reason[:_LONGEST_REASON])


def store_group(
    table: CapturedTable, group: FileGroup, result: GroupResult, result_id: str, clock: Clock
) -> Callable[[Connection], bool]:
    """Writes the sidecar of a result.

    Returns:
        What submits the result, in a transaction: with the same id again it does nothing and returns False.

    Raises:
        UnavailableError: storage fails.
    """
    summaries = result.summaries
    if not summaries:
        return lambda _: False
    sizes = {live.key: live.file.size_bytes for live in group.files}
    merged = counting.of_files(summaries, sizes, table.schema_of(group.snapshot_id))
    path = f"{table.folder}/{result_id}.stats"
    sidecar = write_sidecar(table.storage, path, merged, summaries)
    row = SidecarRow(
        path=path,
        result_id=result_id,
        columns=encode_columns(group.columns, table.metadata.last_column_id),
        files=len(summaries),
        size_bytes=sidecar.size_bytes,
        used_at_ms=clock.now_ms(),
    )
    return lambda conn: file_rows.put(conn, table.row.id, row, list(summaries))


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
