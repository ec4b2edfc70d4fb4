"""Files with what was counted of data files: one for each group of them, beside the metadata of the table.

The whole group comes first, then each data file, then an index of both, its length, and the name of the
format; every part is MessagePack. So a capture reads either a group as a whole or some of its files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Final, TypeVar

import msgspec

from floecat.errors import AlreadyExistsError, InvalidMetadataError
from floecat.statistics.files.summaries import ColumnSummary, FileSummary
from floecat.storage.catalog_storage import CatalogStorage

__all__ = [
    "FILE_HASH_BYTES",
    "FilesSummary",
    "Sidecar",
    "file_hash",
    "file_places",
    "read_files",
    "read_places",
    "read_summary",
    "write_sidecar",
]

T = TypeVar("T")

FILE_HASH_BYTES: Final = 16

_FORMAT: Final = b"FCS1"
_TAIL_BYTES: Final = 8


class Sidecar(msgspec.Struct, frozen=True):
    """The path and the size of a sidecar."""

    path: str
    size_bytes: int


class FilesSummary(msgspec.Struct, frozen=True):
    """Some data files together."""

    files: int
    row_count: int
    """Rows that are not deleted."""
    size_bytes: int
    is_exact: bool
    """Whether all deletes were applied."""
    columns: tuple[ColumnSummary, ...]


class _Index(msgspec.Struct, frozen=True, array_like=True):
    summary: tuple[int, int]
    files: dict[str, tuple[int, int]]


def write_sidecar(
    storage: CatalogStorage,
    path: str,
    summary: FilesSummary,
    files: Mapping[str, FileSummary] | None = None,
) -> Sidecar:
    """Writes a sidecar. One that is there stays: the name belongs to one result.

    Args:
        path: its location.
        summary: of all files together.
        files: by file key.

    Raises:
        LocationNotAllowedError: the location is outside the allowed ones.
        UnavailableError: storage fails.
    """
    storage.allowed.check(path)
    parts = [msgspec.msgpack.encode(summary)]
    places: dict[str, tuple[int, int]] = {}
    offset = len(parts[0])
    for key, of_file in (files or {}).items():
        parts.append(msgspec.msgpack.encode(of_file))
        places[key] = (offset, len(parts[-1]))
        offset += len(parts[-1])
    index = msgspec.msgpack.encode(_Index((0, len(parts[0])), places))
    data = b"".join((*parts, index, len(index).to_bytes(4, "little"), _FORMAT))
    with suppress(AlreadyExistsError):
        storage.files(path).write_new(path, data, unique_name=True)
    return Sidecar(path, len(data))


def read_summary(storage: CatalogStorage, sidecar: Sidecar) -> FilesSummary:
    """The summary of all files of a sidecar.

    Raises:
        FileMissingError: it is gone.
        InvalidMetadataError: it is damaged.
        UnavailableError: storage fails.
    """
    offset, length = _index(storage, sidecar).summary
    data = storage.files(sidecar.path).read_range(sidecar.path, offset, length)
    return _decoded(data, FilesSummary, sidecar)


def read_files(
    storage: CatalogStorage, sidecar: Sidecar, is_wanted: Callable[[str], bool]
) -> dict[str, FileSummary]:
    """Some files of a sidecar, by key.

    Args:
        sidecar: where they are.
        is_wanted: says of a key whether the file is wanted.

    Raises:
        FileMissingError, InvalidMetadataError, UnavailableError: as `read_summary`.
    """
    found = file_places(storage, sidecar).items()
    return read_places(storage, sidecar, {key: place for key, place in found if is_wanted(key)})


def file_places(storage: CatalogStorage, sidecar: Sidecar) -> Mapping[str, tuple[int, int]]:
    """Start and length in bytes of each file in a sidecar, by key; errors as of `read_summary`."""
    return _index(storage, sidecar).files


def read_places(
    storage: CatalogStorage, sidecar: Sidecar, places: Mapping[str, tuple[int, int]]
) -> dict[str, FileSummary]:
    """The files in some of the places of a sidecar, by key; errors as of `read_summary`."""
    parts = storage.files(sidecar.path).read_ranges(sidecar.path, list(places.values()))
    return {key: _decoded(data, FileSummary, sidecar) for key, data in zip(places, parts, strict=True)}


def file_hash(key: str) -> bytes:
    """16 bytes that stand for a file among those of one sidecar."""
    return sha256(key.encode()).digest()[:FILE_HASH_BYTES]


def _index(storage: CatalogStorage, sidecar: Sidecar) -> _Index:
    files, path, size = storage.files(sidecar.path), sidecar.path, sidecar.size_bytes
    tail = files.read_range(path, size - _TAIL_BYTES, _TAIL_BYTES)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _FORMAT or length > size - _TAIL_BYTES:
        raise InvalidMetadataError(f"Sidecar {path} is damaged")
    index = _decoded(files.read_range(path, size - _TAIL_BYTES - length, length), _Index, sidecar)
    if any(not 0 <= start <= start + part <= size for start, part in (index.summary, *index.files.values())):
        raise InvalidMetadataError(f"Sidecar {path} is damaged")
    return index


def _decoded(data: bytes, form: type[T], sidecar: Sidecar) -> T:
    try:
        return msgspec.msgpack.decode(data, type=form)
    except msgspec.MsgspecError:
        raise InvalidMetadataError(f"Sidecar {sidecar.path} is damaged") from None
