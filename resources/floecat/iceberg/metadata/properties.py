"""Table properties that the catalog itself acts on."""

from __future__ import annotations

from collections.abc import Mapping

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.values.integers import int32_of

__all__ = [
    "DEFAULT_FORMAT_VERSION",
    "FORMAT_VERSION",
    "MAX_FORMAT_VERSION",
    "METADATA_COMPRESSION",
    "METADATA_PATH",
    "RESERVED_PROPERTIES",
    "check_format_version",
    "check_new_table_properties",
    "deletes_old_metadata",
    "persisted_properties",
    "previous_versions_max",
    "requested_format_version",
]

DEFAULT_FORMAT_VERSION = 2
MAX_FORMAT_VERSION = 3

FORMAT_VERSION = "format-version"
METADATA_PATH = "write.metadata.path"
METADATA_COMPRESSION = "write.metadata.compression-codec"

_PREVIOUS_VERSIONS_MAX = "write.metadata.previous-versions-max"
_DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
_COLUMN_METRICS = "write.metadata.metrics.column."
_PARQUET_COMPRESSION = "write.parquet.compression-codec"

RESERVED_PROPERTIES = frozenset(
    {
        FORMAT_VERSION,
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
"""Names that clients may send and that are never stored: engines show them as properties."""

_COMMIT_PROPERTIES = (
    "commit.retry.num-retries",
    "commit.retry.min-wait-ms",
    "commit.retry.max-wait-ms",
    "commit.retry.total-timeout-ms",
)
_ENCRYPTION_PROPERTIES = ("encryption.key-id", "encryption.data-key-length")


def persisted_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """What of the properties of a new table is stored: defaults, and all that is not reserved."""
    unreserved = {key: value for key, value in properties.items() if key not in RESERVED_PROPERTIES}
    return {_PARQUET_COMPRESSION: "zstd"} | unreserved


def requested_format_version(properties: Mapping[str, str]) -> int | None:
    """The format version that `format-version` asks for, None if it is not there.

    Raises:
        IllegalArgumentError: it is no whole number.
    """
    value = properties.get(FORMAT_VERSION)
    if value is None:
        return None
    version = int32_of(value)
    if version is None:
        raise IllegalArgumentError(f"Table property {FORMAT_VERSION} must have integer value")
    return version


def check_format_version(format_version: int) -> int:
    """The format version, if tables of it can be created and changed.

    Raises:
        IllegalArgumentError: they cannot.
    """
    if not 1 <= format_version <= MAX_FORMAT_VERSION:
        raise IllegalArgumentError(
            f"Unsupported format version: v{format_version} (supported: v{MAX_FORMAT_VERSION})"
        )
    return format_version


def check_new_table_properties(properties: Mapping[str, str], schema: Schema, format_version: int) -> None:
    """Refuses properties that a new table must not have.

    Raises:
        IllegalArgumentError: metrics for a column that is not there, retry settings that are no whole
            numbers, or encryption before format version 3.
    """
    for key in properties:
        column = key.removeprefix(_COLUMN_METRICS)
        if column != key and column not in schema.ids_by_name:
            raise IllegalArgumentError(
                f"Invalid metrics config, could not find column {column} from table prop {key}"
            )
    for key in _COMMIT_PROPERTIES:
        value = int32_of(properties.get(key, "0"))
        if value is None or value < 0:
            raise IllegalArgumentError(f"Table property {key} must have non negative integer value")
    too_new = [key for key in _ENCRYPTION_PROPERTIES if key in properties]
    if too_new and format_version < 3:
        raise IllegalArgumentError(f"Invalid properties for v{format_version}: {', '.join(too_new)}")


def previous_versions_max(properties: Mapping[str, str]) -> int:
    """How many entries `metadata-log` keeps: 100 unless the table says otherwise, at least 1."""
    value = int32_of(properties.get(_PREVIOUS_VERSIONS_MAX, ""))
    return 100 if value is None else max(1, value)


def deletes_old_metadata(properties: Mapping[str, str]) -> bool:
    """Whether metadata files that fall out of the log are deleted after a commit."""
    return properties.get(_DELETE_AFTER_COMMIT, "false").lower() == "true"
