"""Files of a Delta log, read from storage."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa

from floecat.delta.log.checkpoints import CheckpointFile, open_checkpoint_file
from floecat.delta.log.commit_files import LogText
from floecat.delta.log.headers import LogHeader
from floecat.delta.log.log_bounds import LogBounds, ReadMeter
from floecat.delta.log.log_files import LOG_FOLDER, Checkpoint, DamagedFileError, LogFile, damage_of
from floecat.delta.protocol.paths import PathReader
from floecat.errors import BadRequestError, FileMissingError, InvalidDeltaTableError, PayloadTooLargeError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.working_memory import take_memory

__all__ = ["MAX_LOG_FILE_BYTES", "LogReader", "OpenCheckpoint"]

MAX_LOG_FILE_BYTES: Final = 2**31 - 2**20
"""Largest file of a log that is read; one Arrow array can hold its bytes."""

T = TypeVar("T")

_SIDECARS: Final = "_sidecars"
_SMALL_FILE_BYTES: Final = 16 << 20
_READS_AHEAD: Final = 8
_BYTES_AHEAD: Final = 64 * 1024 * 1024


class LogReader:
    """Reads files of one log, several at a time. Nothing outside the allowed locations is read.

    Attributes:
        folder: location of the folder of the log.
        bounds: what reading may take.
    """

    def __init__(self, files: FileIO, allowed: AllowedLocations, location: str, bounds: LogBounds) -> None:
        self.bounds = bounds
        self._files = files
        self._allowed = allowed
        self.folder = f"{location}/{LOG_FOLDER}"

    def location(self, name: str) -> str:
        """The location of a file of the log."""
        return f"{self.folder}/{name}"

    def read(self, name: str) -> LogText:
        """The text of a file.

        Args:
            name: its path below the folder of the log.

        Raises:
            FileMissingError: it is missing.
            TooLargeError: it is too large for a request.
            DamagedFileError: it is too large at all.
        """
        return self._text(name, self._read_bounded)

    def _text(self, name: str, read: Callable[[str], bytes]) -> LogText:
        location = self.location(name)
        self._allowed.check(location)
        try:
            with damage_of(location):
                return LogText(location, read(location))
        except FileMissingError:
            raise FileMissingError(f"Log file {location} is missing") from None

    def _read_bounded(self, location: str) -> bytes:
        most = min(MAX_LOG_FILE_BYTES, self.bounds.decoded_bytes)
        try:
            return self._files.read(location, max_bytes=min(most, _SMALL_FILE_BYTES))
        except PayloadTooLargeError:
            take_memory(most)  # before it is there; small files are counted when they are decoded
        try:
            return self._files.read(location, max_bytes=most)
        except PayloadTooLargeError:
            self.bounds.check_request(most + 1)
            if most == MAX_LOG_FILE_BYTES:
                raise
            raise PayloadTooLargeError(
                f"it is larger than {most} bytes (floecat.limits.delta-log-bytes)"
            ) from None

    def read_all(self, files: Sequence[LogFile]) -> Iterator[LogText]:
        """Files in their order, read a few ahead of the caller; otherwise like `read`."""
        return self._read_ahead([(file.name, file.size_bytes) for file in files])

    def _read_ahead(self, files: Sequence[tuple[str, int]]) -> Iterator[LogText]:
        """Takes names and sizes. A file that is larger is read when its turn comes."""
        if len(files) < 2:
            yield from (self.read(name) for name, _ in files)
            return
        pool = ThreadPoolExecutor(_READS_AHEAD, thread_name_prefix="delta-log")
        ahead: deque[tuple[str, int, Future[LogText]]] = deque()
        held = 0
        # small files are counted again when they are decoded
        take_memory(min(sum(size for _, size in files if size <= _SMALL_FILE_BYTES), _BYTES_AHEAD))
        try:
            for name, size in files:
                while ahead and (len(ahead) == _READS_AHEAD or held + size > _BYTES_AHEAD):
                    first, its_size, future = ahead.popleft()
                    yield self._taken(first, future)
                    held -= its_size
                if size > _SMALL_FILE_BYTES:
                    take_memory(size)  # before it is there
                read = partial(self._files.read, max_bytes=size)
                ahead.append((name, size, pool.submit(self._text, name, read)))
                held += size
            yield from (self._taken(name, future) for name, _, future in ahead)
        finally:
            pool.shutdown(cancel_futures=True)

    def _taken(self, name: str, future: Future[LogText]) -> LogText:
        try:
            return future.result()
        except DamagedFileError:  # it is larger
            return self.read(name)

    def open_checkpoint(self, checkpoint: Checkpoint, meter: ReadMeter) -> OpenCheckpoint:
        """A checkpoint without its sidecars.

        Args:
            checkpoint: its files.
            meter: counts what is decoded.

        Raises:
            TooLargeError: it is too much for a request.
            FileMissingError: a file of it is missing.
            DamagedFileError: a file of it is damaged, or its files contradict each other.
        """
        locations = [self.location(file.name) for file in checkpoint.files]
        with damage_of(*locations):
            texts = self.read_all(checkpoint.files)
            files = [open_checkpoint_file(text.data, location=text.location, meter=meter) for text in texts]
            return OpenCheckpoint(self, checkpoint.version, locations, files, meter)

    def read_sidecars(self, names: Iterable[str], meter: ReadMeter) -> Iterator[CheckpointFile]:
        """Sidecars in the order of their names.

        Raises:
            InvalidDeltaTableError: one is missing or damaged.
        """
        # The sizes in the checkpoint are not trusted.
        files = [(f"{_SIDECARS}/{name}", _SMALL_FILE_BYTES) for name in names]
        try:
            for text in self._read_ahead(files):
                yield open_checkpoint_file(text.data, location=text.location, meter=meter)
        except PayloadTooLargeError:
            raise
        except (FileMissingError, BadRequestError) as error:
            raise InvalidDeltaTableError(
                f"A sidecar of a Delta checkpoint is missing: {error.message}"
            ) from None


_ADD_FIELDS: Final = ("path", "size", "partitionValues", "modificationTime", "dataChange")
"""Fields that every add has (Delta protocol, "Add File and Remove File")."""


class OpenCheckpoint:
    """A checkpoint whose files were read.

    Attributes:
        header: its protocol, metadata and sidecars.
        locations: of its files, without sidecars.
    """

    def __init__(
        self,
        reader: LogReader,
        version: int,
        locations: Sequence[str],
        files: Sequence[CheckpointFile],
        meter: ReadMeter,
    ) -> None:
        self._reader = reader
        self._meter = meter
        self._files = files
        self.locations = locations
        headers = [file.header() for file in files]
        name = f"Checkpoint file {locations[0]}"
        protocols = _distinct(header.protocol for header in headers)
        metadata = _distinct(header.metadata for header in headers)
        for kind, found in (("protocol", protocols), ("metadata", metadata)):
            if not found:
                raise InvalidDeltaTableError(f"{name} has no {kind} at version {version}")
        versions = {header.version for header in headers} - {None, version}
        if (
            len(protocols) > 1
            or len(metadata) > 1
            or versions
            or any(header.contradicts for header in headers)
        ):
            raise InvalidDeltaTableError(
                f"{name} contradicts itself: it has two protocols, metadata or versions"
            )
        self.header = LogHeader(
            protocol=protocols[0],
            metadata=metadata[0],
            # a sidecar that is listed again holds nothing new
            sidecars=tuple(dict.fromkeys(name for header in headers for name in header.sidecars)),
        )
        # a part may hold only other actions, and then has no columns for files
        complete = [file.has_columns("add", ["path", "size"]) for file in files]
        lacking = [file for file, ok in zip(files, complete, strict=True) if not ok]
        has_sidecars = any(file.has_columns("sidecar", ["path"]) for file in lacking)
        cut = any(file.has_columns("add", [name]) for file in lacking for name in _ADD_FIELDS)
        if cut or not (any(complete) or has_sidecars):
            raise InvalidDeltaTableError(f"{name} lacks the columns of files")

    def files(self, partition_names: Sequence[str], paths: PathReader) -> list[pa.Table]:
        """The adds of the checkpoint; see `CheckpointFile.files`.

        Raises:
            DamagedFileError: a sidecar is missing, or a file is damaged.
        """
        with damage_of(*self.locations):
            tables = [table for file in self._files for table in file.files(partition_names, paths)]
        sidecars = self._reader.read_sidecars(self.header.sidecars, self._meter)
        for name in self.header.sidecars:
            location = self._reader.location(f"{_SIDECARS}/{name}")
            with damage_of(*self.locations, location):
                sidecar = next(sidecars)
                if not sidecar.has_columns("add", ["path", "size"]):
                    raise InvalidDeltaTableError(f"Sidecar {location} lacks the columns of files")
                tables += sidecar.files(partition_names, paths)
        return tables


def _distinct(found: Iterable[T | None]) -> list[T]:
    distinct: list[T] = []
    for each in found:
        if each is not None and each not in distinct:
            distinct.append(each)
    return distinct
