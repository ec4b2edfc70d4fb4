"""Bounds on the work of a request for a Delta table. Larger work is left to the pipeline."""

from __future__ import annotations

from threading import Lock

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.log.file_tables import vector_total
from floecat.delta.log.log_bounds import TooLargeError
from floecat.working_memory import current_reservation

__all__ = ["RequestBounds", "RequestWork", "TooLargeError", "opened_files"]


class RequestBounds(msgspec.Struct, frozen=True):
    """Bounds of one request.

    Attributes:
        opened_files: files of a version that are opened, for deletion vectors or footers.
        deleted_rows: rows in position deletes, of all versions.
        vector_bytes: deletion vectors, of all versions.
        footer_bytes: the footer of a data file.
        all_footer_bytes: the footers of data files, of all versions.
        copied_file_bytes: a data file that is copied.
    """

    opened_files: int
    deleted_rows: int
    vector_bytes: int
    footer_bytes: int
    all_footer_bytes: int
    copied_file_bytes: int


class RequestWork:
    """The work of one request so far. Footers are counted by several threads."""

    def __init__(self, bounds: RequestBounds) -> None:
        """Footers are taken from the working memory of the request that this thread works on."""
        self._bounds = bounds
        self._reservation = current_reservation()
        self._lock = Lock()
        self._footer_bytes = 0
        self._deleted_rows = 0
        self._vector_bytes = 0

    def add(self, files: pa.Table, *, read_footers: bool, all_files: bool, copies_vectors: bool) -> None:
        """Adds the work of a version, before it is done.

        What the log says of deletion vectors is checked when they are read, so it can be counted by here.

        Args:
            files: files that the version adds.
            read_footers: as of `opened_files`.
            all_files: as of `opened_files`.
            copies_vectors: whether vectors are copied, rather than written as position deletes.

        Raises:
            TooLargeError: it is too much.
        """
        bounds = self._bounds
        if len(files) > bounds.opened_files:
            opened = opened_files(files, read_footers=read_footers, all_files=all_files)
            _check(
                f"{opened} files must be opened",
                opened,
                bounds.opened_files,
                "floecat.gateway.delta-compat.max-files-in-request",
            )
        self._vector_bytes += vector_total(files, "size_bytes")
        _check(
            f"its deletion vectors have {self._vector_bytes} bytes",
            self._vector_bytes,
            bounds.vector_bytes,
            "floecat.limits.deletion-vector-bytes",
        )
        if not copies_vectors:
            self._deleted_rows += vector_total(files, "cardinality")
            _check(
                f"its deletion vectors delete {self._deleted_rows} rows",
                self._deleted_rows,
                bounds.deleted_rows,
                "floecat.limits.deleted-rows",
            )

    def add_footer(self, location: str, size_bytes: int) -> None:
        """Adds the footer of a data file, before it is decoded.

        Raises:
            TooLargeError: it is larger than the bound, or all of them are.
            UnavailableError: other requests use all of the working memory.
        """
        bounds = self._bounds
        _check(
            f"the Parquet footer of {location} has {size_bytes} bytes",
            size_bytes,
            bounds.footer_bytes,
            "floecat.limits.data-file-footer-bytes",
        )
        with self._lock:
            self._footer_bytes += size_bytes
            _check(
                f"Parquet footers of its data files have {self._footer_bytes} bytes or more",
                self._footer_bytes,
                bounds.all_footer_bytes,
                "floecat.limits.footer-bytes-in-request",
            )
            if self._reservation is not None:
                self._reservation.take(size_bytes)

    def check_copy(self, location: str, size_bytes: int) -> None:
        """Checks the size of a data file, before it is copied.

        Raises:
            TooLargeError: it is larger than the bound.
        """
        _check(
            f"{location} needs a copy and has {size_bytes} bytes",
            size_bytes,
            self._bounds.copied_file_bytes,
            "floecat.limits.copied-file-bytes",
        )


def opened_files(files: pa.Table, *, read_footers: bool, all_files: bool) -> int:
    """The number of files that have to be opened for a version.

    Args:
        files: those that it adds.
        read_footers: whether footers are read where the log has no row count.
        all_files: whether the footers of all are read, for their field ids.
    """
    if all_files:
        return len(files)
    opened = files["deletion_vector"].is_valid()
    if read_footers:
        opened = pc.or_(opened, pc.invert(_has_record_count(files)))
    return int(pc.sum(opened).as_py() or 0)


def _has_record_count(files: pa.Table) -> pa.ChunkedArray:
    """Whether the log has the row count of each file."""
    known = pc.fill_null(pc.match_substring(files["stats"], '"numRecords"'), False)
    if "stats_parsed" not in files.column_names:
        return known
    if files.schema.field("stats_parsed").type.get_field_index("numRecords") < 0:
        return known
    parsed = pc.struct_field(files["stats_parsed"], "numRecords")
    return pc.or_(known, parsed.is_valid())


def _check(what: str, found: int, most: int, setting: str) -> None:
    if found > most:
        raise TooLargeError(f"{what}, and a load may take {most} ({setting})")
