"""Purge of a format whose code is imported when the first of its tables is purged."""

from __future__ import annotations

from collections.abc import Callable

from floecat.purge.targets import FormatPurge, PurgeReport, PurgeTarget

__all__ = ["DeferredPurge"]


class DeferredPurge:
    """A `FormatPurge` that is opened by its first use. Safe to share between threads."""

    def __init__(self, open_purge: Callable[[], FormatPurge]) -> None:
        """Opens nothing: `open_purge` makes the purge, and threads may call it at the same time."""
        self._open = open_purge

    def purge(self, target: PurgeTarget, before_batch: Callable[[], None], /) -> PurgeReport:
        """See `FormatPurge.purge`."""
        return self._open().purge(target, before_batch)
