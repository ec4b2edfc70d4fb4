"""Purge of a format whose code is imported when the first of its tables is purged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from floecat.purge.targets import FormatPurge, PurgeReport, PurgeTarget

__all__ = ["DeferredPurge"]


class DeferredPurge:
    """A `FormatPurge` that is opened by its first use. Safe to share between threads."""

    def __init__(self, locations: Sequence[str], open_purge: Callable[[], FormatPurge]) -> None:
        """Takes what is known before.

        Args:
            locations: where files of such tables may be, beside the locations of their catalog.
            open_purge: makes the purge; threads may call it at the same time.
        """
        self.locations = locations
        self._open = open_purge

    def purge(self, target: PurgeTarget, before_batch: Callable[[], None], /) -> PurgeReport:
        """See `FormatPurge.purge`."""
        return self._open().purge(target, before_batch)
