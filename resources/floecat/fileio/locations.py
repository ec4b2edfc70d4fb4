"""Locations of files: one spelling for each, and which of them a catalog may touch."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote

from floecat.errors import BadRequestError, LocationNotAllowedError
from floecat.iceberg.values.bounds import process_bounds

__all__ = [
    "AllowedLocations",
    "FileLocation",
    "Location",
    "check_bounds",
    "check_new_location",
    "cut_location",
    "is_plain_name",
    "normalize_location",
    "real_path",
    "real_path_of",
    "same_file_location",
    "scheme_of",
]

_SCHEMES: Final = {
    "file": "file",
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "abfs": "abfss",
    "abfss": "abfss",
    "wasb": "abfss",
    "wasbs": "abfss",
}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CONTAINER = re.compile(r"([a-z0-9$][a-z0-9-]*)@([a-z0-9]+)\.(?:dfs|blob)\.([a-z0-9.-]+)", re.IGNORECASE)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]{0,254}")
_LONGEST_SHOWN: Final = 300
_PLACE: Final = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC
"""Opens a file for its place alone."""
_DELETED: Final = " (deleted)"
"""Suffix that Linux adds to the place of a file that is gone (proc(5))."""


def check_bounds(location: str) -> None:
    """Refuses a location, or a path, that is too long or percent-encoded too many times.

    Raises:
        BadRequestError: with the setting that bounds it.
    """
    limits = process_bounds.limits
    longest, levels = limits.location_bytes, limits.percent_decoding_levels
    if len(location) > longest or (
        not location.isascii() and len(location.encode(errors="surrogatepass")) > longest
    ):
        raise BadRequestError(
            f"Invalid location: longer than {longest} bytes (floecat.limits.location-bytes)"
        )
    if "%" in location and unquote(found := _decoded(location)) != found:
        raise BadRequestError(
            f"Invalid location: percent-encoded more than {levels} times"
            " (floecat.limits.percent-decoding-levels)"
        )


def _decoded(text: str) -> str:
    """A text without percent-encoding, or with what is left of it after as many levels as are allowed."""
    for _ in range(process_bounds.limits.percent_decoding_levels):
        if "%" not in text or (again := unquote(text)) == text:
            break
        text = again
    return text


class FileLocation(str):
    """The location of a file that another program named: its characters stand for themselves.

    A Delta log may name files with a backslash or control characters, and objects with ``#`` or ``?``, which
    are refused in what clients of the catalog write.
    """

    __slots__ = ()

    @property
    def shown(self) -> str:
        """The location in a message: control characters are escaped."""
        return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), self)


class Location(NamedTuple):
    """A location in its one spelling. Keys are literal: a percent sign in them is a percent sign."""

    scheme: str
    """``file``, ``s3``, ``gs`` or ``abfss``."""

    authority: str
    """The bucket; ``container@account.dfs.<domain>`` for ``abfss``; empty for ``file``."""

    path: str
    """``/`` and the key, without a slash at the end; empty for the root of a bucket or of the file system."""

    def __str__(self) -> str:
        """The URI, as ``s3://bucket/key`` or ``file:///path``."""
        return f"{self.scheme}://{self.authority}{self.path}" if self.path or self.authority else "file:///"

    @property
    def key(self) -> str:
        """The path without its leading slash: the key of an object."""
        return self.path[1:]

    def contains(self, other: Location) -> bool:
        """Whether `other` is this location or lies below it. ``s3://b/a`` does not contain ``s3://b/ab``."""
        return (
            self.scheme == other.scheme
            and self.authority == other.authority
            and (self.path == other.path or other.path.startswith(self.path + "/"))
        )


def normalize_location(location: str) -> Location:
    """Brings a location into its one spelling.

    Schemes that mean the same storage become one (``s3a`` and ``s3n`` are ``s3``; ``abfs`` and ``wasbs`` are
    ``abfss``), an absolute path becomes a ``file`` location, and a slash at the end goes. Repeated slashes
    are one on the local disk. In object storage they would be part of the key and name another object, so
    they are refused there. ``?`` and ``#`` are characters of a name on the local disk. In object storage
    clients do not agree on them (`cut_location`), so they are refused there.

    Raises:
        BadRequestError: the location is relative, of an unknown scheme, carries credentials, or holds
            segments (also percent-encoded) that could lead elsewhere; or it holds a backslash or a control
            character, or ``?`` or ``#`` in object storage, and is not a `FileLocation`; or `check_bounds`
            refuses it.
    """
    check_bounds(location)
    _check_characters(location)
    scheme, rest = _split_scheme(location)
    if scheme != "file" and ("?" in location or "#" in location) and not isinstance(location, FileLocation):
        raise BadRequestError(_invalid(location, "must not carry a query or a fragment"))
    authority, path = _split_authority(location, scheme, rest)
    if scheme == "file" and "//" in path:
        path = re.sub("/{2,}", "/", path)
    path = path.removesuffix("/")
    if "//" in f"{path}/":
        raise BadRequestError(_invalid(location, "holds an empty path segment"))
    # only with these can a segment lead elsewhere
    if ("/." in path or "%" in path or "\\" in path) and any(map(_leads_elsewhere, path.split("/"))):
        raise BadRequestError(_invalid(location, "holds '.' or '..' as a path segment"))
    return Location(scheme, authority, path)


def cut_location(location: str) -> str | None:
    """The part of a location in object storage before ``?`` (a query) and ``#`` (a fragment).

    So do Java's `S3FileIO` and PyIceberg read it; for Hadoop's file systems they belong to the key. None if
    there is nothing to cut, or the location is not in object storage.
    """
    kept = location.partition("?")[0].partition("#")[0]
    if kept == location:
        return None
    try:
        return None if scheme_of(location) == "file" else kept
    except BadRequestError:
        return None


def check_new_location(location: str) -> None:
    """Refuses a place for files that are yet to be written, if clients would not write them there.

    PyIceberg parses the URI of a local file, and would write all files below ``/w/a?b`` to ``/w/a``.

    Raises:
        BadRequestError: see above.
    """
    if "?" in location or "#" in location:
        raise BadRequestError(_invalid(location, "must not carry a query or a fragment"))


def scheme_of(location: str) -> str:
    """The scheme that `normalize_location` gives a location; says nothing about the rest.

    Raises:
        BadRequestError: the location is relative or of an unknown scheme.
    """
    return _split_scheme(location)[0]


def same_file_location(location: str) -> Location:
    """The canonical location of a file, whatever alias it was written with.

    In addition to `normalize_location`, symbolic links of folders on the local disk are followed.

    Raises:
        BadRequestError: the location is malformed.
    """
    found = normalize_location(location)
    if found.scheme != "file":
        return found
    folder, _, name = found.path.rpartition("/")
    real = real_path(folder or "/").rstrip("/")
    return found._replace(path=f"{real}/{name}")


def real_path(path: str) -> str:
    """The path of `os.path.realpath`, but the system looks it up at once, and not one folder after the other.

    Args:
        path: absolute and without `.` or `..`.
    """
    missing = ""
    while True:
        try:
            descriptor = os.open(path or "/", _PLACE)
        except FileNotFoundError:
            if os.path.islink(path):  # leads to where its target would be
                return os.path.realpath(path) + missing
            path, _, name = path.rpartition("/")
            missing = f"/{name}{missing}"
        except OSError:
            return os.path.realpath(path) + missing
        else:
            return _place_of(descriptor, path or "/").rstrip("/") + missing or "/"


def _place_of(descriptor: int, path: str) -> str:
    """Closes a descriptor of a path and answers where that leads."""
    try:
        found = real_path_of(descriptor)
    except OSError:  # no /proc, or a longer path than it shows
        found = _DELETED
    finally:
        os.close(descriptor)
    # as of a file that another one replaced meanwhile
    return os.path.realpath(path) if found.endswith(_DELETED) else found


def real_path_of(descriptor: int) -> str:
    """The present path of an open file or folder; it has no links."""
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{descriptor}")


def is_plain_name(name: str) -> bool:
    """Whether the last part of a location is one that no rule about locations changes or refuses."""
    return _PLAIN_NAME.fullmatch(name) is not None


def _check_characters(location: str) -> None:
    if not location:
        raise BadRequestError("Invalid location: must not be empty")
    if isinstance(location, FileLocation):
        if _NO_TEXT.search(location):
            raise BadRequestError("Invalid location: holds a null character or is not Unicode text")
        return
    if not location.isprintable() and _CONTROL.search(location):
        raise BadRequestError("Invalid location: holds a control character or is not Unicode text")
    if "\\" in location:
        raise BadRequestError(_invalid(location, "holds a backslash"))


def _split_scheme(location: str) -> tuple[str, str]:
    if location.startswith("/"):
        return "file", "//" + location
    name, colon, rest = location.partition(":")
    if not colon or not _SCHEME.fullmatch(name):
        raise BadRequestError(_invalid(location, "must be an absolute URI or path"))
    scheme = _SCHEMES.get(name.lower())
    if scheme is None:
        known = ", ".join(sorted(_SCHEMES))
        raise BadRequestError(_invalid(location, f"the scheme must be one of {known}"))
    return scheme, rest


def _split_authority(location: str, scheme: str, rest: str) -> tuple[str, str]:
    if scheme == "file" and rest.startswith("/") and not rest.startswith("//"):
        return "", rest
    if not rest.startswith("//"):
        raise BadRequestError(_invalid(location, "must be an absolute URI or path"))
    authority, slash, key = rest[2:].partition("/")
    return _checked_authority(location, scheme, authority), slash + key


def _checked_authority(location: str, scheme: str, authority: str) -> str:
    if scheme == "file":
        if authority and authority.lower() != "localhost":
            raise BadRequestError(_invalid(location, "a file location must not name a host"))
        return ""
    if scheme == "abfss":
        match = _CONTAINER.fullmatch(authority)
        if match is None:
            raise BadRequestError(_invalid(location, "must name container@account.dfs.<domain>"))
        return f"{match[1]}@{match[2]}.dfs.{match[3]}".lower()
    if "@" in authority:
        raise BadRequestError("Invalid location: must not carry user information")
    if not _BUCKET.fullmatch(authority):
        raise BadRequestError(_invalid(location, "must name a bucket"))
    return authority


def _leads_elsewhere(segment: str) -> bool:
    if "%" not in segment and "\\" not in segment:
        return segment in (".", "..")
    # Servers and proxies between here and the bytes may decode once more than they should.
    return any(part in (".", "..") for part in re.split(r"[/\\]", _decoded(segment)))


def _invalid(location: str, reason: str) -> str:
    # What could be a secret (user information, the query of a signed URL) is not repeated in the message.
    shown = not any(char in location for char in "@?#\\") and len(location) <= _LONGEST_SHOWN
    return f"Invalid location '{location}': {reason}" if shown else f"Invalid location: {reason}"


class AllowedLocations:
    """The locations below which a catalog may read, write and delete."""

    def __init__(self, roots: Iterable[str]) -> None:
        """Takes the locations; what lies below them is allowed too.

        Raises:
            BadRequestError: one of them is malformed.
        """
        self._roots = tuple(dict.fromkeys(normalize_location(root) for root in roots))

    @property
    def roots(self) -> tuple[Location, ...]:
        """The roots in their one spelling, without repetition."""
        return self._roots

    def check(self, location: str) -> Location:
        """Refuses a location outside the roots, or one on the local disk that symbolic links lead outside.

        Returns:
            The location in its one spelling.

        Raises:
            BadRequestError: the location is malformed.
            LocationNotAllowedError: see above.
        """
        found = self.check_text(location)
        if found.scheme == "file":
            self._check_target(found, real_path(found.path or "/").rstrip("/"))
        return found

    def check_text(self, location: str) -> Location:
        """As `check`, but where links lead is not looked at; `check_opened` does so for an open folder.

        Raises:
            BadRequestError: the location is malformed.
            LocationNotAllowedError: it is outside the roots.
        """
        found = normalize_location(location)
        for root in self._roots:
            if root.contains(found):
                return found
        raise LocationNotAllowedError(f"Location is not within the allowed locations: {found}")

    def check_opened(self, location: Location, folder: str, descriptor: int) -> None:
        """Refuses a location on the local disk of which an open folder is where links lead outside the roots.

        Args:
            location: what lies in the roots by its text.
            folder: the path by which the folder was opened: the location's own, or one above it.
            descriptor: the open folder. It stays where it is checked, whatever its path leads to later.

        Raises:
            LocationNotAllowedError: see above.
            OSError: the system does not say where the folder is.
        """
        below = location.path[len(folder) :]
        self._check_target(location, real_path_of(descriptor).rstrip("/") + below)

    def _check_target(self, location: Location, path: str) -> None:
        # a path without a link has none above it either, so the root need not be resolved
        if path == location.path:
            return
        target = location._replace(path=path)
        if not any(root.scheme == "file" and _resolved(root).contains(target) for root in self._roots):
            raise LocationNotAllowedError(f"Location leads outside the allowed locations: {location}")


def _resolved(location: Location) -> Location:
    return location._replace(path=real_path(location.path or "/").removesuffix("/"))
