"""The history of metadata files, as a commit writes it on."""

from __future__ import annotations

import msgspec

from floecat.errors import InvalidMetadataError
from floecat.iceberg.metadata.metadata_logs import MetadataLogEntry
from floecat.iceberg.values.json_arrays import Fragment, append_elements, array_of, split_array
from floecat.iceberg.values.json_values import encode_json

__all__ = ["append_metadata_log"]


def append_metadata_log(
    array: Fragment, metadata_file: str, timestamp_ms: int, max_entries: int
) -> tuple[Fragment, list[MetadataLogEntry]]:
    """Adds the file that a commit replaces, and forgets the oldest ones.

    Args:
        array: `metadata-log` of the base.
        metadata_file: location of the file that holds the base.
        timestamp_ms: `last-updated-ms` of the base.
        max_entries: how many entries stay, the new one included; at least 1.

    Returns:
        The next `metadata-log`, and the entries that are no longer in it, oldest first.

    Raises:
        InvalidMetadataError: the log of the base cannot be read.
    """
    added = encode_json(MetadataLogEntry(timestamp_ms, metadata_file))
    elements = split_array(array, "metadata-log")
    surplus = len(elements) - max_entries + 1
    if surplus <= 0:
        return append_elements(array, [added]), []
    kept = [memoryview(element) for element in elements[surplus:]]
    return array_of([*kept, added]), [_read(element) for element in elements[:surplus]]


def _read(element: msgspec.Raw) -> MetadataLogEntry:
    try:
        return msgspec.json.decode(element, type=MetadataLogEntry)
    except (msgspec.MsgspecError, UnicodeError):
        raise InvalidMetadataError("Invalid table metadata: cannot parse metadata-log") from None
