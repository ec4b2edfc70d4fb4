"""Progress of a purge, kept in the row of its job, and shown to operators."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from floecat.store.jobs.jobs import JobRow

__all__ = ["MAX_FAILED_KEYS", "PROGRESS", "FailedKey", "PurgeProgress", "progress_of"]

MAX_FAILED_KEYS = 100
"""Most files whose failure a job names; it counts all of them."""

PROGRESS = "purge"
"""Name of a purge in the progress of a job."""


_NUMBERS = ("found", "deleted", "bytes", "shared", "outside", "gc_disabled", "failed", "waiting")


class FailedKey(msgspec.Struct, frozen=True):
    """A file that could not be deleted."""

    location: str
    reason: str
    """Reason in one sentence, without credentials."""


class PurgeProgress(msgspec.Struct):
    """Files by what became of them.

    `deleted`, `bytes` and `working_ms` are of all attempts, the rest is of the last one. A file counts again
    if a later attempt finds it again, as one beside a file that could not be deleted.
    """

    found: int = 0
    """Files reachable so far, those that were deleted before included."""
    deleted: int = 0
    """Files gone, whether or not they existed before."""
    bytes: int = 0
    """Size of the deleted files, as far as metadata tells it."""
    shared: int = 0
    """Files kept, because live tables need them."""
    outside: int = 0
    """Files kept, because they are outside the allowed locations."""
    gc_disabled: int = 0
    """Data files kept, because the table property `gc.enabled` is false."""
    failed: int = 0
    """Files that could not be deleted."""
    waiting: int = 0
    """Files kept, because something they lead to is still there."""
    working_ms: int = 0
    expected: int = 0
    """Files by the counts of the manifest lists, some of them several times; 0 before they are read."""
    offered_until_ms: int | None = None
    """A large table waits until then for Spark, or has waited; `None` for other tables."""
    server: str = ""
    """`host:pid` of the last process that worked on it."""
    note: str = ""
    """Reason why less than everything was deleted, if so."""
    failed_keys: list[FailedKey] = []
    """The first `MAX_FAILED_KEYS` of those that failed."""

    @property
    def kept(self) -> Mapping[str, int]:
        """Files that stay, by reason."""
        return {
            "shared": self.shared,
            "outside": self.outside,
            "gc-disabled": self.gc_disabled,
            "waiting": self.waiting,
        }

    @property
    def complete(self) -> bool:
        """Whether every file that may be deleted is gone."""
        return self.failed == 0 and self.waiting == 0

    @property
    def files_per_second(self) -> float:
        """Deleted files in a second of work."""
        return round(self.deleted * 1000 / self.working_ms, 1) if self.working_ms else 0.0

    @property
    def numbers(self) -> Mapping[str, int]:
        """Files by what became of them, and bytes, by name."""
        return {name: getattr(self, name) for name in _NUMBERS}

    def fail(self, location: str, reason: str) -> None:
        """Counts a file that could not be deleted."""
        self.failed += 1
        if len(self.failed_keys) < MAX_FAILED_KEYS:
            self.failed_keys.append(FailedKey(location, reason))

    def begin_again(self) -> None:
        """Forgets what another attempt finds again."""
        self.found = self.deleted
        self.shared = self.outside = self.gc_disabled = self.failed = self.waiting = 0
        self.note = ""
        self.failed_keys.clear()

    def add(self, other: PurgeProgress) -> None:
        """Counts what was done elsewhere."""
        self.found += other.found
        self.deleted += other.deleted
        self.bytes += other.bytes
        self.shared += other.shared
        self.outside += other.outside


def progress_of(row: JobRow) -> PurgeProgress:
    """The progress of a purge job."""
    return msgspec.json.decode(row.progress, type=_Stored).purge or PurgeProgress()


class _Stored(msgspec.Struct):
    purge: PurgeProgress | None = None
