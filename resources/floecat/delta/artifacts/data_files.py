"""The data files of a table: their locations as manifests spell them, and what their footers tell.

Footers are read, the end of each file only, where the log does not count the rows of a file, and to see
which columns it holds beside those of a version. The log does not name these: columns that were dropped
before its oldest version, columns that were never in it, as the index of pandas, and partition columns, which
some writers put into files too (Delta protocol, `materializePartitionColumns`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.artifacts.artifact_files import ArtifactFiles
from floecat.delta.artifacts.request_bounds import RequestWork
from floecat.delta.translation.column_ids import FieldIds, PhysicalPath
from floecat.delta.translation.translated_schema import TranslatedSchema
from floecat.delta.vectors.deletion_vectors import DeletionVector, file_of
from floecat.errors import (
    BadRequestError,
    FileMissingError,
    InvalidDeltaTableError,
    UnsupportedDeltaTableError,
)
from floecat.fileio.locations import AllowedLocations, FileLocation, normalize_location
from floecat.iceberg.parquet.field_ids import fields_of
from floecat.iceberg.parquet.footers import (
    TAIL_LENGTH,
    footer_length,
)
from floecat.iceberg.parquet.parquet_schema import SchemaNode

__all__ = [
    "NOTHING_FOUND",
    "FileColumns",
    "FoundColumns",
    "KnownColumns",
    "SeenFile",
    "all_locations",
    "checked_location",
    "data_file_locations",
    "known_columns",
    "open_footer",
    "read_data_file",
    "readable_locations",
]

_ABSOLUTE = r"^(?:[A-Za-z][A-Za-z0-9+.-]*:/|/)"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)")

_CUT_BY_URI_PARSERS = r"^file://.*[?#\t\r\n]"

_LEADS_ELSEWHERE = r"(?:^|[/\\])\.{1,2}(?:[/\\]|$)"

_ROWS_AT_ONCE = 50_000

_GUESSED_LENGTH = 64 * 1024
"""Bytes of the first request, which holds most footers whole."""


def data_file_locations(
    paths: pa.ChunkedArray, location: str, allowed: AllowedLocations | None
) -> pa.StringArray:
    """Absolute locations of the files of a table; a file always has the same spelling.

    Characters of names stand for themselves, as all engines but PyIceberg read them. PyIceberg parses a
    location with a scheme as a URI, and drops what follows ``?`` or ``#``, and tabs and line breaks. So a
    file on the local disk with such a name is spelled as a path.

    Args:
        paths: as the log gives them, percent-decoded: relative to the table, or absolute.
        location: root of the table.
        allowed: where absolute ones may lead; None for names that are only compared. Malformed ones then stay
            as they are.

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
        return readable_locations(relative)
    # few tables have absolute paths: shallow clones, and tables with files added in place
    checked = [
        _located(path, allowed) if absolute else None
        for path, absolute in zip(joined.to_pylist(), is_absolute.to_pylist(), strict=True)
    ]
    return readable_locations(pc.coalesce(pa.array(checked, pa.string()), relative))


def all_locations(paths: pa.ChunkedArray, location: str, allowed: AllowedLocations | None) -> Iterator[str]:
    """The locations of `data_file_locations`, of any number of files: an Arrow array holds 2 GiB of text."""
    for start in range(0, len(paths), _ROWS_AT_ONCE):
        yield from data_file_locations(paths.slice(start, _ROWS_AT_ONCE), location, allowed).to_pylist()


def placed_files(files: pa.Table) -> Iterator[str]:
    """The files of a version that its log names by absolute paths, those of deletion vectors included.

    Args:
        files: its files; columns of `floecat.delta.log.file_tables.files_schema`.

    Raises:
        InvalidDeltaTableError: a deletion vector has no such path.
    """
    paths, vectors = files["path"], files["deletion_vector"]
    yield from paths.filter(pc.match_substring_regex(paths, _ABSOLUTE)).to_pylist()
    is_placed = pc.fill_null(pc.equal(pc.struct_field(vectors, "storage_type"), "p"), False)
    for path, vector in zip(*(each.filter(is_placed).to_pylist() for each in (paths, vectors)), strict=True):
        yield file_of(DeletionVector(**vector), "", path)


def checked_location(location: str, allowed: AllowedLocations) -> FileLocation:
    """The normalized location of a file that the log names.

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
        # the table's fault, not the request's: other versions may be readable
        scheme = _SCHEME.match(location)
        name = f"a {scheme[0]}: location" if scheme else "a name"
        raise UnsupportedDeltaTableError(
            f"A file of the table has {name} that is not supported: {error}"
        ) from None


class SeenFile(NamedTuple):
    """A data file, or the copy that is read in its place.

    Attributes:
        location: where it is.
        size: its bytes.
        tail: its end, the whole footer or more.
        vectorized: False if Spark's vectorised reader is known to misread it.
    """

    location: str
    size: int
    tail: bytes
    vectorized: bool = True


@contextmanager
def open_footer(
    artifacts: ArtifactFiles, work: RequestWork | None, location: str, size: int, *, most_bytes: int
) -> Iterator[bytes]:
    """The end of a data file, its whole footer or more; for a block that decodes it.

    Large footers wait for each other: decoded they take about 70 times their size.

    Args:
        artifacts: of its table.
        work: of the request; None in the pipeline.
        location: the file.
        size: its bytes.
        most_bytes: bounds the footer.

    Raises:
        TooLargeError: the footers are too large for the request.
        UnavailableError: other requests use all of the working memory.
        InvalidDeltaTableError: it is no Parquet file, or cut off.
        UnsupportedDeltaTableError: it has a name that some readers refuse, or its footer is too large.
        FileMissingError: it is missing.
        LocationNotAllowedError: it lies outside the allowed locations.
    """
    guessed = min(size, _GUESSED_LENGTH)
    tail = read_data_file(artifacts, location, max(size - guessed, 0), max(guessed, TAIL_LENGTH))
    length = footer_length(tail, location)
    if work is not None:
        work.add_footer(location, min(length, size))
    if length <= len(tail):
        yield tail
        return
    if length > size:
        raise InvalidDeltaTableError(
            f"Cannot read {location} as a Parquet file: it is shorter than its footer"
        )
    if length > most_bytes:
        raise UnsupportedDeltaTableError(
            f"The Parquet footer of {location} has more than {most_bytes} bytes"
            " (floecat.limits.delta-footer-bytes)"
        )
    with artifacts.footers.holding(length):
        yield read_data_file(artifacts, location, size - length, length)


def read_data_file(artifacts: ArtifactFiles, location: str, offset: int, length: int) -> bytes:
    """A part of a data file, in bytes; errors as of `open_footer`."""
    checked = checked_location(location, artifacts.allowed)
    try:
        return artifacts.storage.read_range(checked, offset, length)
    except FileMissingError:
        raise FileMissingError(f"Data file {checked.shown} is missing") from None
    except BadRequestError:
        # control characters in object storage
        raise UnsupportedDeltaTableError(
            f"Data file {checked.shown} has a name that cannot be read"
        ) from None


@dataclass(frozen=True)
class KnownColumns:
    """Columns that are known, and need not be found in files.

    Attributes:
        paths: paths that the name mapping lists.
        variants: columns whose parts are ignored.
        partitions: ids of partition columns that files must not have, by physical name.
        by_id: whether a file's own ids tell which column is which, rather than its names.
    """

    paths: frozenset[PhysicalPath] = frozenset()
    variants: frozenset[PhysicalPath] = frozenset()
    partitions: Mapping[str, int] = field(default_factory=dict)
    by_id: bool = False


@dataclass(frozen=True)
class FoundColumns:
    """Columns that were found in files.

    Attributes:
        hidden: paths that the name mapping must list.
        partitions: physical names of partition columns that files hold.
    """

    hidden: frozenset[PhysicalPath] = frozenset()
    partitions: frozenset[str] = frozenset()

    def __or__(self, other: FoundColumns) -> FoundColumns:
        return FoundColumns(self.hidden | other.hidden, self.partitions | other.partitions)


NOTHING_FOUND = FoundColumns()


def known_columns(translated: TranslatedSchema, ids: FieldIds) -> KnownColumns:
    """The known columns of the data files of a version.

    Args:
        translated: its schema.
        ids: the ids of the table.
    """
    paths = translated.physical_paths
    return KnownColumns(
        frozenset([*ids.paths, *ids.hidden_paths, *paths.values()]),
        frozenset(paths[id] for id, type in translated.delta_types.items() if type == "variant"),
        {
            column.physical_name: column.source_id
            for column in translated.partition_fields
            if column.physical_name not in ids.separate
        },
        by_id=translated.mapping_mode == "id",
    )


class FileColumns:
    """Collects columns from footers. Thread-safe."""

    def __init__(self, known: KnownColumns) -> None:
        self._known = known
        self._found: list[FoundColumns] = []

    @property
    def found(self) -> FoundColumns:
        """The columns found in all footers."""
        all_found = NOTHING_FOUND
        for each in self._found:
            all_found |= each
        return all_found

    def look(self, root: SchemaNode) -> None:
        """Adds the columns of a file."""
        fields = list(fields_of(root))
        names = {node.name.casefold() for node in root.children}
        ids = {node.field_id for node in root.children}
        # PyIceberg reads by name as soon as one field has no id
        by_name = any(node.field_id is None for _, node in fields)
        found = FoundColumns(
            frozenset(path for path, _ in fields if by_name and self._is_new(path)),
            frozenset(
                name
                for name, id in self._known.partitions.items()
                if id in ids or (name.casefold() in names and not self._known.by_id)
            ),
        )
        if found != NOTHING_FOUND:
            self._found.append(found)

    def _is_new(self, path: PhysicalPath) -> bool:
        return path not in self._known.paths and not any(
            path[:length] in self._known.variants for length in range(1, len(path))
        )


def readable_locations(locations: pa.StringArray) -> pa.StringArray:
    """Spells local files as paths if parsers of URIs would cut their names."""
    is_cut = pc.match_substring_regex(locations, f"(?s){_CUT_BY_URI_PARSERS}")
    if not pc.any(is_cut).as_py():
        return locations
    return pc.if_else(is_cut, pc.replace_substring_regex(locations, "^file://", ""), locations)


def _located(path: str, allowed: AllowedLocations | None) -> str:
    if allowed:
        return str(checked_location(path, allowed))
    try:
        return str(normalize_location(FileLocation(path)))
    except BadRequestError:
        return path
