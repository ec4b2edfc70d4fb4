"""Adds and removes in JSON files: commits, log compactions, JSON checkpoints (Delta protocol, "Actions").

Arrow parses them into columns, without a Python object per line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from floecat.delta.log.file_tables import (
    DESCRIPTOR,
    REMOVES_SCHEMA,
    Rows,
    files_schema,
    files_table,
    struct_array,
    vector_ids,
)
from floecat.delta.log.log_files import damage_of
from floecat.delta.log.lone_surrogates import without_lone_surrogates
from floecat.delta.protocol.paths import PathReader
from floecat.errors import IllegalArgumentError, InvalidDeltaTableError
from floecat.iceberg.values.json_checks import check_json

__all__ = ["FileActions", "LogText", "read_file_actions"]

_NO_ROWS: Final[Rows] = np.zeros(0, np.int64)

_BLOCK_BYTES: Final = 4 * 1024 * 1024
"""The size of a block that one thread parses. Smaller files are parsed together up to this size."""


class LogText(NamedTuple):
    """A file of the log that holds lines of JSON."""

    location: str
    data: bytes


_ABSENT: Final = msgspec.Raw(b"null")


class _Remove(msgspec.Struct, rename="camel"):
    """The fields of a remove that are read, as bytes."""

    path: msgspec.Raw = _ABSENT
    deletion_vector: msgspec.Raw = _ABSENT


class _Add(_Remove, rename="camel"):
    size: msgspec.Raw = _ABSENT
    modification_time: msgspec.Raw = _ABSENT
    stats: msgspec.Raw = _ABSENT
    partition_values: msgspec.Raw = _ABSENT


class _Line(msgspec.Struct):
    add: _Add | None = None
    remove: _Remove | None = None


_LINES: Final = msgspec.json.Decoder(_Line)
_NO_FILE: Final = _Line()


@dataclass(frozen=True)
class FileActions:
    """Adds and removes in the order of the log.

    Attributes:
        adds: columns of `floecat.delta.log.file_tables.files_schema`.
        add_rows: positions of the adds among all actions; int64.
        removes: columns of `floecat.delta.log.file_tables.REMOVES_SCHEMA`.
        remove_rows: positions of the removes; int64.
        rows: number of positions.
    """

    adds: pa.Table
    add_rows: Rows
    removes: pa.Table
    remove_rows: Rows
    rows: int


def read_file_actions(
    texts: Sequence[LogText], partition_names: Sequence[str], paths: PathReader
) -> Iterator[FileActions]:
    """Reads adds and removes.

    Args:
        texts: files of the log, oldest first.
        partition_names: physical names of the partition columns to read.
        paths: reads paths.

    Yields:
        The actions of one or several of the files.

    Raises:
        DamagedFileError: a line is malformed; the message gives its number and never its content.
    """
    for batch in _batches(texts):
        try:
            yield _read(batch, partition_names, paths)
        except InvalidDeltaTableError:
            # Parse the files one by one to name the damaged one.
            for text in batch:
                with damage_of(text.location):
                    _read([text], partition_names, paths)
            raise


def _batches(texts: Sequence[LogText]) -> Iterator[list[LogText]]:
    batch: list[LogText] = []
    size = 0
    for text in texts:
        if batch and size + len(text.data) > _BLOCK_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text.data)
    if batch:
        yield batch


def _read(batch: Sequence[LogText], partition_names: Sequence[str], paths: PathReader) -> FileActions:
    location = batch[0].location
    data = batch[0].data if len(batch) == 1 else b"\n".join(text.data for text in batch)
    adds, removes = [files_schema(partition_names).empty_table()], [REMOVES_SCHEMA.empty_table()]
    add_rows, remove_rows, rows = [_NO_ROWS], [_NO_ROWS], 0
    for lines in _parsed(data, _schema(partition_names), location):
        for name, found in (("add", add_rows), ("remove", remove_rows)):
            found.append(rows + np.flatnonzero(pc.is_valid(lines[name]).to_numpy(zero_copy_only=False)))
        added, removed = (lines[name].filter(lines[name].is_valid()) for name in ("add", "remove"))
        _check_required(added, ("path", "size"), add_rows[-1], data, location)
        _check_required(removed, ("path",), remove_rows[-1], data, location)
        adds.append(_adds(added, partition_names, paths, location))
        removes.append(_removes(removed, paths, location))
        rows += len(lines)
    return FileActions(
        adds=pa.concat_tables(adds),
        add_rows=np.concatenate(add_rows),
        removes=pa.concat_tables(removes),
        remove_rows=np.concatenate(remove_rows),
        rows=rows,
    )


def _schema(partition_names: Sequence[str]) -> pa.Schema:
    add = [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("stats", pa.string()),
        ("deletionVector", DESCRIPTOR),
    ]
    if partition_names:
        add.append(("partitionValues", pa.struct([(name, pa.string()) for name in partition_names])))
    remove = [("path", pa.string()), ("deletionVector", DESCRIPTOR)]
    return pa.schema([("add", pa.struct(add)), ("remove", pa.struct(remove))])


def _parsed(data: bytes, schema: pa.Schema, location: str) -> Iterator[pa.Table]:
    rows = 0
    try:
        for lines in _parse(data, schema):
            rows += len(lines)
            yield lines
    except pa.ArrowInvalid:
        # Arrow also refuses what no field of an add or remove holds, as 1e999.
        yield from _parsed_plain(_plain(data, location), schema, location, rows)


def _parsed_plain(data: bytes, schema: pa.Schema, location: str, skipped: int) -> Iterator[pa.Table]:
    try:
        for lines in _parse(data, schema):
            skip = min(skipped, len(lines))
            skipped -= skip
            yield lines.slice(skip)
    except pa.ArrowInvalid:
        # The message of the parser would quote the line.
        raise _broken(_broken_line(data, schema), location) from None


def _plain(data: bytes, location: str) -> bytes:
    """The same lines with nothing but adds and removes, and of these the fields that are read."""
    plain = []
    for number, ended in enumerate(BytesIO(data), start=1):
        text = ended.removesuffix(b"\n")
        try:
            line = _decoded(text) if text else _NO_FILE
            if line != _NO_FILE:
                check_json(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, IllegalArgumentError):
            raise _broken(number, location) from None
        plain.append(msgspec.json.encode(line) if text else text)
    return b"\n".join(plain)


def _decoded(text: bytes) -> _Line:
    """Adds and removes of a line, whose other members may hold what no text is."""
    try:
        return _LINES.decode(text)
    except msgspec.DecodeError:
        line = _LINES.decode(without_lone_surrogates(text))
        read = [msgspec.structs.astuple(action) for action in (line.add, line.remove) if action is not None]
        if any(value != _ABSENT and bytes(value) not in text for value in chain.from_iterable(read)):
            raise
        return line


def _broken(line: int, location: str) -> InvalidDeltaTableError:
    return InvalidDeltaTableError(f"Line {line} of {location} is not a valid Delta action")


def _parse(data: bytes, schema: pa.Schema) -> Iterator[pa.Table]:
    lengths = _line_lengths(data)
    lines = int(np.count_nonzero(lengths))
    if not lines:
        return
    reader = pj.open_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(
            use_threads=len(data) > _BLOCK_BYTES,
            # A block must hold its longest line.
            block_size=max(_BLOCK_BYTES, int(lengths.max()) + 2),
        ),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    may_be_invalid = not data.isascii()
    for batch in reader:
        if may_be_invalid:
            batch.validate(full=True)
        lines -= len(batch)
        yield pa.Table.from_batches([batch])
    if lines:
        # The parser accepts one object on two lines, and two objects on one line.
        raise pa.ArrowInvalid("An action is not one line")


def _line_lengths(data: bytes) -> Rows:
    newlines = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    return np.diff(newlines, prepend=-1, append=len(data)) - 1


def _broken_line(data: bytes, schema: pa.Schema) -> int:
    """The number of the first line that cannot be parsed, counted from 1."""
    starts = np.append(0, np.cumsum(_line_lengths(data) + 1))
    first, end = 0, len(starts) - 1
    while end - first > 1:
        middle = (first + end) // 2
        try:
            deque(_parse(data[starts[first] : starts[middle]], schema), maxlen=0)
        except pa.ArrowInvalid:
            end = middle
        else:
            first = middle
    return first + 1


def _check_required(
    actions: pa.ChunkedArray,
    names: Sequence[str],
    rows: Rows,
    data: bytes,
    location: str,
) -> None:
    for name in names:
        values = pc.struct_field(actions, name)
        if values.null_count:
            row = rows[pc.index(pc.is_null(values), value=True).as_py()]
            number = int(np.flatnonzero(_line_lengths(data))[row]) + 1
            raise InvalidDeltaTableError(f"Line {number} of {location} lacks the {name} of its file")


def _adds(
    adds: pa.ChunkedArray, partition_names: Sequence[str], paths: PathReader, location: str
) -> pa.Table:
    values = [pc.struct_field(adds, ["partitionValues", name]) for name in partition_names]
    chunks = [
        struct_array([column.chunk(number) for column in values], partition_names, len(chunk))
        for number, chunk in enumerate(adds.chunks)
    ]
    partition_type = pa.struct([(name, pa.string()) for name in partition_names])
    return files_table(
        path=paths.read(pc.struct_field(adds, "path"), location=location),
        partition_values=pa.chunked_array(chunks, partition_type),
        size=pc.struct_field(adds, "size"),
        modification_time=pc.struct_field(adds, "modificationTime"),
        stats=pc.struct_field(adds, "stats"),
        descriptors=pc.struct_field(adds, "deletionVector"),
        location=location,
    )


def _removes(removes: pa.ChunkedArray, paths: PathReader, location: str) -> pa.Table:
    path = paths.read(pc.struct_field(removes, "path"), location=location)
    dv_id = vector_ids(pc.struct_field(removes, "deletionVector"), location=location)
    return pa.Table.from_arrays([path, dv_id], schema=REMOVES_SCHEMA)
