"""Actions that are not about files: protocol, metadata, commitInfo, sidecars (Delta protocol, "Actions").

In commits they are few lines among many. Lines are found by their keys; other lines are not decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from floecat.delta.protocol.actions import CommitInfo, Metadata, Protocol
from floecat.errors import IllegalArgumentError, InvalidDeltaTableError, PayloadTooLargeError
from floecat.iceberg.values.json_checks import check_json
from floecat.settings.limits import LimitSettings

__all__ = ["Header", "check_header_bytes", "has_metadata", "header_of_rows", "read_header"]


@dataclass(frozen=True)
class Header:
    """What a file of the log holds besides adds and removes; the last action of each kind.

    Attributes:
        protocol: None if the file has none.
        metadata: None if the file has none.
        commit_info: None if the file has none.
        sidecars: names of sidecar files, of a checkpoint.
        version: the version that a checkpoint gives for itself.
        contradicts: whether it has two different protocols or metadata.
    """

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    commit_info: CommitInfo | None = None
    sidecars: tuple[str, ...] = ()
    version: int | None = None
    contradicts: bool = False


class _Format(msgspec.Struct):
    provider: str | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    schema_string: str | None = None
    id: str | None = None
    name: str | None = None
    description: str | None = None
    format: _Format | None = None
    partition_columns: tuple[str, ...] | None = None
    created_time: int | None = None
    configuration: dict[str, str | None] | None = None


class _Protocol(msgspec.Struct, rename="camel"):
    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None


class _CommitInfo(msgspec.Struct, rename="camel"):
    # Writers may put anything here.
    timestamp: Any = None
    in_commit_timestamp: Any = None
    operation: Any = None


class _Sidecar(msgspec.Struct):
    path: str


class _CheckpointMetadata(msgspec.Struct):
    version: int


class _Line(msgspec.Struct, rename="camel"):
    protocol: _Protocol | None = None
    meta_data: _Metadata | None = None
    commit_info: _CommitInfo | None = None
    sidecar: _Sidecar | None = None
    checkpoint_metadata: _CheckpointMetadata | None = None


_LINES: Final = msgspec.json.Decoder(_Line)
_NO_ACTION: Final = _Line()
_METADATA_KEY: Final = b'"metaData"'
_KEYS: Final = (_METADATA_KEY, b'"protocol"', b'"commitInfo"', b'"sidecar"', b'"checkpointMetadata"')


def has_metadata(data: bytes) -> bool:
    """Whether a commit may set the metadata: a cheap test with false positives."""
    return _METADATA_KEY in data


def read_header(data: bytes, *, location: str, limits: LimitSettings) -> Header:
    """Reads what a commit, a log compaction or a JSON checkpoint holds besides adds and removes.

    Args:
        data: the whole file.
        location: where it is, for messages.
        limits: bounds the lines that hold such actions.

    Raises:
        InvalidDeltaTableError: the file is empty, or a line that may hold such an action is malformed.
        PayloadTooLargeError: these lines are too long.
    """
    if not data or data.isspace():
        raise InvalidDeltaTableError(f"File {location} of the log is empty")
    return _header(_lines(data, location, limits))


def header_of_rows(rows: Iterable[Mapping[str, Any]], *, location: str) -> Header:
    """The header of a Parquet checkpoint.

    Args:
        rows: the rows that hold such an action. Maps may be lists of pairs, as Arrow returns them.
        location: where the checkpoint is, for messages.

    Raises:
        InvalidDeltaTableError: a required field is missing, or a field has the wrong type.
    """
    try:
        return _header([msgspec.convert(_with_dicts(row), _Line) for row in rows])
    except (msgspec.ValidationError, ValueError, TypeError):
        raise InvalidDeltaTableError(f"Protocol, metadata or a sidecar in {location} is broken") from None


def check_header_bytes(size: int, location: str, limits: LimitSettings) -> None:
    """Bounds actions that become Python objects, which take many times as much.

    Raises:
        PayloadTooLargeError: with the setting.
    """
    most = limits.delta_header_bytes
    if size > most:
        raise PayloadTooLargeError(
            f"Protocol, metadata and sidecars in {location} take more than {most} bytes"
            " (floecat.limits.delta-header-bytes)"
        )


def _lines(data: bytes, location: str, limits: LimitSettings) -> list[_Line]:
    lines = []
    held = 0
    for start, end in _found(data):
        check_header_bytes(end - start, location, limits)
        try:
            line = _decoded_line(data[start:end])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, IllegalArgumentError):
            number = data.count(b"\n", 0, start) + 1
            raise InvalidDeltaTableError(f"Line {number} of {location} is not a valid Delta action") from None
        if line != _NO_ACTION:
            held += end - start
            check_header_bytes(held, location, limits)
            lines.append(line)
    return lines


def _decoded_line(data: bytes) -> _Line:
    line = _LINES.decode(data)
    if line != _NO_ACTION:
        check_json(data)
    return line


def _found(data: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of the lines that contain a key. Some contain it elsewhere; decoding sorts them out."""
    places = {key: data.find(key) for key in _KEYS}
    while found := [place for place in places.values() if place >= 0]:
        end = data.find(b"\n", min(found))
        end = len(data) if end < 0 else end
        yield data.rfind(b"\n", 0, min(found)) + 1, end
        for key, place in places.items():
            if 0 <= place < end:
                places[key] = data.find(key, end)


def _header(lines: Sequence[_Line]) -> Header:
    protocol = metadata = commit_info = version = None
    contradicts = False
    sidecars = []
    for line in lines:
        contradicts |= None not in (protocol, line.protocol) and protocol != line.protocol
        contradicts |= None not in (metadata, line.meta_data) and metadata != line.meta_data
        protocol = line.protocol or protocol
        metadata = line.meta_data or metadata
        commit_info = line.commit_info or commit_info
        if line.sidecar:
            # Sidecars are in one folder, whatever the path says.
            sidecars.append(unquote(line.sidecar.path).rpartition("/")[2])
        if line.checkpoint_metadata:
            version = line.checkpoint_metadata.version
    return Header(
        protocol=_protocol(protocol) if protocol else None,
        metadata=_metadata(metadata) if metadata else None,
        commit_info=_commit_info(commit_info) if commit_info else None,
        sidecars=tuple(sidecars),
        version=version,
        contradicts=contradicts,
    )


def _protocol(found: _Protocol) -> Protocol:
    return Protocol(
        min_reader_version=found.min_reader_version,
        min_writer_version=found.min_writer_version,
        reader_features=found.reader_features or (),
        writer_features=found.writer_features or (),
    )


def _metadata(found: _Metadata) -> Metadata:
    provider = found.format.provider if found.format else None
    configuration = found.configuration or {}
    return Metadata(
        id=found.id or "",
        schema_string=found.schema_string or "",
        partition_columns=found.partition_columns or (),
        configuration={key: value for key, value in configuration.items() if value is not None},
        name=found.name,
        description=found.description,
        format_provider=provider or "parquet",
        created_time_ms=found.created_time,
    )


def _commit_info(found: _CommitInfo) -> CommitInfo:
    return CommitInfo(
        timestamp_ms=found.timestamp if type(found.timestamp) is int else None,
        in_commit_timestamp_ms=found.in_commit_timestamp if type(found.in_commit_timestamp) is int else None,
        operation=found.operation if isinstance(found.operation, str) else None,
    )


def _with_dicts(row: Mapping[str, Any]) -> dict[str, Any]:
    metadata = row.get("metaData")
    if not metadata or metadata.get("configuration") is None:
        return dict(row)
    return {**row, "metaData": {**metadata, "configuration": dict(metadata["configuration"])}}
