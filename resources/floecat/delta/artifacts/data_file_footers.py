"""Footers of data files whose rows the log does not count: read from storage, the end of each file only."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floecat.delta.artifacts.artifact_files import ArtifactFiles
from floecat.delta.artifacts.data_file_locations import checked_location
from floecat.delta.translation.schema import TranslatedSchema
from floecat.errors import (
    BadRequestError,
    FileMissingError,
    InvalidDeltaTableError,
    UnsupportedDeltaTableError,
)
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.iceberg.file_metrics import FileMetrics
from floecat.iceberg.parquet.footers import (
    TAIL_LENGTH,
    FileFooter,
    footer_length,
    footer_metrics,
    with_footers,
)

__all__ = ["SeenFile", "read_data_file", "read_footer", "read_footers"]

_GUESSED_LENGTH = 64 * 1024
"""Most footers are shorter, and come with the first request."""


class SeenFile(NamedTuple):
    """A data file, or the copy that is read in its place.

    Attributes:
        location: where it is.
        size: its bytes.
        tail: its end, the whole footer or more.
        vectorized: whether it is not known that Spark's vectorised reader misreads it.
    """

    location: str
    size: int
    tail: bytes
    vectorized: bool = True


def read_footers(
    metrics: FileMetrics,
    locations: pa.StringArray,
    sizes: npt.NDArray[np.int64],
    schema: TranslatedSchema,
    artifacts: ArtifactFiles,
    look: Callable[[str, int], SeenFile],
) -> tuple[FileMetrics, list[tuple[int, SeenFile]]]:
    """Completes the metrics of files by what their footers say.

    Args:
        metrics: what the log says; files without a record count are looked at.
        locations: of the files.
        sizes: their bytes.
        schema: how the files are read.
        artifacts: reads several at a time.
        look: looks at a file, and answers the one that readers read in its place.

    Returns:
        The metrics, and what was seen of which files, without the footers.

    Raises:
        InvalidDeltaTableError: a file is no Parquet file, or damaged.
        UnsupportedDeltaTableError: a file has a name that not all readers take.
        FileMissingError: a file is gone.
        LocationNotAllowedError: a file lies outside the allowed locations.
    """
    rows = np.flatnonzero(metrics.record_counts.is_null().to_numpy(zero_copy_only=False))
    wanted = pa.array(rows)
    columns = [leaf for leaf in schema.leaves if not leaf.partition]

    def read(item: tuple[str, int]) -> tuple[FileFooter, SeenFile]:
        seen = look(*item)
        footer = footer_metrics(seen.tail, columns, item[0])
        return footer, seen._replace(tail=b"", vectorized=footer.vectorized)

    found = artifacts.each(
        read, list(zip(locations.take(wanted).to_pylist(), sizes[rows].tolist(), strict=True))
    )
    completed = with_footers(metrics, rows.tolist(), [footer for footer, _ in found])
    return completed, list(zip(rows.tolist(), (seen for _, seen in found), strict=True))


def read_footer(storage: FileIO, allowed: AllowedLocations, location: str, size: int) -> bytes:
    """The end of a data file, its whole footer or more.

    Args:
        storage: where it is.
        allowed: where it may lie.
        location: the file.
        size: its bytes.

    Raises:
        InvalidDeltaTableError: it is no Parquet file, or cut off.
        UnsupportedDeltaTableError: it has a name that not all readers take.
        FileMissingError: it is gone.
        LocationNotAllowedError: it lies outside the allowed locations.
    """
    guessed = min(size, _GUESSED_LENGTH)
    tail = read_data_file(storage, allowed, location, max(size - guessed, 0), max(guessed, TAIL_LENGTH))
    length = footer_length(tail, location)
    if length <= len(tail):
        return tail
    if length > size:
        raise InvalidDeltaTableError(
            f"Cannot read {location} as a Parquet file: it is shorter than its footer"
        )
    return read_data_file(storage, allowed, location, size - length, length)


def read_data_file(
    storage: FileIO, allowed: AllowedLocations, location: str, offset: int, length: int
) -> bytes:
    """A part of a data file, in bytes; errors as of `read_footer`."""
    checked = checked_location(location, allowed)
    try:
        return storage.read_range(checked, offset, length)
    except FileMissingError:
        raise FileMissingError(f"Data file {checked.shown} is missing") from None
    except BadRequestError:
        # as control characters in object storage
        raise UnsupportedDeltaTableError(
            f"Data file {checked.shown} has a name that cannot be read"
        ) from None
