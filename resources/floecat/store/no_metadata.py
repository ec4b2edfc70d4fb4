"""The metadata location of an entry without metadata, such as a Delta table whose log was never read."""

from __future__ import annotations

from typing import Final

__all__ = ["has_metadata", "no_metadata_location"]

_FILE: Final = "unread.metadata.json"


def no_metadata_location(folder: str) -> str:
    """The metadata location of an entry without metadata. There is no such file, and no client is told of it.

    Args:
        folder: where the metadata files of the table will be written.
    """
    return f"{folder}/{_FILE}"


def has_metadata(metadata_location: str) -> bool:
    """Whether the entry with this metadata location has metadata."""
    return not metadata_location.endswith(f"/{_FILE}")
