"""Table properties that the catalog acts on, names of metadata files and the name mapping included."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias
from uuid import UUID

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.values.bounds import process_bounds
from floecat.iceberg.values.encoded_json import Int32
from floecat.iceberg.values.text_limits import int32_of

__all__ = [
    "DEFAULT_FORMAT_VERSION",
    "MAX_FORMAT_VERSION",
    "NAME_MAPPING",
    "RESERVED_PROPERTIES",
    "Codec",
    "check_format_version",
    "check_name_mapping",
    "check_new_table_properties",
    "check_property_count",
    "deletes_old_metadata",
    "mapped_ids",
    "metadata_file_name",
    "metadata_version",
    "persisted_properties",
    "previous_versions_max",
    "requested_format_version",
    "strip_trailing_slash",
    "table_type",
]

DEFAULT_FORMAT_VERSION = 2
MAX_FORMAT_VERSION = 3

_FORMAT_VERSION = "format-version"
_TABLE_TYPE = "table_type"
_LONGEST_TABLE_TYPE = 64
_METADATA_PATH = "write.metadata.path"
_METADATA_COMPRESSION = "write.metadata.compression-codec"

_PREVIOUS_VERSIONS_MAX = "write.metadata.previous-versions-max"
_DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
_COLUMN_METRICS = "write.metadata.metrics.column."
_PARQUET_COMPRESSION = "write.parquet.compression-codec"

RESERVED_PROPERTIES = frozenset(
    {
        _FORMAT_VERSION,
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
"""Names that engines show as properties: clients may send them, they are never stored."""

_COMMIT_PROPERTIES = (
    "commit.retry.num-retries",
    "commit.retry.min-wait-ms",
    "commit.retry.max-wait-ms",
    "commit.retry.total-timeout-ms",
)
_ENCRYPTION_PROPERTIES = ("encryption.key-id", "encryption.data-key-length")


def persisted_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a new table as stored: defaults added, reserved ones left out."""
    unreserved = {key: value for key, value in properties.items() if key not in RESERVED_PROPERTIES}
    return {_PARQUET_COMPRESSION: "zstd"} | unreserved


def check_property_count(properties: Mapping[str, str]) -> None:
    """Refuses too many properties of a table or view: it would hold up others whenever it is read.

    Raises:
        IllegalArgumentError: there are more than `floecat.limits.elements`.
    """
    if len(properties) > process_bounds.limits.elements:
        raise IllegalArgumentError(
            f"Invalid properties: more than {process_bounds.limits.elements} (floecat.limits.elements)"
        )


def requested_format_version(properties: Mapping[str, str]) -> int | None:
    """The format version that `format-version` asks for, None without it.

    Raises:
        IllegalArgumentError: it is not an integer.
    """
    value = properties.get(_FORMAT_VERSION)
    if value is None:
        return None
    version = int32_of(value)
    if version is None:
        raise IllegalArgumentError(f"Table property {_FORMAT_VERSION} must have integer value")
    return version


def check_format_version(format_version: int) -> int:
    """Returns the format version.

    Raises:
        IllegalArgumentError: tables of this version cannot be created or changed.
    """
    if not 1 <= format_version <= MAX_FORMAT_VERSION:
        raise IllegalArgumentError(
            f"Unsupported format version: v{format_version} (supported: v{MAX_FORMAT_VERSION})"
        )
    return format_version


def check_new_table_properties(properties: Mapping[str, str], schema: Schema, format_version: int) -> None:
    """Refuses properties that a new table must not have.

    Raises:
        IllegalArgumentError: metrics for a missing column, retry settings that are not integers, or
            encryption before format version 3.
    """
    for key in properties:
        column = key.removeprefix(_COLUMN_METRICS)
        if column != key and column not in schema.ids_by_name:
            raise IllegalArgumentError(
                f"Invalid metrics config, could not find column {column} from table prop {key}"
            )
    for key in _COMMIT_PROPERTIES:
        value = int32_of(properties[key]) if key in properties else 0
        if value is None or value < 0:
            raise IllegalArgumentError(f"Table property {key} must have non negative integer value")
    too_new = [key for key in _ENCRYPTION_PROPERTIES if key in properties]
    if too_new and format_version < 3:
        raise IllegalArgumentError(f"Invalid properties for v{format_version}: {', '.join(too_new)}")


def previous_versions_max(properties: Mapping[str, str]) -> int:
    """Maximum entries of `metadata-log`: 100 by default, at least 1."""
    value = int32_of(properties.get(_PREVIOUS_VERSIONS_MAX, ""))
    return 100 if value is None else max(1, value)


def deletes_old_metadata(properties: Mapping[str, str]) -> bool:
    """Whether metadata files that fall out of the log are deleted after a commit."""
    return properties.get(_DELETE_AFTER_COMMIT, "false").lower() == "true"


Codec: TypeAlias = Literal["none", "gzip"]
"""Compression of a metadata file."""

_SUFFIXES = {"none": ".metadata.json", "gzip": ".gz.metadata.json"}
_VERSION = re.compile(r"([0-9]{1,9})-")


def strip_trailing_slash(location: str) -> str:
    """A location without slashes at its end; a bare `scheme://` keeps them.

    Raises:
        IllegalArgumentError: it is empty.
    """
    if not location:
        raise IllegalArgumentError("path must not be null or empty")
    stripped = location.rstrip("/")
    return f"{stripped}//" if stripped.endswith(":") and location.startswith(f"{stripped}//") else stripped


def metadata_file_name(
    location: str,
    properties: Mapping[str, str],
    version: int,
    uuid: UUID | str,
    *,
    default_codec: Codec = "none",
) -> str:
    """The location of a metadata file of a table or view: `<directory>/<version>-<uuid>.metadata.json`.

    Args:
        location: of the table or view, without a slash at its end.
        properties: `write.metadata.path` and `write.metadata.compression-codec` are used.
        version: one more than that of the previous file, 0 for the first.
        uuid: makes the name unique, so that racing commits never write the same file.
        default_codec: codec if the properties name none.

    Raises:
        IllegalArgumentError: the compression codec is neither `none` nor `gzip`.
    """
    codec = properties.get(_METADATA_COMPRESSION, default_codec)
    suffix = _SUFFIXES.get(codec.lower())
    if suffix is None:
        raise IllegalArgumentError(f"Invalid codec name: {codec[:80]}")
    path = properties.get(_METADATA_PATH)
    directory = strip_trailing_slash(path) if path else f"{location}/metadata"
    return f"{directory}/{version:05d}-{uuid}{suffix}"


def metadata_version(metadata_location: str | None) -> int:
    """The version in the name of a metadata file; -1 if there is none, so that the first file gets 0."""
    if metadata_location is None:
        return -1
    match = _VERSION.match(metadata_location.rpartition("/")[2])
    return -1 if match is None else int(match[1])


NAME_MAPPING = "schema.name-mapping.default"
"""The property that holds the name mapping (table specification, "Column Projection") as JSON."""


class _Mapped(msgspec.Struct, rename="kebab"):
    """A column of a mapping, in a form that at least some readers accept."""

    field_id: Int32 | None = None
    fields: list[_Mapped] | None = None


class _Readable(msgspec.Struct, rename="kebab"):
    names: list[str]
    field_id: Int32 | None = None
    fields: list[_Readable] = []


_decoder = msgspec.json.Decoder(list[_Mapped])
_readable_decoder = msgspec.json.Decoder(list[_Readable])


def check_name_mapping(text: str) -> None:
    """Refuses a mapping with which PyIceberg and DuckDB cannot read the table.

    Raises:
        IllegalArgumentError: it is not a list of objects with `names` and integer `field-id`s.
    """
    try:
        _readable_decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise IllegalArgumentError(f"Invalid property {NAME_MAPPING}: not a name mapping") from None


def mapped_ids(text: str) -> Iterator[int]:
    """The column ids in a mapping, of all levels; nothing if it is not a mapping."""
    try:
        mapped = _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return
    while mapped:
        column = mapped.pop()
        if column.field_id is not None:
            yield column.field_id
        mapped += column.fields or ()


def table_type(properties: Mapping[str, str]) -> str | None:
    """The type of the table by the property `table_type`, in lower case, as `lance`.

    It is not of the table specification: catalogs tell tables of other formats by it.

    Returns:
        None if it is not set, or is no plain ASCII text of at most 64 characters, which nothing is listed by.
    """
    value = properties.get(_TABLE_TYPE, "").lower()
    is_plain = 0 < len(value) <= _LONGEST_TABLE_TYPE and value.isascii() and value.isprintable()
    return value if is_plain else None
