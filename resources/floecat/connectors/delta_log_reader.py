"""Files of a Delta log, read from storage."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Final

import pyarrow as pa

from floecat.connectors.delta_log_files import LOG_FOLDER
from floecat.delta.checkpoints import CheckpointFile, open_checkpoint_file
from floecat.delta.commits import LogText
from floecat.delta.headers import Header
from floecat.delta.log_files import Checkpoint
from floecat.delta.paths import PathReader
from floecat.errors import FileMissingError, InvalidDeltaTableError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations

__all__ = ["MAX_LOG_FILE_BYTES", "LogReader", "OpenCheckpoint"]

MAX_LOG_FILE_BYTES: Final = 2 * 1024**3
"""Largest file of a log that is read."""

_SIDECARS: Final = "_sidecars"
_READS_AHEAD: Final = 8


class LogReader:
    """Reads files of one log, several at a time.

    Attributes:
        folder: location of the folder of the log.
    """

    def __init__(self, files: FileIO, allowed: AllowedLocations, location: str) -> None:
        """Takes the table.

        Args:
            files: storage.
            allowed: nothing outside is read.
            location: root of the table, normalized.
        """
        self._files = files
        self._allowed = allowed
        self.folder = f"{location}/{LOG_FOLDER}"

    def location(self, name: str) -> str:
        """Where a file of the log is."""
        return f"{self.folder}/{name}"

    def read(self, name: str) -> LogText:
        """One file.

        Args:
            name: its path below the folder of the log.

        Raises:
            FileMissingError: it is gone.
            PayloadTooLargeError: it is larger than `MAX_LOG_FILE_BYTES`.
        """
        location = self.location(name)
        self._allowed.check(location)
        return LogText(location, self._files.read(location, max_bytes=MAX_LOG_FILE_BYTES))

    def read_many(self, names: Iterable[str]) -> Iterator[LogText]:
        """Files in the order of their names, a few ahead of the caller; else as `read`."""
        rest = iter(names)
        first = list(islice(rest, 2))
        if len(first) < 2:
            yield from map(self.read, first)
            return
        pool = ThreadPoolExecutor(_READS_AHEAD, thread_name_prefix="delta-log")
        try:
            ahead: deque[Future[LogText]] = deque(pool.submit(self.read, name) for name in first)
            while ahead:
                ahead += [pool.submit(self.read, name) for name in islice(rest, _READS_AHEAD - len(ahead))]
                yield ahead.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def open_checkpoint(self, checkpoint: Checkpoint) -> OpenCheckpoint:
        """A checkpoint, without what is in sidecars.

        Raises:
            FileMissingError: a file of it is gone.
            InvalidDeltaTableError: a file of it is damaged.
        """
        texts = self.read_many(file.name for file in checkpoint.files)
        return OpenCheckpoint(
            self, [open_checkpoint_file(text.data, location=text.location) for text in texts]
        )

    def read_sidecars(self, names: Iterable[str]) -> Iterator[CheckpointFile]:
        """Sidecars in the order of their names.

        Raises:
            InvalidDeltaTableError: one is missing or damaged.
        """
        try:
            for text in self.read_many(f"{_SIDECARS}/{name}" for name in names):
                yield open_checkpoint_file(text.data, location=text.location)
        except FileMissingError as error:
            raise InvalidDeltaTableError(
                f"A sidecar of a Delta checkpoint is missing: {error.message}"
            ) from None


class OpenCheckpoint:
    """A checkpoint that was read.

    Attributes:
        header: its protocol, metadata and sidecars.
    """

    def __init__(self, reader: LogReader, files: Sequence[CheckpointFile]) -> None:
        self._reader = reader
        self._files = files
        headers = [file.header() for file in files]
        self.header = Header(
            protocol=next((header.protocol for header in headers if header.protocol), None),
            metadata=next((header.metadata for header in headers if header.metadata), None),
            sidecars=tuple(name for header in headers for name in header.sidecars),
        )

    def files(self, partition_names: Sequence[str], paths: PathReader) -> list[pa.Table]:
        """Its adds; see `CheckpointFile.files`.

        Raises:
            InvalidDeltaTableError: a sidecar is missing, or a file is damaged.
        """
        tables = [table for file in self._files for table in file.files(partition_names, paths)]
        for sidecar in self._reader.read_sidecars(self.header.sidecars):
            tables += sidecar.files(partition_names, paths)
        return tables
