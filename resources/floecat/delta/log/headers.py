"""Actions that are not about files: protocol, metadata, commitInfo, sidecars (Delta protocol, "Actions").

In commits they are few lines among many. Lines are found by their keys; other lines are not decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from floecat.delta.log.log_bounds import LogBounds
from floecat.delta.log.lone_surrogates import without_lone_surrogates
from floecat.delta.protocol.actions import CommitInfo, Metadata, Protocol
from floecat.errors import IllegalArgumentError, InvalidDeltaTableError, PayloadTooLargeError
from floecat.iceberg.values.json_checks import check_json, is_nested_deeper
from floecat.iceberg.values.large_bytes import count_byte, find_bytes, is_blank
from floecat.settings.limits import LimitSettings

__all__ = ["LogHeader", "check_header_bytes", "has_metadata", "header_of_rows", "read_header"]


@dataclass(frozen=True)
class LogHeader:
    """The content of a file of the log besides adds and removes; the last action of each kind.

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


_NULL: Final = b"null"
_ABSENT: Final = msgspec.Raw(_NULL)


class _CommitInfo(msgspec.Struct, rename="camel"):
    # Writers may put anything here, of any size.
    timestamp: msgspec.Raw = _ABSENT
    in_commit_timestamp: msgspec.Raw = _ABSENT
    operation: msgspec.Raw = _ABSENT


class _Sidecar(msgspec.Struct):
    path: str


class _CheckpointMetadata(msgspec.Struct):
    version: int


class _Line(msgspec.Struct, rename="camel"):
    protocol: _Protocol | None = None
    meta_data: _Metadata | None = None
    sidecar: _Sidecar | None = None
    checkpoint_metadata: _CheckpointMetadata | None = None
    commit_info: CommitInfo | None = None


class _RawLine(msgspec.Struct, rename="camel"):
    """A line whose values are passed over: no objects are made of them."""

    protocol: msgspec.Raw = _ABSENT
    meta_data: msgspec.Raw = _ABSENT
    sidecar: msgspec.Raw = _ABSENT
    checkpoint_metadata: msgspec.Raw = _ABSENT
    commit_info: msgspec.Raw = _ABSENT


_RAW_LINES: Final = msgspec.json.Decoder(_RawLine)
_KINDS: Final = {
    "protocol": msgspec.json.Decoder(_Protocol | None),
    "meta_data": msgspec.json.Decoder(_Metadata | None),
    "sidecar": msgspec.json.Decoder(_Sidecar | None),
    "checkpoint_metadata": msgspec.json.Decoder(_CheckpointMetadata | None),
}
_PROVENANCE: Final = msgspec.json.Decoder(_CommitInfo)
_PROVENANCE_KEYS: Final = (b'"timestamp"', b'"inCommitTimestamp"', b'"operation"')
_OPERATION_BYTES: Final = 1 << 10
_METADATA_KEY: Final = b'"metaData"'
_KEYS: Final = (_METADATA_KEY, b'"protocol"', b'"commitInfo"', b'"sidecar"', b'"checkpointMetadata"')


def has_metadata(data: bytes) -> bool:
    """Whether a commit may set the metadata: a cheap test with false positives."""
    return find_bytes(data, _METADATA_KEY) >= 0


def read_header(data: bytes, *, location: str, bounds: LogBounds) -> LogHeader:
    """Reads what a commit, a log compaction or a JSON checkpoint holds besides adds and removes.

    Args:
        location: where it is, for messages.
        bounds: of the lines that hold such actions.

    Raises:
        InvalidDeltaTableError: the file is empty, or a line that may hold such an action is malformed.
        PayloadTooLargeError: these lines are too long.
        TooLargeError: one is too long for a request.
    """
    if is_blank(data):
        raise InvalidDeltaTableError(f"File {location} of the log is empty")
    return _header(_lines(data, location, bounds))


def header_of_rows(rows: Iterable[Mapping[str, Any]], *, location: str) -> LogHeader:
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


def _lines(data: bytes, location: str, bounds: LogBounds) -> list[_Line]:
    lines = []
    limits = bounds.limits
    held = 0
    for start, end in _found(data):
        text = bounds.line(data, start, end)
        try:
            if is_nested_deeper(text, limits.nesting):
                raise RecursionError
            raw, text = _raw_line(text)
            values = {kind: bytes(getattr(raw, kind)) for kind in _KINDS}
            size = sum(len(value) for value in values.values() if value != _NULL)
            held += size
            check_header_bytes(held, location, limits)
            line = _Line(**{kind: read.decode(values[kind]) for kind, read in _KINDS.items()})
            if size:
                # readers take either of two equal keys; nobody reads two of provenance
                check_json(text.replace(bytes(raw.commit_info), b"null"))
            line.commit_info = _commit_info(bytes(raw.commit_info))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, IllegalArgumentError) as error:
            number = count_byte(data, b"\n", start) + 1
            problem = _problem(error, limits)
            raise InvalidDeltaTableError(f"Line {number} of {location} {problem}") from None
        lines.append(line)
    return lines


def _raw_line(text: bytes) -> tuple[_RawLine, bytes]:
    """The values of a line, and the line that was decoded: of texts that are not read any may be no text."""
    try:
        return _RAW_LINES.decode(text), text
    except msgspec.DecodeError:
        valid = without_lone_surrogates(text)
        raw = _RAW_LINES.decode(valid)
        if any(bytes(getattr(raw, kind)) not in text for kind in _KINDS if getattr(raw, kind) != _ABSENT):
            raise
        return raw, valid


def _problem(error: Exception, limits: LimitSettings) -> str:
    """The fault of a line. The message of the parser would quote it."""
    if isinstance(error, RecursionError):
        return f"is nested too deeply: more than {limits.nesting} levels (floecat.limits.nesting)"
    if isinstance(error, IllegalArgumentError):
        return f"cannot be read: {error}"
    return "is not a valid Delta action"


def _found(data: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of the lines that contain a key. Some contain it elsewhere; decoding sorts them out."""
    places = {key: find_bytes(data, key) for key in _KEYS}
    while found := [place for place in places.values() if place >= 0]:
        end = find_bytes(data, b"\n", min(found))
        end = len(data) if end < 0 else end
        yield data.rfind(b"\n", 0, min(found)) + 1, end
        for key, place in places.items():
            if 0 <= place < end:
                places[key] = find_bytes(data, key, end)


def _header(lines: Sequence[_Line]) -> LogHeader:
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
    return LogHeader(
        protocol=_protocol(protocol) if protocol else None,
        metadata=_metadata(metadata) if metadata else None,
        commit_info=commit_info,
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


def _commit_info(data: bytes) -> CommitInfo | None:
    """The fields of a provenance that matter; the rest, and what is no object, is passed over by bytes."""
    if data == _NULL:
        return None
    if not data.startswith(b"{"):
        return CommitInfo()
    if any(_is_twice(data, key) for key in _PROVENANCE_KEYS):
        check_json(data)
    found = _PROVENANCE.decode(data)
    return CommitInfo(
        timestamp_ms=_whole_number(found.timestamp),
        in_commit_timestamp_ms=_whole_number(found.in_commit_timestamp),
        operation=_short_text(found.operation),
    )


def _is_twice(data: bytes, key: bytes) -> bool:
    first = find_bytes(data, key)
    return first >= 0 and find_bytes(data, key, first + 1) >= 0


def _whole_number(raw: msgspec.Raw) -> int | None:
    return int(raw) if re.fullmatch(rb"-?[0-9]{1,19}", bytes(raw)) else None


def _short_text(raw: msgspec.Raw) -> str | None:
    data = bytes(raw)
    if not data.startswith(b'"') or len(data) > _OPERATION_BYTES:
        return None
    return msgspec.json.decode(data, type=str)


def _with_dicts(row: Mapping[str, Any]) -> dict[str, Any]:
    metadata = row.get("metaData")
    if not metadata or metadata.get("configuration") is None:
        return dict(row)
    return {**row, "metaData": {**metadata, "configuration": dict(metadata["configuration"])}}
