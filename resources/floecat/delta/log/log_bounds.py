"""Bounds on what reading a Delta log may take.

A file of a few kilobytes can decode to gigabytes: a dictionary in Parquet repeats one long text, pages are
compressed, an empty line of JSON is a row of nulls. So decoded sizes are added up before anything is decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from floecat.errors import UnsupportedDeltaTableError
from floecat.iceberg.values.bounds import process_bounds
from floecat.iceberg.values.json_checks import has_more_elements
from floecat.iceberg.values.large_bytes import count_byte
from floecat.settings.limits import LimitSettings
from floecat.working_memory import take_memory

__all__ = ["LogBounds", "ReadMeter", "TooLargeError"]

ROW_BYTES = 128
"""Bytes of a row of nulls in the columns of adds and removes, about."""


_DECODED_VECTOR = 8
"""Most times its size that a deletion vector takes in memory."""


class TooLargeError(Exception):
    """A version takes more work than a request may do. The text says which bound it exceeds."""


@dataclass(frozen=True)
class LogBounds:
    """Bounds for one reader of a log.

    Attributes:
        limits: the settings.
        in_request: whether a load waits, for which lower bounds hold.
    """

    limits: LimitSettings = field(default_factory=lambda: process_bounds.limits)
    in_request: bool = False

    @property
    def decoded_bytes(self) -> int:
        """Most decoded bytes of the files from which one state is rebuilt."""
        limits = self.limits
        return limits.delta_log_bytes_in_request if self.in_request else limits.delta_log_bytes

    def check_request(self, size_bytes: int) -> None:
        """Leaves to the pipeline what is too large for a request.

        Raises:
            TooLargeError: with the setting.
        """
        most = self.limits.delta_log_bytes_in_request
        if self.in_request and size_bytes > most:
            raise TooLargeError(
                f"its log takes more than {most} bytes (floecat.limits.delta-log-bytes-in-request)"
            )

    def line(self, data: bytes, start: int, end: int) -> bytes:
        """A line of a log. A load leaves to the pipeline what would hold the interpreter.

        Raises:
            TooLargeError: with the setting.
        """
        longest, elements = self.limits.delta_line_bytes_in_request, self.limits.elements
        if self.in_request and end - start > longest:
            raise TooLargeError(
                f"a line of its log has more than {longest} bytes"
                " (floecat.limits.delta-line-bytes-in-request)"
            )
        line = data[start:end]
        if self.in_request and has_more_elements(line, elements, 10 * elements):
            raise TooLargeError(
                f"an array or object in its log has more than {elements} elements, or those of a line"
                " together ten times as many (floecat.limits.elements)"
            )
        return line

    def check_schemas(self, schemas: Iterable[str]) -> None:
        """Leaves to the pipeline schemas that take a request too long to translate.

        Raises:
            TooLargeError: with the setting.
        """
        most = self.limits.delta_schema_bytes_in_request
        if self.in_request and sum(map(len, schemas)) > most:
            raise TooLargeError(
                f"its schemas have more than {most} characters (floecat.limits.delta-schema-bytes-in-request)"
            )


class ReadMeter:
    """Adds up the decoded bytes of the files from which one state is rebuilt."""

    def __init__(self, bounds: LogBounds) -> None:
        self.bounds = bounds
        self._bytes = 0

    def add(self, decoded_bytes: int) -> None:
        """Counts bytes that are about to be read or decoded.

        Raises:
            TooLargeError: it is too much for a request.
            UnsupportedDeltaTableError: it is too much at all.
            UnavailableError: other requests use all of the working memory.
        """
        self._bytes += decoded_bytes
        most = self.bounds.decoded_bytes
        if self._bytes <= most:
            take_memory(decoded_bytes)
            return
        self.bounds.check_request(self._bytes)
        raise UnsupportedDeltaTableError(
            f"A state of the Delta table takes more than {most} bytes (floecat.limits.delta-log-bytes)"
        )

    def add_vectors(self, size_bytes: int) -> None:
        """Counts deletion vectors: in a request by what they may take when they are decoded."""
        self.add(size_bytes * (_DECODED_VECTOR if self.bounds.in_request else 1))

    def add_lines(self, data: bytes) -> None:
        """Counts a file of JSON lines."""
        self.add(len(data) + ROW_BYTES * count_byte(data, b"\n"))
