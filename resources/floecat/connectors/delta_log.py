"""The log of a Delta table in storage: which versions there are, their states and their changes.

A log may be written and cleaned up while it is read. What comes after a listing is not seen. A file that was
listed and is gone when it is read raises `FileMissingError`: the caller lists again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from floecat.connectors.delta_log_reader import LogReader
from floecat.delta.actions import Commit, Metadata, Protocol, Snapshot
from floecat.delta.commits import LogText, read_file_actions
from floecat.delta.headers import Header, has_metadata, read_header
from floecat.delta.log_files import LogFile, commit_name
from floecat.delta.log_listing import LogListing
from floecat.delta.partition_columns import physical_partition_names
from floecat.delta.paths import PathReader
from floecat.delta.protocol import check_readable
from floecat.delta.reconciliation import live_files, newest_actions
from floecat.delta.timestamps import commit_timestamp_ms, has_in_commit_timestamps
from floecat.errors import InvalidDeltaTableError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations

__all__ = ["DeltaLog", "LogListing"]


class DeltaLog:
    """Reads the log of one table.

    Its methods may raise, beside what they name:

    - InvalidDeltaTableError: a file of the log is broken, or one that the log cannot do without is missing.
    - UnsupportedDeltaTableError: the table cannot be read exactly; see
      `floecat.delta.protocol.check_readable`.
    - FileMissingError: a file is gone since the listing.
    - LocationNotAllowedError: the log is outside the allowed locations, or links lead there.
    - StorageUnavailableError: storage fails.

    Attributes:
        location: root of the table, normalized.
    """

    def __init__(self, files: FileIO, allowed: AllowedLocations, location: str) -> None:
        """Takes the table. Nothing is read.

        Args:
            files: storage.
            allowed: nothing outside is read.
            location: root of the table.

        Raises:
            BadRequestError: the location is malformed.
            LocationNotAllowedError: it is not allowed.
        """
        self.location = str(allowed.check(location))
        self._files = files
        self._allowed = allowed
        self._reader = LogReader(files, allowed, self.location)
        self._paths = PathReader(self.location)
        self._listed: LogListing | None = None

    def listing(self, after: int | None = None) -> LogListing:
        """Lists the log, in one request where it is short.

        Args:
            after: list what comes after this version only, which costs less. None or -1 for everything.

        Raises:
            InvalidDeltaTableError: everything is asked for, and there is no version.
        """
        if after is not None and after < 0:
            after = None
        self._allowed.check(self._reader.folder)
        start_after = None if after is None else commit_name(after)
        below = self._reader.folder + "/"
        files = [
            LogFile(entry.location.removeprefix(below), entry.size_bytes, entry.modified_at_ms)
            for entry in self._files.list(self._reader.folder, start_after=start_after)
        ]
        self._listed = LogListing(files, location=self.location, after=after)
        return self._listed

    def snapshot(self, listing: LogListing, version: int) -> Snapshot:
        """The state at a version.

        Args:
            listing: the log. One after a version is completed by a new one if it does not suffice.
            version: the version.
        """
        listing = self._reaching(listing, version)
        segment = listing.segment(version)
        checkpoint = self._reader.open_checkpoint(segment.checkpoint) if segment.checkpoint else None
        texts = list(self._reader.read_all(segment.files))
        headers = [read_header(text.data, location=text.location) for text in texts]
        protocol, metadata = self._in_force([*([checkpoint.header] if checkpoint else []), *headers], version)
        check_readable(protocol, metadata)
        names = physical_partition_names(metadata)
        actions = list(read_file_actions(texts, names, self._paths))
        tables = checkpoint.files(names, self._paths) if checkpoint else []
        # What was read is no longer needed, and may be as large as what is made of it.
        del texts, checkpoint
        return Snapshot(
            version=version,
            timestamp_ms=self._timestamp_ms(listing, version, metadata, headers[-1:]),
            protocol=protocol,
            metadata=metadata,
            files=live_files(tables, actions, names, location=self.location),
        )

    def commit(self, version: int, metadata: Metadata, protocol: Protocol) -> Commit:
        """The changes of a version.

        Args:
            version: the version.
            metadata: in force before it; what the commit itself sets goes before.
            protocol: likewise.
        """
        listing = self._listed
        if listing is None or not listing.has_commit(version):
            listing = self.listing(version - 1)
            listing.commits(version - 1, version)
        return self._commit(listing, version, self._reader.read(commit_name(version)), protocol, metadata)

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
        """Every metadata that the log still knows, oldest first, with the version that set it.

        For the oldest version, and for others that the log only has a checkpoint of, it is the metadata in
        force. Adds and removes are not decoded. What is broken before the newest checkpoint is left out, as
        newer versions can be read without it.

        Args:
            listing: the log. Of one after a version: what was set after it.
        """
        starts: list[int] = []
        followers: list[int] = []
        previous = listing.after
        for version in listing.versions:
            follows = previous == version - 1 and listing.has_commit(version)
            (followers if follows else starts).append(version)
            previous = version
        history = [(version, self._metadata_of_state(listing, version)) for version in starts]
        files = [file for version in followers for file in listing.commits(version - 1, version)]
        for version, text in zip(followers, self._reader.read_all(files), strict=True):
            if has_metadata(text.data):
                history.append((version, self._metadata_of_commit(listing, version, text)))
        history.sort(key=lambda entry: entry[0])
        return [(version, metadata) for version, metadata in history if metadata and metadata.schema_string]

    def _metadata_of_state(self, listing: LogListing, version: int) -> Metadata | None:
        try:
            return self._state(listing, version)[1]
        except InvalidDeltaTableError:
            if listing.needs(version):
                raise
            return None

    def _metadata_of_commit(self, listing: LogListing, version: int, text: LogText) -> Metadata | None:
        try:
            return read_header(text.data, location=text.location).metadata
        except InvalidDeltaTableError:
            if listing.needs(version):
                raise
            return None

    def _reaching(self, listing: LogListing, version: int) -> LogListing:
        return listing if listing.reaches(version) else self.listing()

    def _state(self, listing: LogListing, version: int) -> tuple[Protocol, Metadata]:
        """Protocol and metadata in force, read from the newest file back to the one that sets them."""
        segment = self._reaching(listing, version).segment(version)
        newest = Header()
        for text in self._reader.read_all(segment.files[::-1]):
            header = read_header(text.data, location=text.location)
            newest = Header(newest.protocol or header.protocol, newest.metadata or header.metadata)
            if newest.protocol and newest.metadata:
                return newest.protocol, newest.metadata
        checkpoint = [self._reader.open_checkpoint(segment.checkpoint).header] if segment.checkpoint else []
        return self._in_force([*checkpoint, newest], version)

    def _in_force(self, headers: Iterable[Header], version: int) -> tuple[Protocol, Metadata]:
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
        header = read_header(text.data, location=text.location)
        new_protocol, new_metadata = self._in_force([Header(protocol, metadata), header], version)
        check_readable(new_protocol, new_metadata)
        names = physical_partition_names(new_metadata)
        actions = list(read_file_actions([text], names, self._paths))
        adds, removes = newest_actions(actions, names, location=self.location)
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
        self, listing: LogListing, version: int, metadata: Metadata, headers: list[Header]
    ) -> int:
        written_at_ms = listing.timestamp_ms(version) or 0
        if not has_in_commit_timestamps(metadata) or not listing.has_commit(version):
            return written_at_ms
        commit_info = headers[0].commit_info if headers else None
        name = commit_name(version)
        if commit_info is None:
            # A checkpoint or a compaction, which keep no provenance, stood for the commit.
            text = self._reader.read(name)
            commit_info = read_header(text.data, location=text.location).commit_info
        return commit_timestamp_ms(metadata, commit_info, written_at_ms, location=self._reader.location(name))
