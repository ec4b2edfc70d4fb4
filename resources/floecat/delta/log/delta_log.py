"""The log of a Delta table in storage: its versions, their states and their changes.

A log may be written and cleaned up while it is read. Files written after a listing are not seen. A listed
file that is missing when it is read raises `FileMissingError`: the caller lists again. A damaged file is left
out where the other files suffice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from itertools import islice
from typing import Final, TypeVar

import pyarrow as pa

from floecat.delta.log.commit_files import FileActions, LogText, read_file_actions
from floecat.delta.log.file_tables import vector_total
from floecat.delta.log.headers import LogHeader, has_metadata, read_header
from floecat.delta.log.log_bounds import LogBounds, ReadMeter
from floecat.delta.log.log_files import (
    DamagedFileError,
    DamagedFiles,
    LogFault,
    LogFile,
    check_no_links,
    commit_name,
    damage_of,
)
from floecat.delta.log.log_listing import LogListing, LogSegment
from floecat.delta.log.log_reader import LogReader
from floecat.delta.log.partition_values import physical_partition_names
from floecat.delta.log.reconciliation import live_files, newest_actions
from floecat.delta.protocol.actions import (
    Commit,
    Metadata,
    Protocol,
    Snapshot,
    check_readable,
    commit_timestamp_ms,
    has_in_commit_timestamps,
)
from floecat.delta.protocol.paths import PathReader
from floecat.errors import InvalidDeltaTableError, UnsupportedDeltaTableError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.iceberg.values.large_bytes import is_blank
from floecat.working_memory import take_memory

__all__ = ["DeltaLog", "LogListing"]

T = TypeVar("T")

_MOST_FAULTS: Final = 20
_FILES_COUNTED: Final = 1000
_LISTED_BYTES: Final = 1 << 10
"""Memory of a file of a listing, about."""

_FROM_START = re.compile(r"/0{20}\.[0-9]{20}\.compacted\.json$")


class DeltaLog:
    """Reads the log of one table.

    Besides the errors that they document, its methods may raise:

    - InvalidDeltaTableError: a file of the log is malformed, or a file that is needed is missing.
    - UnsupportedDeltaTableError: the table cannot be read exactly; see
      `floecat.delta.protocol.actions.check_readable`.
    - FileMissingError: a file was deleted after the listing.
    - LocationNotAllowedError: the log is outside the allowed locations, or is linked there.
    - StorageUnavailableError: storage fails.
    - TooLargeError: it is too much work for a request.

    Attributes:
        location: root of the table, normalized.
        bounds: what reading may take.
        faults: damaged files that were found, or are known from an earlier listing.
    """

    def __init__(
        self,
        files: FileIO,
        allowed: AllowedLocations,
        location: str,
        damaged: DamagedFiles | None = None,
        bounds: LogBounds | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            files: storage.
            allowed: nothing outside is read.
            location: root of the table.
            damaged: damaged files that earlier readers of the log found.
            bounds: what reading may take; None for the settings of the process.

        Raises:
            BadRequestError: the location is malformed.
            LocationNotAllowedError: it is not allowed.
        """
        self.location = str(allowed.check(location))
        self._files = files
        self._allowed = allowed
        self.bounds = bounds or LogBounds()
        self._reader = LogReader(files, allowed, self.location, self.bounds)
        self._paths = PathReader(self.location)
        self._damaged = damaged or DamagedFiles()
        self._listed: LogListing | None = None
        self.faults: list[LogFault] = []

    def listing(self, after: int | None = None) -> LogListing:
        """Lists the log; one request suffices for a short one.

        Args:
            after: list only what follows this version, which is cheaper. None or -1 for everything.

        Raises:
            InvalidDeltaTableError: everything is listed and there is no version, or there is a symbolic link.
        """
        if after is not None and after < 0:
            after = None
        check_no_links(self.location)
        self._allowed.check(self._reader.folder)
        start_after = None if after is None else commit_name(after)
        below = self._reader.folder + "/"
        most = self.bounds.limits.delta_log_files
        files: list[LogFile] = []
        for entry in islice(self._files.list(self._reader.folder, start_after=start_after), most + 1):
            files.append(LogFile(entry.location.removeprefix(below), entry.size_bytes, entry.modified_at_ms))
            if len(files) % _FILES_COUNTED == 0:
                take_memory(_FILES_COUNTED * _LISTED_BYTES)
        if len(files) > most:
            raise UnsupportedDeltaTableError(
                f"The log of Delta table {self.location} has more than {most} files"
                " (floecat.limits.delta-log-files)"
            )
        self._listed = LogListing(files, location=self.location, after=after)
        for fault in self._listed.still_there(self._damaged.known(self._reader.folder)):
            self._leave_out(self._listed, fault)
        return self._listed

    def snapshot(self, listing: LogListing, version: int) -> Snapshot:
        """The state at a version.

        Args:
            listing: the log. A listing after a version that does not suffice is replaced by a full one.
        """
        return self._rebuilt(listing, version, self._snapshot)

    def commit(self, version: int, metadata: Metadata, protocol: Protocol) -> Commit:
        """The changes of a version.

        Args:
            metadata: in force before it; what the commit itself sets takes precedence.
            protocol: in force before it.
        """
        listing = self._listed
        if listing is None or not listing.has_commit(version):
            listing = self.listing(version - 1)
            listing.commits(version - 1, version)
        try:
            text = self._reader.read(commit_name(version))
            return self._commit(listing, version, text, protocol, metadata)
        except DamagedFileError as error:
            self._note(listing, error)
            raise

    def commits(self, listing: LogListing, after: int, until: int) -> Iterator[Commit]:
        """The changes of a range of versions, in order.

        Args:
            listing: the log.
            after: the version before the first; -1 to start with version 0.
            until: the last one.
        """
        files = listing.commits(after, until)
        protocol, metadata = self._state(listing, after) if after >= 0 and files else (None, None)
        texts = self._reader.read_all(files)
        for version, text in enumerate(texts, start=after + 1):
            commit = self._commit(listing, version, text, protocol, metadata)
            protocol, metadata = commit.protocol or protocol, commit.metadata or metadata
            yield commit

    def metadata_history(self, listing: LogListing) -> list[tuple[int, Metadata]]:
        """Every metadata that the log still has, oldest first, with the version that set it.

        For the oldest version, and for versions of which only a checkpoint is left, it is the metadata in
        force. Adds and removes are not decoded. Damaged files before the newest checkpoint are left out, as
        newer versions can be read without them.

        Args:
            listing: the log; a listing after a version gives what was set after it.
        """
        starts: list[int] = []
        followers: list[int] = []
        previous = listing.after
        for version in listing.versions:
            follows = previous == version - 1 and listing.has_commit(version)
            (followers if follows else starts).append(version)
            previous = version
        history: list[tuple[int, Metadata | None]] = []
        files = [file for version in followers for file in listing.commits(version - 1, version)]
        for version, text in zip(followers, self._reader.read_all(files), strict=True):
            if has_metadata(text.data) or is_blank(text.data):
                try:
                    history.append((version, self._header(text).metadata))
                except DamagedFileError as error:
                    self._note(listing, error)
                    starts.append(version)
        tried: set[int] = set()
        while starts:
            version = starts.pop()
            tried.add(version)
            try:
                history.append((version, self._state(listing, version)[1]))
            except InvalidDeltaTableError:
                if listing.needs(version):
                    raise
                # the next checkpoint holds the metadata in force again
                known_again = listing.checkpoint_from(version)
                if known_again is not None and known_again not in tried:
                    starts.append(known_again)
        found = {version: metadata for version, metadata in history if metadata and metadata.schema_string}
        self.bounds.check_schemas(metadata.schema_string for metadata in found.values())
        return sorted(found.items())

    def faults_since(self, before: Sequence[LogFault], listing: LogListing) -> tuple[LogFault, ...]:
        """The newest faults: those found now and those of earlier work whose files are still there.

        Args:
            before: faults of earlier work.
            listing: the log. A listing after a version does not show whether older files are still there.
        """
        faults = tuple(dict.fromkeys((*before, *self.faults)))
        return (listing.still_there(faults) if listing.after is None else faults)[-_MOST_FAULTS:]

    def _rebuilt(self, listing: LogListing, version: int, read: Callable[[LogListing, LogSegment], T]) -> T:
        """Reads a state from the first set of files without damage.

        Where the files contradict each other, commits are right: they are read without what others made of
        them. Only if that succeeds is it damage of the others.
        """
        listing = self._reaching(listing, version)
        try:
            return self._undamaged(listing, version, read)
        except DamagedFileError:
            raise
        except InvalidDeltaTableError as error:
            contradiction = error.message
            for names in listing.derived(version):
                with suppress(InvalidDeltaTableError):
                    found = self._undamaged(listing.without(names), version, read)
                    locations = [self._reader.location(name) for name in names]
                    message = f"{locations[0]} contradicts the commits: {contradiction}"
                    self._note(listing, DamagedFileError(message, locations))
                    return found
            raise

    def _undamaged(self, listing: LogListing, version: int, read: Callable[[LogListing, LogSegment], T]) -> T:
        met: list[str] = []
        while True:
            try:
                return read(listing, listing.segment(version))
            except DamagedFileError as error:
                met.append(error.message)
                if not self._note(listing, error):
                    raise
                listing = self._reaching(listing, version)
            except InvalidDeltaTableError as error:
                others = [message for message in met if message not in error.message]
                raise InvalidDeltaTableError("; ".join([error.message, *others])) from None

    def _note(self, listing: LogListing, error: DamagedFileError) -> bool:
        """Leaves damaged files out; False if they were left out before."""
        below = self._reader.folder + "/"
        names = tuple(location.removeprefix(below) for location in error.locations)
        fault = LogFault(names, listing.fingerprint_of_files(names), error.message)
        self._damaged.note(self._reader.folder, fault)
        return self._leave_out(listing, fault)

    def _leave_out(self, listing: LogListing, fault: LogFault) -> bool:
        if fault not in self.faults:
            self.faults.append(fault)
        return listing.leave_out(fault.names, fault.message)

    def _snapshot(self, listing: LogListing, segment: LogSegment) -> Snapshot:
        version = segment.version
        meter = ReadMeter(self.bounds)
        checkpoint = self._reader.open_checkpoint(segment.checkpoint, meter) if segment.checkpoint else None
        texts = []
        for text in self._reader.read_all(segment.files):
            meter.add_lines(text.data)
            texts.append(text)
        headers = [self._header(text) for text in texts]
        held = [checkpoint.header] if checkpoint else []
        protocol, metadata = self._in_force([*held, *headers], version)
        is_held = checkpoint and checkpoint.header.metadata is metadata
        with damage_of(*checkpoint.locations) if checkpoint and is_held else nullcontext():
            check_readable(protocol, metadata)
            names = physical_partition_names(metadata)
        actions = list(read_file_actions(texts, names, self._paths))
        tables = checkpoint.files(names, self._paths) if checkpoint else []
        locations = checkpoint.locations if checkpoint else []
        # No longer needed, and possibly as large as the result.
        del texts, checkpoint
        files = self._live_files(tables, locations, actions, names)
        meter.add_vectors(vector_total(files, "size_bytes"))
        return Snapshot(
            version=version,
            timestamp_ms=self._timestamp_ms(listing, version, metadata, headers[-1:]),
            protocol=protocol,
            metadata=metadata,
            files=files,
        )

    def _live_files(
        self,
        tables: Sequence[pa.Table],
        locations: Sequence[str],
        actions: Sequence[FileActions],
        names: Sequence[str],
    ) -> pa.Table:
        try:
            return live_files(tables, actions, names, location=self.location)
        except InvalidDeltaTableError:
            if tables:
                # report the checkpoint if it alone contradicts itself
                with damage_of(*locations):
                    live_files(tables, [], names, location=self.location)
            raise

    def _reaching(self, listing: LogListing, version: int) -> LogListing:
        return listing if listing.reaches(version) else self.listing()

    def _state(self, listing: LogListing, version: int) -> tuple[Protocol, Metadata]:
        """Protocol and metadata in force, read backwards from the newest file."""
        return self._rebuilt(listing, version, self._state_of)

    def _state_of(self, listing: LogListing, segment: LogSegment) -> tuple[Protocol, Metadata]:  # noqa: ARG002
        newest = LogHeader()
        for text in self._reader.read_all(segment.files[::-1]):
            header = self._header(text)
            newest = LogHeader(newest.protocol or header.protocol, newest.metadata or header.metadata)
            if newest.protocol and newest.metadata:
                return newest.protocol, newest.metadata
        held = []
        if segment.checkpoint:
            held.append(self._reader.open_checkpoint(segment.checkpoint, ReadMeter(self.bounds)).header)
        return self._in_force([*held, newest], segment.version)

    def _in_force(self, headers: Iterable[LogHeader], version: int) -> tuple[Protocol, Metadata]:
        protocol = metadata = None
        for header in headers:
            protocol, metadata = header.protocol or protocol, header.metadata or metadata
        if protocol is None:
            raise InvalidDeltaTableError(f"Delta table {self.location} has no protocol at version {version}")
        if metadata is None:
            raise InvalidDeltaTableError(f"Delta table {self.location} has no metadata at version {version}")
        return protocol, metadata

    def _commit(
        self,
        listing: LogListing,
        version: int,
        text: LogText,
        protocol: Protocol | None,
        metadata: Metadata | None,
    ) -> Commit:
        meter = ReadMeter(self.bounds)
        meter.add_lines(text.data)
        header = self._header(text)
        new_protocol, new_metadata = self._in_force([LogHeader(protocol, metadata), header], version)
        check_readable(new_protocol, new_metadata)
        names = physical_partition_names(new_metadata)
        with damage_of(text.location):
            actions = list(read_file_actions([text], names, self._paths))
            adds, removes = newest_actions(actions, names, location=self.location)
            meter.add_vectors(vector_total(adds, "size_bytes"))
        return Commit(
            version=version,
            timestamp_ms=self._timestamp_ms(listing, version, new_metadata, [header]),
            protocol=header.protocol,
            metadata=header.metadata,
            commit_info=header.commit_info,
            adds=adds,
            removes=removes,
        )

    def _timestamp_ms(
        self, listing: LogListing, version: int, metadata: Metadata, headers: list[LogHeader]
    ) -> int:
        written_at_ms = listing.timestamp_ms(version) or 0
        if not has_in_commit_timestamps(metadata) or not listing.has_commit(version):
            return written_at_ms
        commit_info = headers[0].commit_info if headers else None
        name = commit_name(version)
        if commit_info is None:
            # A checkpoint or a compaction, which keep no commitInfo, replaced the commit.
            try:
                commit_info = self._header(self._reader.read(name)).commit_info
            except DamagedFileError as error:
                self._note(listing, error)
                return written_at_ms
        return commit_timestamp_ms(metadata, commit_info, written_at_ms, location=self._reader.location(name))

    def _header(self, text: LogText) -> LogHeader:
        with damage_of(text.location):
            header = read_header(text.data, location=text.location, bounds=self.bounds)
            if _FROM_START.search(text.location) and not (header.protocol and header.metadata):
                raise InvalidDeltaTableError(
                    f"Log compaction {text.location} lacks the protocol or the metadata"
                )
            return header
