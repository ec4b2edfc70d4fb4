"""Versions that can be read from the files of a log (Delta protocol, "Checkpoints", "Metadata Cleanup")."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from floecat.delta.log.log_files import Checkpoint, LogFault, LogFile, commit_name, parse_log_files
from floecat.errors import InvalidDeltaTableError

__all__ = ["LogListing", "LogSegment"]

_MOST_NAMED: Final = 3
"""Most damaged files that a message names."""


@dataclass(frozen=True)
class LogSegment:
    """The files from which the state at a version is rebuilt.

    Attributes:
        version: the version.
        checkpoint: where to start, or None to start with an empty table.
        files: commits and log compactions to apply, oldest first.
    """

    version: int
    checkpoint: Checkpoint | None
    files: tuple[LogFile, ...]


class LogListing:
    """The files of a log: all of them, or those of the versions after a given one.

    A state can often be rebuilt from different files. `leave_out` excludes damaged files, and `segment` then
    returns the next best ones.

    Attributes:
        after: the version after which the listing starts, or None if it is complete.
        latest: the newest version; `after` if there is no newer one.
    """

    def __init__(self, files: Iterable[LogFile], *, location: str, after: int | None = None) -> None:
        """Takes the files.

        Args:
            files: those directly in the folder of the log, in any order.
            location: of the table, for messages.
            after: the version after which the listing starts. Its state is assumed to be known.

        Raises:
            InvalidDeltaTableError: a complete listing holds no version.
        """
        self._listed = {file.name: file for file in files}
        self._files = self._usable = parse_log_files(self._listed.values())
        self._left_out: dict[str, str] = {}
        self._location = location
        self.after = after
        newest = max([*self._files.commits, *self._files.checkpoints], default=after)
        if newest is None:
            raise InvalidDeltaTableError(f"There is no Delta log in {location}")
        self.latest = newest

    @cached_property
    def versions(self) -> tuple[int, ...]:
        """The versions whose state can be rebuilt, in order; after a version, from its state.

        Raises:
            InvalidDeltaTableError: the newest version is not among them, as a commit before it is missing.
        """
        known: list[int] = []
        for version in sorted({*self._files.commits, *self._files.checkpoints}):
            follows = (
                known[-1] == version - 1
                if known
                else version - 1 == (-1 if self.after is None else self.after)
            )
            if version in self._files.checkpoints or follows:
                known.append(version)
        if known[-1:] != [self.latest] and self.latest != self.after:
            self.segment(self.latest)
        return tuple(known)

    @cached_property
    def oldest(self) -> int:
        """The oldest version from which every later state can be rebuilt; `after` if there is none.

        Raises:
            InvalidDeltaTableError: the newest version cannot be read, as a commit before it is missing.
        """
        oldest = self.latest
        for version in reversed(self.versions):
            if version < oldest - 1 or (version < oldest and oldest not in self._files.commits):
                break
            oldest = version
        return oldest

    @property
    def fingerprint(self) -> str | None:
        """Identifies the file of the newest version; None if there is no version after `after`."""
        return self.fingerprint_of(self.latest)

    def fingerprint_of(self, version: int) -> str | None:
        """Identifies the file of a version: if it changes, the table was replaced.

        The file is the commit, or the checkpoint if the commit is gone; None without both.
        """
        file = self._file_of(version)
        return file.fingerprint if file else None

    def fingerprint_of_files(self, names: Sequence[str]) -> str:
        """Identifies several files: changes if one was replaced, added or deleted."""
        return "|".join(
            self._listed[name].fingerprint if name in self._listed else f"{name}:missing" for name in names
        )

    def still_there(self, faults: Iterable[LogFault]) -> tuple[LogFault, ...]:
        """The faults whose files have not changed since they were read."""
        return tuple(one for one in faults if self.fingerprint_of_files(one.names) == one.fingerprint)

    def leave_out(self, names: Sequence[str], message: str) -> bool:
        """Excludes damaged files from rebuilding states. They still count as versions.

        Args:
            names: the files.
            message: describes the damage.

        Returns:
            False if none of them was usable before.
        """
        usable = [name for name in names if name in self._listed and name not in self._left_out]
        self._left_out.update(dict.fromkeys(names, message))
        self._usable = parse_log_files(
            file for name, file in self._listed.items() if name not in self._left_out
        )
        return bool(usable)

    def without(self, names: Sequence[str]) -> LogListing:
        """The same log, with further files left out."""
        other = LogListing(self._listed.values(), location=self._location, after=self.after)
        for name, message in self._left_out.items():
            other.leave_out([name], message)
        other.leave_out(names, "")
        return other

    def derived(self, version: int) -> list[list[str]]:
        """Files that were made from commits and that the state at a version is rebuilt from.

        First its log compactions, then also its checkpoint; empty if it is rebuilt from commits alone or
        cannot be rebuilt.
        """
        try:
            segment = self.segment(version)
        except InvalidDeltaTableError:
            return []
        commits = {commit.name for commit in self._files.commits.values()}
        compactions = [file.name for file in segment.files if file.name not in commits]
        checkpoint = [file.name for file in segment.checkpoint.files] if segment.checkpoint else []
        return [names for names in (compactions, checkpoint and checkpoint + compactions) if names]

    def has_commit(self, version: int) -> bool:
        """Whether the log has the changes of a version."""
        return version in self._usable.commits

    def timestamp_ms(self, version: int) -> int | None:
        """The time when the file of a version was written, adjusted to be later than that of the one before.

        None if the listing has no such file.
        """
        if version in self._timestamps:
            return self._timestamps[version]
        file = self._file_of(version)
        return file.modified_at_ms if file else None

    def reaches(self, version: int) -> bool:
        """Whether it holds everything from which the state at a version is rebuilt."""
        return self.after is None or any(found <= version for found in self._usable.checkpoints)

    def needs(self, version: int) -> bool:
        """Whether the newest state is rebuilt from the files of a version."""
        return all(version >= checkpoint for checkpoint in self._usable.checkpoints)

    def segment(self, version: int) -> LogSegment:
        """The files from which the state at a version is rebuilt, from the newest complete checkpoint on.

        If the listing does not reach the version: the files to apply to the state at `after`.

        Raises:
            InvalidDeltaTableError: a commit that is needed is missing or damaged, or there is no such
                version.
        """
        if version > self.latest:
            raise InvalidDeltaTableError(
                f"Delta table {self._location} has no version {version}: its newest is {self.latest}"
            )
        if version < 0:
            raise InvalidDeltaTableError(self._gap(version, version))
        starts = sorted((found for found in self._usable.checkpoints if found <= version), reverse=True)
        first = -1 if self.after is None else self.after
        for start in [*starts, first]:
            replay = self._replay(start + 1, version)
            if replay is not None:
                return LogSegment(version, self._usable.checkpoints.get(start), tuple(replay))
        raise InvalidDeltaTableError(self._unreadable(version, [*starts, first][0]))

    def commits(self, after: int, until: int) -> tuple[LogFile, ...]:
        """The commits of a range of versions, in order.

        Args:
            after: the version before the first one.
            until: the last one.

        Raises:
            InvalidDeltaTableError: one is missing, or known to be damaged.
        """
        for version in range(after + 1, until + 1):
            if version not in self._usable.commits:
                raise InvalidDeltaTableError(
                    self._left_out.get(commit_name(version)) or self._gap(version, version)
                )
        return tuple(self._usable.commits[version] for version in range(after + 1, until + 1))

    def checkpoint(self, version: int) -> Checkpoint | None:
        """The complete checkpoint of a version, if it has one."""
        return self._usable.checkpoints.get(version)

    def checkpoint_from(self, version: int) -> int | None:
        """The first version from this one on that has a complete checkpoint."""
        return min((found for found in self._usable.checkpoints if found >= version), default=None)

    def _replay(self, first: int, last: int) -> list[LogFile] | None:
        """Commits in order; where compactions replace several of them, the longest one.

        None if a commit is missing, or is damaged and in no compaction.
        """
        ends = defaultdict(list)
        for start, end in self._usable.compactions:
            if start < end:
                ends[start].append(end)
        # the versions from which the last one can be reached
        leads = {last + 1}
        for version in range(last, first - 1, -1):
            if version not in self._files.commits:
                return None
            is_usable = version in self._usable.commits and version + 1 in leads
            if is_usable or any(end + 1 in leads for end in ends[version]):
                leads.add(version)
        if first not in leads:
            return None
        files = []
        while first <= last:
            end = max((end for end in ends[first] if end + 1 in leads), default=first)
            files.append(self._usable.compactions[first, end] if end > first else self._usable.commits[first])
            first = end + 1
        return files

    def _unreadable(self, version: int, start: int) -> str:
        """The reason why a state cannot be rebuilt: the damaged files, and the gap that they leave."""
        names = [name for name in self._left_out if name[:20].isdigit() and int(name[:20]) <= version]
        # commits first: nothing replaces them
        names.sort(key=lambda name: name != commit_name(int(name[:20])))
        reasons = list(dict.fromkeys(self._left_out[name] for name in names))[:_MOST_NAMED]
        missing = next(
            (each for each in range(start + 1, version + 1) if each not in self._files.commits), None
        )
        if missing is not None:
            reasons.append(self._gap(version, missing))
        return "; ".join(reasons)

    def _gap(self, version: int, missing: int) -> str:
        text = f"Version {missing} is missing in the log of Delta table {self._location}"
        if missing >= 0:
            text += f": version {version} cannot be read without {commit_name(missing)}"
        parts = [
            name
            for found, names in self._files.missing_parts.items()
            if missing <= found <= version
            for name in names
        ]
        return f"{text}; so is part {parts[-1]} of a checkpoint" if parts else text

    def _file_of(self, version: int) -> LogFile | None:
        commit = self._files.commits.get(version)
        if commit is not None:
            return commit
        checkpoint = self._files.checkpoints.get(version)
        return checkpoint.files[0] if checkpoint else None

    @cached_property
    def _timestamps(self) -> dict[int, int]:
        timestamps: dict[int, int] = {}
        previous = None
        for version in sorted(self._files.commits):
            modified_at_ms = self._files.commits[version].modified_at_ms
            previous = modified_at_ms if previous is None else max(modified_at_ms, previous + 1)
            timestamps[version] = previous
        return timestamps
