"""Copies of data files that have the field ids which their writers left out, or gave otherwise.

Delta's column mapping writes ids for columns and fields of structs, but not for elements of lists and maps,
where readers of Iceberg then find nothing (`floecat.iceberg.parquet.field_ids`). A copy has the data of its
original, byte for byte, and another footer. Rows keep their positions, so that deletes stay right.

Files written for another table, such as one of Iceberg, may have ids of their own. Delta reads by name, and
its writers give no ids, or those of column mapping. Reading each footer would cost a request per file, so
samples are read: all of up to eight files of a manifest; of more, two of every kind of name: the oldest,
because a table made of foreign files begins with them, and the newest, which shows what its writer does now.
If one has other ids, or turns out to have some when its rows are counted, all footers of the manifest are
read.

Columns that footers have beside those of the table are collected on the way
(`floecat.delta.artifacts.data_files`), and whether Spark's vectorised reader reads such files right.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.artifacts.artifact_files import ArtifactFiles
from floecat.delta.artifacts.data_files import (
    FileColumns,
    KnownColumns,
    SeenFile,
    open_footer,
    read_data_file,
)
from floecat.delta.artifacts.version_context import VersionContext
from floecat.delta.translation.column_ids import FieldIds
from floecat.delta.translation.translated_schema import TranslatedSchema
from floecat.errors import (
    FileMissingError,
    InvalidDeltaTableError,
    LocationNotAllowedError,
    UnsupportedDeltaTableError,
)
from floecat.iceberg.file_metrics import FileMetrics
from floecat.iceberg.parquet.field_ids import (
    FooterSchema,
    NumberedFooter,
    RequiredFieldIds,
    footer_schema,
    number_fields,
)
from floecat.iceberg.parquet.footers import FileFooter, footer_metrics, with_footers

__all__ = ["MAX_COPIED_BYTES", "FieldIdCopies", "required_field_ids"]

MAX_COPIED_BYTES = 4 << 30
"""Larger files are not copied: a copy is held in memory, and sent in one request to object storage."""

_VARIES = r"[0-9a-fA-F]{4,}|[0-9A-Za-z]*[0-9][0-9A-Za-z]*"
"""Parts that vary between the names that one writer gives: numbers, UUIDs and parts of them."""

_MOST_KINDS = 4


def required_field_ids(translated: TranslatedSchema, ids: FieldIds) -> RequiredFieldIds | None:
    """The ids that fields of data files must have, if their writers may have left some out.

    A copy serves all snapshots that hold its file, and files may have columns that some snapshots lack. So it
    gets all ids that the table ever had, and is the same whichever snapshot needs it first.

    Args:
        translated: the schema of a version.
        ids: the ids of the table.
    """
    by_id = translated.mapping_mode == "id"
    if by_id and not translated.without_field_ids:
        return None
    known = ids.paths
    in_the_log = {column.source_id for column in translated.partition_fields}
    current = {path: id for id, path in translated.physical_paths.items() if id not in in_the_log}
    for path in current:
        known.pop(path, None)
    for id in in_the_log:
        # that path in a file is another column, one of other versions
        if known.get(path := translated.physical_paths[id]) == id:
            del known[path]
    return RequiredFieldIds(
        known | current,
        translated.schema,
        by_id,
        is_own=translated.mapping_mode == "none",
        sampled=not translated.without_field_ids,
    )


class FieldIdCopies:
    """Finds missing and foreign ids in the data files of a version, and makes copies.

    Attributes:
        vectorized: whether Spark's vectorised reader reads all files right whose footers were read.
    """

    def __init__(
        self,
        context: VersionContext,
        artifacts: ArtifactFiles,
        *,
        columns: FileColumns | None = None,
    ) -> None:
        """Columns that footers have are collected in `columns`."""
        self._columns = columns or FileColumns(KnownColumns())
        self._context = context
        self._artifacts = artifacts
        self._leaves = [leaf for leaf in context.translated.leaves if not leaf.partition]
        self.vectorized = True

    def look(self, location: str, size: int, tail: bytes) -> SeenFile:
        """A data file, or its copy if it lacks ids.

        Args:
            location: the file.
            size: its bytes.
            tail: its end, of `open_footer`.

        Raises:
            TooLargeError: a copy is too much for the request.
            FloecatError: as `replace`.
        """
        schema = footer_schema(tail, location)
        self._columns.look(schema.root)
        required = self._context.required_ids
        footer = None if required is None else number_fields(schema, required, location)
        return SeenFile(location, size, tail) if footer is None else self._copy(location, size, footer)

    def complete(
        self, metrics: FileMetrics, locations: pa.StringArray, sizes: npt.NDArray[np.int64]
    ) -> tuple[FileMetrics, list[tuple[int, SeenFile]]]:
        """Completes the metrics of files without a record count from their footers.

        Args:
            metrics: from the log.
            locations: of the files.
            sizes: their bytes.

        Returns:
            The metrics, and the files that were read, by row and without their footers.

        Raises:
            FloecatError, TooLargeError: as `replace`.
        """
        rows = np.flatnonzero(metrics.record_counts.is_null().to_numpy(zero_copy_only=False))

        def read(item: tuple[str, int]) -> tuple[FileFooter, SeenFile]:
            with self._open(*item) as tail:
                seen = self.look(*item, tail)
                footer = footer_metrics(seen.tail, self._leaves, item[0])
            return footer, seen._replace(tail=b"", vectorized=footer.vectorized)

        wanted = zip(locations.take(pa.array(rows)).to_pylist(), sizes[rows].tolist(), strict=True)
        found = self._artifacts.each(read, list(wanted))
        completed = with_footers(metrics, rows.tolist(), [footer for footer, _ in found])
        return completed, list(zip(rows.tolist(), (seen for _, seen in found), strict=True))

    def replace(
        self,
        locations: pa.StringArray,
        sizes: npt.NDArray[np.int64],
        modified_at_ms: pa.ChunkedArray | None = None,
        seen: Sequence[tuple[int, SeenFile]] = (),
    ) -> tuple[pa.StringArray, npt.NDArray[np.int64]]:
        """The files that readers are to read.

        Args:
            locations: data files.
            sizes: their bytes.
            modified_at_ms: when they were written, for samples.
            seen: files whose footers were read already, by row.

        Returns:
            The same, with copies in place of files that lack ids.

        Raises:
            TooLargeError: a footer or a copy is too much for the request.
            InvalidDeltaTableError: a file is no Parquet file, or damaged.
            UnsupportedDeltaTableError: a file lacks ids and copies are turned off, or it cannot be copied.
            FileMissingError: a file is missing.
            LocationNotAllowedError: a file is located outside the allowed locations.
            NameTakenError: another file has the name of a copy.
        """
        required = self._context.required_ids
        paths = locations.to_pylist()
        unseen = np.setdiff1d(np.arange(len(paths)), [row for row, _ in seen])
        is_found = any(file.location != paths[row] for row, file in seen)
        self.vectorized = self.vectorized and all(file.vectorized for _, file in seen)
        chosen = _sample(locations, modified_at_ms, unseen)
        if required is None or (required.sampled and not is_found):
            samples = [(paths[row], int(sizes[row])) for row in chosen]
            if not any(self._artifacts.each(lambda item: self._is_foreign(*item), samples)):
                return locations, sizes

        def look(row: int) -> tuple[int, SeenFile]:
            path, size = paths[row], int(sizes[row])
            with self._open(path, size) as tail:
                file = self.look(path, size, tail)
                if row in chosen:
                    self._note(file.tail, path)
            return row, file._replace(tail=b"")

        sizes = sizes.copy()
        for row, file in [*seen, *self._artifacts.each(look, unseen.tolist())]:
            paths[row], sizes[row] = file.location, file.size
        return pa.array(paths, pa.string()), sizes

    def _open(self, location: str, size: int) -> AbstractContextManager[bytes]:
        context = self._context
        return open_footer(self._artifacts, context.work, location, size, most_bytes=context.footer_bytes)

    def _note(self, tail: bytes, location: str) -> None:
        try:
            footer = footer_metrics(tail, self._leaves, location)
        except InvalidDeltaTableError:
            # readers report it; nothing here depends on the file
            return
        if not footer.vectorized:
            self.vectorized = False

    def _is_foreign(self, location: str, size: int) -> bool:
        try:
            with self._open(location, size) as tail:
                self._note(tail, location)
                schema = footer_schema(tail, location)
                self._columns.look(schema.root)
                return self._lacks_ids(schema, location)
        except (
            FileMissingError,
            InvalidDeltaTableError,
            UnsupportedDeltaTableError,
            LocationNotAllowedError,
        ):
            # listing this file needs no read: files of old versions may be deleted by now
            return False

    def _lacks_ids(self, schema: FooterSchema, location: str) -> bool:
        required = self._context.required_ids
        try:
            return required is not None and number_fields(schema, required, location) is not None
        except UnsupportedDeltaTableError:
            return True

    def _copy(self, location: str, size: int, footer: NumberedFooter) -> SeenFile:
        if footer.is_foreign and not self._context.may_copy_files:
            raise UnsupportedDeltaTableError(
                f"Column {footer.columns[0]} cannot be read: {location} has Parquet field ids of another"
                " table, and readers of Iceberg would take one column for another. Have its files rewritten,"
                " or allow copies of them (floecat.gateway.delta-compat.unnumbered-collections=copy)"
            )
        if not self._context.may_copy_files:
            raise UnsupportedDeltaTableError(
                f"Column {footer.columns[0]} cannot be read: {location} has Parquet field ids for columns and"
                " none for what is in lists and maps, where readers of Iceberg find nothing then. Enable"
                " icebergCompatV2 for the table and have its files rewritten, or allow copies of them"
                " (floecat.gateway.delta-compat.unnumbered-collections=copy)"
            )
        if size > MAX_COPIED_BYTES:
            raise UnsupportedDeltaTableError(
                f"Column {footer.columns[0]} cannot be read: {location} lacks the field ids of the table,"
                f" and with {size} bytes it is too large to be copied"
            )
        if self._context.work is not None:
            self._context.work.check_copy(location, size)
        length = size - footer.replaced

        def make() -> bytes:
            data = read_data_file(self._artifacts, location, 0, length)
            if len(data) != length:
                raise InvalidDeltaTableError(f"Cannot read {location}: it is shorter than the log says")
            return data + footer.data

        copy = self._context.paths.field_id_copy(location)
        # both the original and the copy are in memory
        with self._artifacts.copies.holding(2 * size):
            self._artifacts.write_large(copy, make, offset=length, tail=footer.data)
        return SeenFile(copy, length + len(footer.data), footer.data)


def _sample(
    locations: pa.StringArray, modified_at_ms: pa.ChunkedArray | None, rows: npt.NDArray[np.int64]
) -> list[int]:
    """The rows of a few files; otherwise the oldest of every kind of name, and the newest if it is newer."""
    if len(rows) <= 2 * _MOST_KINDS:
        return [int(row) for row in rows]
    names = pc.replace_substring_regex(locations.take(pa.array(rows)), r"^.*/", "")
    kinds = pc.replace_substring_regex(names, _VARIES, "#").dictionary_encode().indices.to_numpy()
    times = np.zeros(len(rows)) if modified_at_ms is None else modified_at_ms.fill_null(0).to_numpy()[rows]
    order = np.argsort(times, kind="stable")
    _, first, groups = np.unique(kinds[order], return_index=True, return_inverse=True)
    last = np.zeros(len(first), np.int64)
    last[groups] = np.arange(len(order))
    chosen = np.argsort(first)[:_MOST_KINDS]
    oldest, newest = order[first[chosen]], order[last[chosen]]
    return [int(row) for row in rows[np.concatenate([oldest, newest[times[newest] > times[oldest]]])]]
