"""The scalar fields of table metadata, and which of them each format version requires.

A v1 document of an early writer has one `schema` and one `partition-spec` instead of lists; missing fields
get the values that the specification gives for them ("Table Metadata Fields", Appendix F).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from floecat.errors import InvalidMetadataError
from floecat.iceberg.metadata.properties import MAX_FORMAT_VERSION, strip_trailing_slash
from floecat.iceberg.values.encoded_json import (
    Fragment,
    Int32,
    Int64,
    describe_decode_error,
    encode_json,
    fragment_bytes,
)

__all__ = ["FIELD_ORDER", "NO_SNAPSHOT_ID", "MetadataHeader", "read_header"]

T = TypeVar("T")

NO_SNAPSHOT_ID = -1
"""`current-snapshot-id` of a table without snapshots in format versions 1 and 2."""

FIELD_ORDER = (
    "format-version",
    "table-uuid",
    "location",
    "last-sequence-number",
    "last-updated-ms",
    "last-column-id",
    "schema",
    "current-schema-id",
    "schemas",
    "partition-spec",
    "default-spec-id",
    "partition-specs",
    "last-partition-id",
    "default-sort-order-id",
    "sort-orders",
    "properties",
    "current-snapshot-id",
    "next-row-id",
    "encryption-keys",
    "refs",
    "snapshots",
    "statistics",
    "partition-statistics",
    "snapshot-log",
    "metadata-log",
)
"""The fields of a document, in the order in which the catalog writes them."""

_ROOT = uuid.UUID("6f1a3f0e-4f3c-5d8e-9b0a-2d6f0c7a51e4")


class MetadataHeader(msgspec.Struct, frozen=True):
    """The scalar fields of table metadata. Times in ms; `location` has no slash at its end."""

    format_version: int
    table_uuid: str
    location: str
    last_sequence_number: int
    last_updated_ms: int
    last_column_id: int
    current_schema_id: int
    default_spec_id: int
    last_partition_id: int | None
    default_sort_order_id: int
    next_row_id: int
    current_snapshot_id: int | None


class _Scalars(msgspec.Struct, rename="kebab"):
    format_version: Int32
    location: str
    last_updated_ms: Int64
    last_column_id: Int32
    table_uuid: str | None = None
    last_sequence_number: Int64 | None = None
    current_schema_id: Int32 | None = None
    default_spec_id: Int32 | None = None
    last_partition_id: Int32 | None = None
    default_sort_order_id: Int32 | None = None
    next_row_id: Int64 | None = None
    current_snapshot_id: Int64 | None = None


class _FormatVersion(msgspec.Struct, rename="kebab"):
    format_version: Int32


class _SchemaId(msgspec.Struct, rename="kebab"):
    schema_id: Int32 = 0


_SCALAR_NAMES = tuple(field.encode_name for field in msgspec.structs.fields(_Scalars))

_REQUIRED_SINCE_V2 = (
    "table-uuid",
    "last-sequence-number",
    "schemas",
    "current-schema-id",
    "partition-specs",
    "default-spec-id",
    "last-partition-id",
    "sort-orders",
    "default-sort-order-id",
)
_LISTS = (("schemas", "current-schema-id"), ("partition-specs", "default-spec-id"))


def read_header(fields: Mapping[str, Fragment]) -> MetadataHeader:
    """Reads the scalar fields of a document.

    Args:
        fields: the document, split; without fields that are null, but for the current snapshot id.

    Raises:
        InvalidMetadataError: the format version is not supported, or a field is missing or of another type.
    """
    try:
        scalars = _decode(fields, _SCALAR_NAMES, _Scalars)
    except InvalidMetadataError:
        # the version is named first, as another one may have other fields
        _check_names(_decode(fields, ("format-version",), _FormatVersion).format_version, fields)
        raise
    version = scalars.format_version
    _check_names(version, fields)
    if version == 1 and scalars.last_sequence_number:
        raise InvalidMetadataError(f"Sequence number must be 0 in v1: {scalars.last_sequence_number}")
    if not scalars.location:
        raise InvalidMetadataError(f"Table location is required in format v{version}")
    return _header(scalars, fields)


def _check_names(version: int, fields: Mapping[str, Fragment]) -> None:
    if not 1 <= version <= MAX_FORMAT_VERSION:
        raise InvalidMetadataError(
            f"Cannot read unsupported version {version} (supported: v1 to v{MAX_FORMAT_VERSION})"
        )
    for name in _required(version, fields):
        if name not in fields:
            raise InvalidMetadataError(f"Invalid table metadata: {name} must exist in format v{version}")


def _required(version: int, fields: Mapping[str, Fragment]) -> tuple[str, ...]:
    if version == 2:
        return _REQUIRED_SINCE_V2
    if version == 3:
        return (*_REQUIRED_SINCE_V2, "next-row-id")
    required = ["default-sort-order-id"] if "sort-orders" in fields else []
    for many, current in _LISTS:
        single = many.removesuffix("s")
        required.append(current if many in fields else single)
    return tuple(required)


def _decode(fields: Mapping[str, Fragment], names: tuple[str, ...], type: type[T]) -> T:
    document = encode_json(
        {name: msgspec.Raw(fragment_bytes(fields[name])) for name in names if name in fields}
    )
    try:
        return msgspec.json.decode(document, type=type)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidMetadataError(f"Invalid table metadata: {describe_decode_error(error)}") from None


def _header(scalars: _Scalars, fields: Mapping[str, Fragment]) -> MetadataHeader:
    location = strip_trailing_slash(scalars.location)
    current = scalars.current_snapshot_id
    return MetadataHeader(
        format_version=scalars.format_version,
        # Derived from the location, so that it is the same whenever the file is read.
        table_uuid=scalars.table_uuid or str(uuid.uuid5(_ROOT, location)),
        location=location,
        last_sequence_number=scalars.last_sequence_number or 0,
        last_updated_ms=scalars.last_updated_ms,
        last_column_id=scalars.last_column_id,
        current_schema_id=_current_schema_id(scalars, fields),
        default_spec_id=scalars.default_spec_id or 0,
        last_partition_id=scalars.last_partition_id,
        default_sort_order_id=scalars.default_sort_order_id or 0,
        next_row_id=scalars.next_row_id or 0,
        current_snapshot_id=None if current == NO_SNAPSHOT_ID else current,
    )


def _current_schema_id(scalars: _Scalars, fields: Mapping[str, Fragment]) -> int:
    if "schemas" in fields:
        return scalars.current_schema_id or 0
    try:
        return msgspec.json.decode(fragment_bytes(fields["schema"]), type=_SchemaId).schema_id
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise InvalidMetadataError("Invalid table metadata: cannot parse schema") from None
