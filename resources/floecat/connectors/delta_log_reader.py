"""Files of a Delta log, read from storage."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import pyarrow as pa

from floecat.connectors.delta_log_files import LOG_FOLDER
from floecat.delta.checkpoints import CheckpointFile, open_checkpoint_file
from floecat.delta.commits import LogText
from floecat.delta.headers import Header
from floecat.delta.log_files import Checkpoint, LogFile
from floecat.delta.paths import PathReader
from floecat.errors import FileMissingError, InvalidDeltaTableError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations

__all__ = ["MAX_LOG_FILE_BYTES", "LogReader", "OpenCheckpoint"]

MAX_LOG_FILE_BYTES: Final = 2**31 - 2**20
"""Largest file of a log that is read: what one array of bytes holds."""

_SIDECARS: Final = "_sidecars"
_READS_AHEAD: Final = 8
_BYTES_AHEAD: Final = 64 * 1024 * 1024


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

    def read_all(self, files: Sequence[LogFile]) -> Iterator[LogText]:
        """Files in their order, read a few ahead of the caller; else as `read`."""
        return self._read_ahead([(file.name, file.size_bytes) for file in files])

    def _read_ahead(self, files: Sequence[tuple[str, int]]) -> Iterator[LogText]:
        """Takes names and sizes."""
        if len(files) < 2:
            yield from (self.read(name) for name, _ in files)
            return
        pool = ThreadPoolExecutor(_READS_AHEAD, thread_name_prefix="delta-log")
        ahead: deque[tuple[Future[LogText], int]] = deque()
        held = 0
        try:
            for name, size in files:
                while ahead and (len(ahead) == _READS_AHEAD or held + size > _BYTES_AHEAD):
                    first, its_size = ahead.popleft()
                    yield first.result()
                    held -= its_size
                ahead.append((pool.submit(self.read, name), size))
                held += size
            yield from (future.result() for future, _ in ahead)
        finally:
            pool.shutdown(cancel_futures=True)

    def open_checkpoint(self, checkpoint: Checkpoint) -> OpenCheckpoint:
        """A checkpoint, without what is in sidecars.

        Raises:
            FileMissingError: a file of it is gone.
            InvalidDeltaTableError: a file of it is damaged.
        """
        texts = self.read_all(checkpoint.files)
        return OpenCheckpoint(
            self, [open_checkpoint_file(text.data, location=text.location) for text in texts]
        )

    def read_sidecars(self, names: Iterable[str]) -> Iterator[CheckpointFile]:
        """Sidecars in the order of their names.

        Raises:
            InvalidDeltaTableError: one is missing or damaged.
        """
        # What the checkpoint says of their sizes could be anything.
        files = [(f"{_SIDECARS}/{name}", _BYTES_AHEAD // 2) for name in names]
        try:
            for text in self._read_ahead(files):
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
