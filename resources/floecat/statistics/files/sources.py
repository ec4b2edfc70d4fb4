"""Data files of any format, as columns by field id."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeAlias

import msgspec
import pyarrow as pa

from floecat.errors import FloecatError, IllegalArgumentError
from floecat.fileio.base import FileIO
from floecat.iceberg.values.bounds import Bounds

__all__ = [
    "InputFile",
    "NameMapping",
    "NeedsProcessError",
    "Source",
    "UnreadableFileError",
    "check_bound",
    "check_memory",
    "reading",
]

_Path: TypeAlias = tuple[str, ...]

_LEAST_MEMORY: Final = 1 << 20
"""Some rows are decoded in any case."""

_LIBRARY_FAULTS: Final = (pa.ArrowException, OSError, ValueError, OverflowError)


class UnreadableFileError(IllegalArgumentError):
    """A data or delete file that is damaged, encrypted, or of a kind that cannot be read."""

    def __init__(self, location: str, reason: str) -> None:
        super().__init__(f"Cannot read {location}: {reason}")
        self._arguments = (location, reason)

    def __reduce__(self) -> tuple[type[UnreadableFileError], tuple[str, str]]:
        return type(self), self._arguments


class NeedsProcessError(Exception):
    """A file may need more memory than is allowed here; a process of its own can try."""


@contextmanager
def reading(location: str, file: InputFile | None = None) -> Iterator[None]:
    """Inside, what a library says of a damaged file becomes an `UnreadableFileError` without its content.

    Args:
        file: what the library reads, for libraries that hide errors of storage.
    """
    try:
        yield
    except MemoryError:
        raise UnreadableFileError(
            location, "it takes more memory than a worker has (floecat.statistics.memory-bytes)"
        ) from None
    except _LIBRARY_FAULTS:
        if file is not None and file.failure is not None:
            raise file.failure from None
        raise UnreadableFileError(
            location, "it is damaged, has columns of another type, or a feature that is not supported"
        ) from None


def check_bound(bounds: Bounds, bound: str, location: str, number: int, problem: str) -> None:
    """Refuses a file that exceeds a bound.

    Args:
        bounds: all bounds.
        bound: name of the field of `bounds`.
        number: what it has.
        problem: what there is too much of, e.g. "it has more bytes than".

    Raises:
        UnreadableFileError: there is more than the bound, which it names.
    """
    if number > (most := getattr(bounds, bound)):
        key = f"floecat.limits.{bound.replace('_', '-')}"
        raise UnreadableFileError(location, f"{problem} {most:,} ({key})")


def check_memory(location: str, decoded_bytes: int, memory_bytes: int) -> None:
    """Refuses a file of which more has to be decoded at a time than fits.

    Args:
        decoded_bytes: what is, or would be, decoded.
        memory_bytes: what may be.

    Raises:
        UnreadableFileError: there is more; the setting is named.
    """
    if decoded_bytes > max(memory_bytes, _LEAST_MEMORY):
        raise UnreadableFileError(
            location, f"some of it takes more than {memory_bytes:,} bytes (floecat.statistics.memory-bytes)"
        )


class Source(Protocol):
    """An open data file. Methods may raise, beside what they name, what `FileIO.read_range` raises."""

    @property
    def row_count(self) -> int:
        """Rows of the file."""
        ...

    @property
    def reads_single_columns(self) -> bool:
        """Whether reading one column does not cost reading the others; several threads may then do so."""
        ...

    def has(self, field_id: int) -> bool:
        """Whether the file has a column of a primitive type."""
        ...

    def hides(self, field_id: int) -> bool:
        """Whether the file may have a column in a place that is not read."""
        ...

    def struct_path(self, field_id: int) -> tuple[int, ...]:
        """Positions of the children that lead to a column, in each struct on the way; 0 where it ends."""
        ...

    def read(self, field_ids: Sequence[int]) -> Iterator[Mapping[int, pa.Array]]:
        """Reads columns that the file has.

        Yields:
            For consecutive rows an array for each column, with a slot per row. Nested columns are inside
            structs, lists and maps, at `struct_path`.

        Raises:
            UnreadableFileError: the file is damaged.
        """
        ...


class InputFile(io.RawIOBase):
    """A file for Arrow, over ranges of a `FileIO`. Not thread-safe.

    Attributes:
        failure: what storage said last, if it failed.
    """

    def __init__(self, files: FileIO, location: str, size_bytes: int) -> None:
        super().__init__()
        self._files = files
        self._location = location
        self._size = size_bytes
        self._at = 0
        self.failure: FloecatError | None = None

    def read(self, size: int = -1) -> bytes:
        """Reads as files do; fewer bytes at the end only."""
        length = self._size - self._at if size < 0 else min(size, self._size - self._at)
        try:
            data = self._files.read_range(self._location, self._at, max(length, 0))
        except FloecatError as error:
            self.failure = error
            raise
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves as files do."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        """The place, as of files."""
        return self._at

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True


class _MappedField(msgspec.Struct, frozen=True, rename="kebab"):
    names: tuple[str, ...] = ()
    field_id: int | None = None
    fields: tuple[_MappedField, ...] = ()


class NameMapping:
    """Field ids of files that were written without (table specification, "Column Projection")."""

    def __init__(self, json: str) -> None:
        """Reads the property `schema.name-mapping.default`.

        Raises:
            IllegalArgumentError: it is not a name mapping.
        """
        try:
            self._fields = msgspec.json.decode(json, type=tuple[_MappedField, ...])
        except msgspec.DecodeError:
            raise IllegalArgumentError("Invalid name mapping: schema.name-mapping.default") from None

    def find(self, path: _Path) -> int | None:
        """The id of a field, by names from the root, with `element`, `key` and `value` in lists and maps."""
        fields: Sequence[_MappedField] = self._fields
        found: Any = None
        for name in path:
            found = next((field for field in fields if name in field.names), None)
            if found is None:
                return None
            fields = found.fields
        return found.field_id if found is not None else None
