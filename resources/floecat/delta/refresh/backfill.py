"""Versions that the log still has, and the entry has not: added in parts, oldest first."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from floecat.delta.refresh.build import Build
from floecat.delta.refresh.iceberg_document import TableDocument
from floecat.delta.refresh.metadata_history import History
from floecat.delta.refresh.version_builder import Point, build_versions

__all__ = ["PART_VERSIONS", "Backfill", "Progress"]

PART_VERSIONS = 100
_PART_S = 5.0
"""A part of a backfill ends after so many versions or seconds, and is published.

What is made is not lost when the work is stopped, and loads that meet a newer version get in between.
"""

Progress = Callable[[int, int], None]
"""Told how many versions are done, of how many."""


@dataclass
class Backfill:
    """A backfill that is going on.

    Attributes:
        generation: of the names under which the parts were made; None before the first.
        history: every metadata of the log, which is read once.
        tried: versions that need not be tried again.
        last: the version that the last part ended with, from which the next one can be made.
        changed: whether the entry changed.
    """

    generation: int | None = None
    history: History | None = None
    tried: set[int] = field(default_factory=set)
    last: Point | None = None
    changed: bool = False

    def resume(self, generation: int) -> None:
        """Forgets what was made, if that was under other names."""
        if self.generation != generation:
            self.generation, self.history, self.tried, self.last = generation, None, set(), None

    def missing(
        self, document: TableDocument, versions: Sequence[int], newest: int, left_out: Collection[int]
    ) -> Sequence[int]:
        """Takes versions that the log has no more out of a document, and returns those to add.

        Args:
            document: the document.
            versions: versions of the log.
            newest: the newest snapshot; it stays. Versions after it come with the next refresh.
            left_out: versions that are not added.
        """
        held = set(document.versions)
        document.remove(held - set(versions) - {newest})
        others = held.union(self.tried, left_out)
        return [version for version in versions if version < newest and version not in others]

    def build_part(self, build: Build, missing: Sequence[int], progress: Progress) -> bool:
        """Adds some of the missing versions; returns whether there are more."""
        tried_before = len(self.tried)
        ends_at = time.monotonic() + _PART_S
        done = 0
        for version in missing[:PART_VERSIONS]:
            progress(tried_before + done, tried_before + len(missing))
            self.last = build_versions(build.builder, [version], self.last, must_have=None)
            self.tried.add(version)
            done += 1
            if time.monotonic() > ends_at:
                break
        progress(tried_before + done, tried_before + len(missing))
        return done < len(missing)
