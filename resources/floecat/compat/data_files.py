"""Locations of data files, as manifests spell them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from floecat.errors import InvalidDeltaTableError
from floecat.fileio.locations import AllowedLocations, normalize_location

__all__ = ["data_file_locations"]

_ABSOLUTE = r"^(?:[A-Za-z][A-Za-z0-9+.-]*:/|/)"
_LEADS_ELSEWHERE = r"(?:^|/)\.{1,2}(?:/|$)|\\"


def data_file_locations(
    paths: pa.ChunkedArray, location: str, allowed: AllowedLocations | None
) -> pa.StringArray:
    """Absolute locations of the files of a table, the same spelling for the same file always.

    Args:
        paths: as the log gives them, percent-decoded: relative to the table, or absolute.
        location: root of the table.
        allowed: where absolute ones may lead; None for files that nobody is going to read.

    Raises:
        InvalidDeltaTableError: a relative path leads out of the table.
        BadRequestError: an absolute path is malformed.
        LocationNotAllowedError: an absolute path is outside the allowed locations.
    """
    joined = paths.combine_chunks() if isinstance(paths, pa.ChunkedArray) else paths
    if pc.any(pc.match_substring_regex(joined, _LEADS_ELSEWHERE)).as_py():
        raise InvalidDeltaTableError(f"A file path in the log of {location} leads out of the table")
    root = location.rstrip("/")
    relative = pc.binary_join_element_wise(root, joined, "/")
    is_absolute = pc.match_substring_regex(joined, _ABSOLUTE)
    if not pc.any(is_absolute).as_py():
        return relative
    # few tables have them: shallow clones, and files that were added in place
    checked = [
        str(allowed.check(path) if allowed else normalize_location(path)) if absolute else None
        for path, absolute in zip(joined.to_pylist(), is_absolute.to_pylist(), strict=True)
    ]
    return pc.coalesce(pa.array(checked, pa.string()), relative)
