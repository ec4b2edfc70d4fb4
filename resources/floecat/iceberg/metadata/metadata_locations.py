"""Names of metadata files: `<directory>/<version>-<uuid>.metadata.json`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias
from uuid import UUID

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.properties import METADATA_COMPRESSION, METADATA_PATH

__all__ = ["Codec", "metadata_file_name", "metadata_version", "strip_trailing_slash"]

Codec: TypeAlias = Literal["none", "gzip"]
"""How a metadata file is compressed."""

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
    """Where a metadata file of a table or view goes.

    Args:
        location: of the table or view, without a slash at its end.
        properties: `write.metadata.path` and `write.metadata.compression-codec` are looked at.
        version: one more than the version of the file before, 0 for the first.
        uuid: makes the name unique, so that racing commits never write the same file.
        default_codec: what is done where the properties name no codec.

    Raises:
        IllegalArgumentError: the compression codec is neither `none` nor `gzip`.
    """
    codec = properties.get(METADATA_COMPRESSION, default_codec)
    suffix = _SUFFIXES.get(codec.lower())
    if suffix is None:
        raise IllegalArgumentError(f"Invalid codec name: {codec[:80]}")
    path = properties.get(METADATA_PATH)
    directory = strip_trailing_slash(path) if path else f"{location}/metadata"
    return f"{directory}/{version:05d}-{uuid}{suffix}"


def metadata_version(metadata_location: str | None) -> int:
    """The version in the name of a metadata file; -1 without one, so that the first file gets 0."""
    if metadata_location is None:
        return -1
    match = _VERSION.match(metadata_location.rpartition("/")[2])
    return -1 if match is None else int(match[1])
