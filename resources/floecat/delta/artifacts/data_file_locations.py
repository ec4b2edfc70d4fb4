"""Locations of data files, as manifests spell them."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from floecat.errors import BadRequestError, InvalidDeltaTableError, UnsupportedDeltaTableError
from floecat.fileio.locations import AllowedLocations, FileLocation, normalize_location

__all__ = ["checked_location", "data_file_locations"]

_ABSOLUTE = r"^(?:[A-Za-z][A-Za-z0-9+.-]*:/|/)"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)")
_CUT_BY_URI_PARSERS = r"^file://.*[?#\t\r\n]"
_LEADS_ELSEWHERE = r"(?:^|[/\\])\.{1,2}(?:[/\\]|$)"


def data_file_locations(
    paths: pa.ChunkedArray, location: str, allowed: AllowedLocations | None
) -> pa.StringArray:
    """Absolute locations of the files of a table, the same spelling for the same file always.

    Characters of names stand for themselves, as all engines but PyIceberg take them. PyIceberg parses a
    location as a URI, and loses what follows ``?`` or ``#``, and tabs and line breaks. It does not if there
    is no scheme: so a file on the local disk that has such a name is spelled as a path.

    Args:
        paths: as the log gives them, percent-decoded: relative to the table, or absolute.
        location: root of the table.
        allowed: where absolute ones may lead; None for names that are only compared with those of files. A
            path that no file of ours can have is left as it is then.

    Raises:
        InvalidDeltaTableError: a relative path leads out of the table.
        UnsupportedDeltaTableError: an absolute path is malformed, or of a storage that is not read here.
        LocationNotAllowedError: an absolute path is outside the allowed locations.
    """
    joined = paths.combine_chunks() if isinstance(paths, pa.ChunkedArray) else paths
    if allowed and pc.any(pc.match_substring_regex(joined, _LEADS_ELSEWHERE)).as_py():
        raise InvalidDeltaTableError(f"A file path in the log of {location} leads out of the table")
    root = location.rstrip("/")
    relative = pc.binary_join_element_wise(root, joined, "/")
    is_absolute = pc.match_substring_regex(joined, _ABSOLUTE)
    if not pc.any(is_absolute).as_py():
        return _readable(relative)
    # few tables have them: shallow clones, and files that were added in place
    checked = [
        _located(path, allowed) if absolute else None
        for path, absolute in zip(joined.to_pylist(), is_absolute.to_pylist(), strict=True)
    ]
    return _readable(pc.coalesce(pa.array(checked, pa.string()), relative))


def _readable(locations: pa.StringArray) -> pa.StringArray:
    is_cut = pc.match_substring_regex(locations, f"(?s){_CUT_BY_URI_PARSERS}")
    if not pc.any(is_cut).as_py():
        return locations
    return pc.if_else(is_cut, pc.replace_substring_regex(locations, "^file://", ""), locations)


def checked_location(location: str, allowed: AllowedLocations) -> FileLocation:
    """The location of a file that the log names, in its one spelling.

    Args:
        location: an absolute one.
        allowed: where it may lie.

    Raises:
        UnsupportedDeltaTableError: it is malformed, or of a storage that is not read here.
        LocationNotAllowedError: it lies outside the allowed locations.
    """
    try:
        return FileLocation(allowed.check(FileLocation(location)))
    except BadRequestError as error:
        # of the table, that is, and not of the request: other versions of it can be read
        scheme = _SCHEME.match(location)
        name = f"a {scheme[0]}: location" if scheme else "a name"
        raise UnsupportedDeltaTableError(
            f"A file of the table has {name} that is not supported: {error}"
        ) from None


def _located(path: str, allowed: AllowedLocations | None) -> str:
    if allowed:
        return str(checked_location(path, allowed))
    try:
        return str(normalize_location(FileLocation(path)))
    except BadRequestError:
        return path
