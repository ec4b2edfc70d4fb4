"""Paths of data files, in one spelling per file (Delta protocol, "Add File and Remove File"; RFC 2396).

A path in the log is a URI reference: percent-encoded, relative to the root of the table or absolute. Relative
paths that encode only ASCII, which most are, are decoded by column.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.errors import BadRequestError, InvalidDeltaTableError
from floecat.fileio.locations import check_bounds
from floecat.iceberg.values.bounds import process_bounds

__all__ = ["PathReader"]

_PLACED: Final = r"^/|^[A-Za-z][A-Za-z0-9+.-]*:/|(^|/)\.\.?(/|$)"
"""Absolute paths, and those with `.` or `..` as segments."""

_ASCII_CODE = re.compile(rb"%[0-7][0-9A-Fa-f]")
_OTHER_CODE: Final = "%[89A-Fa-f][0-9A-Fa-f]"
_PERCENT: Final = b"%25"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/.*)", re.DOTALL)
_START = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*/")
_AUTHORITY = re.compile(r"//([^/]*)(.*)", re.DOTALL)

# Aliases of one storage: a file that is added as s3a:// may be removed as s3://.
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "abfss", "wasbs": "abfss"}


class PathReader:
    """Gives each path of one table a single spelling.

    The location of the table is a normalized URI without a slash at the end.
    """

    def __init__(self, location: str) -> None:
        self._root = location + "/"
        scheme, _, rest = location.partition("://")
        self._store = f"{scheme}://{rest.partition('/')[0]}"
        self._folder = lru_cache(maxsize=10_000)(self._canonical)

    def read(self, encoded: pa.ChunkedArray, *, location: str) -> pa.ChunkedArray:
        """Decodes paths.

        Args:
            encoded: paths as they are in the log.
            location: of the file of the log, for messages.

        Returns:
            The paths: relative to the root of the table if the file is below it, else absolute URIs.

        Raises:
            InvalidDeltaTableError: a decoded path is not UTF-8, holds a null character, is too long, or is
                percent-encoded too many times.
        """
        try:
            for chunk in encoded.chunks:
                _check_bounds(chunk)
            chunks = [self._placed(chunk, _decoded(chunk)) for chunk in encoded.chunks]
        except BadRequestError as error:
            raise InvalidDeltaTableError(f"A file path in {location} is refused: {error.message}") from None
        except UnicodeDecodeError:
            raise InvalidDeltaTableError(f"A file path in {location} is not UTF-8") from None
        if any(pc.any(pc.match_substring(chunk, "\0")).as_py() for chunk in chunks):
            raise InvalidDeltaTableError(f"A file path in {location} holds a null character")
        return pa.chunked_array(chunks, pa.string())

    def _placed(self, encoded: pa.Array, decoded: pa.Array) -> pa.Array:
        # A relative path may look absolute once it is decoded, so the encoded one decides.
        mask = pc.match_substring_regex(encoded, _PLACED)
        if not pc.any(mask).as_py():
            return decoded
        # Few folders hold many files.
        parts = (path.rpartition("/") for path in decoded.filter(mask).to_pylist())
        placed = [self._folder(folder + slash) + name for folder, slash, name in parts]
        return pc.replace_with_mask(decoded, mask, pa.array(placed, pa.string()))

    def _canonical(self, folder: str) -> str:
        """The canonical spelling of a folder with its final slash."""
        match = _SCHEME.fullmatch(folder)
        if match is not None:
            folder = _canonical_uri(_SCHEMES.get(match[1].lower(), match[1].lower()), match[2])
        elif folder.startswith("/"):
            folder = self._store + re.sub("/{2,}", "/", folder)
        return _without_dots(folder).removeprefix(self._root)


def _check_bounds(encoded: pa.Array) -> None:
    """Refuses paths as `check_bounds` of locations does."""
    limits = process_bounds.limits
    suspicious = pc.greater(pc.binary_length(encoded), limits.location_bytes)
    if pc.any(pc.match_substring(encoded, "%25")).as_py():
        decoded = encoded
        for _ in range(limits.percent_decoding_levels):
            decoded = _without_ascii_codes(decoded)
        suspicious = pc.or_(suspicious, pc.match_substring_regex(decoded, _ASCII_CODE.pattern.decode()))
    if pc.any(suspicious).as_py():
        for path in encoded.filter(suspicious).to_pylist():
            check_bounds(path)


def _decoded(encoded: pa.Array) -> pa.Array:
    """Percent-decodes; a percent sign without two hex digits stands for itself."""
    mask = pc.match_substring(encoded, "%")
    if not pc.any(mask).as_py():
        return encoded
    other = pc.match_substring_regex(encoded, _OTHER_CODE)
    decoded = _without_ascii_codes(encoded)
    if pc.any(other).as_py():
        read = [unquote(path, errors="strict") for path in encoded.filter(other).to_pylist()]
        decoded = pc.replace_with_mask(decoded, other, pa.array(read, pa.string()))
    return decoded


def _without_ascii_codes(encoded: pa.Array) -> pa.Array:
    # One code after the other, in all paths at once. '%' comes last, so that nothing is decoded twice.
    codes = _ascii_codes(b"\n".join(pc.cast(encoded, pa.binary()).to_pylist()))
    for code in sorted(codes - {_PERCENT}) + sorted(codes & {_PERCENT}):
        encoded = pc.replace_substring(encoded, code.decode(), unquote(code.decode()))
    return encoded


def _ascii_codes(text: bytes) -> set[bytes]:
    """The distinct codes in a text, which may be most of it."""
    data = np.frombuffer(text + b"\n\n", np.uint8)
    places = np.flatnonzero(data == ord("%"))
    digits = np.unique(data[places + 1].astype(np.uint16) << 8 | data[places + 2])
    codes = (b"%" + int(pair).to_bytes(2, "big") for pair in digits)
    return {code for code in codes if _ASCII_CODE.fullmatch(code)}


def _canonical_uri(scheme: str, rest: str) -> str:
    match = _AUTHORITY.fullmatch(rest)
    authority, path = (match[1], match[2]) if match else ("", rest)
    if scheme == "file":
        return "file://" + re.sub("/{2,}", "/", path)
    if scheme == "abfss":
        authority = authority.lower().replace(".blob.", ".dfs.", 1)
    return f"{scheme}://{authority}{path}"


def _without_dots(folder: str) -> str:
    """Resolves '.', and '..' within the folder. A path that leads out of it stays, and is refused later."""
    match = _START.match(folder)
    start = match[0] if match else ""
    kept: list[str] = []
    for segment in folder.removeprefix(start).split("/"):
        if segment == ".." and kept and kept[-1] not in ("", ".."):
            kept.pop()
        elif segment != ".":
            kept.append(segment)
    return start + "/".join(kept)
