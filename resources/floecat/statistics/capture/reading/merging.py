"""The columns of a snapshot, from sidecars and what is not in one: one part after the other is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from floecat.errors import FileMissingError, InvalidMetadataError
from floecat.iceberg.schemas.schema import Schema
from floecat.statistics.capture.reading import counting
from floecat.statistics.capture.reading.sidecars import (
    FILE_HASH_BYTES,
    FilesSummary,
    Sidecar,
    file_hash,
    read_files,
    read_summary,
)
from floecat.statistics.files.summaries import CountedColumns
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["Merged", "SidecarPart", "merge"]


class SidecarPart(NamedTuple):
    """Files of a sidecar."""

    sidecar: Sidecar
    hashes: bytes | None
    """Hashes of the files, one after the other; None for all."""
    size_bytes: int
    """Bytes of the files."""


class Merged(NamedTuple):
    """Parts together."""

    summary: FilesSummary
    lost: tuple[str, ...]
    """Paths of sidecars that are gone or damaged, and not in the summary."""


def merge(
    storage: CatalogStorage,
    parts: Sequence[SidecarPart],
    others: Sequence[FilesSummary],
    columns: CountedColumns,
    schema: Schema,
    check: Callable[[int], None] = lambda _: None,
) -> Merged:
    """Reads sidecars, and merges them with each other and with other parts.

    Args:
        parts: in sidecars.
        others: not in sidecars. No file is in two parts.
        schema: of the snapshot.
        check: called before each sidecar with the number of those that are done; raises to stop.

    Raises:
        UnavailableError: storage fails.
    """
    lost: list[str] = []

    def stored() -> Iterator[FilesSummary]:
        for done, part in enumerate(parts):
            check(done)
            try:
                yield _read(storage, part, columns, schema)
            except (FileMissingError, InvalidMetadataError):
                lost.append(part.sidecar.path)

    return Merged(counting.of_parts(chain(others, stored()), columns, schema), tuple(lost))


def _read(
    storage: CatalogStorage, part: SidecarPart, columns: CountedColumns, schema: Schema
) -> FilesSummary:
    if part.hashes is None:
        return read_summary(storage, part.sidecar)
    starts = range(0, len(part.hashes), FILE_HASH_BYTES)
    # a file that was appended twice is read twice
    times = Counter(part.hashes[start : start + FILE_HASH_BYTES] for start in starts)
    found = read_files(storage, part.sidecar, lambda key: file_hash(key) in times)
    terms = columns.terms
    summaries = []
    for key, summary in found.items():
        # values of other columns may be of the types that these had before
        kept = tuple(column for column in summary.columns if column.term in terms)
        summaries += [msgspec.structs.replace(summary, columns=kept)] * times[file_hash(key)]
    return counting.of_files(summaries, part.size_bytes, schema)
