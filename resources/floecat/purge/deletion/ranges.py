"""The files of a large table, deleted by other processes in ranges of manifests.

The worker that holds the job reads the manifest lists, cuts the manifests into ranges, and gives the ranges
out in rounds: before each it checks the lease, and what live tables need. A range deletes the files of its
manifests and reports which manifests have none left; it stops by itself when its time is over, so that none
works on when the worker is gone. The worker then deletes manifests, lists and metadata itself, and the files
of the manifests that no range emptied.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

from floecat.errors import FloecatError
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds
from floecat.purge.deletion.deletions import Deletions
from floecat.purge.deletion.progress import PurgeProgress
from floecat.purge.sharing.kept_files import KeptFiles, KeptKeys
from floecat.purge.sharing.location_set import LocationSet, file_key
from floecat.purge.sharing.manifest_files import FileKind, ManifestReader
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["ManifestRange", "RangeResult", "RangeRunner", "Ranges", "delete_range"]

FILES_IN_RANGE: Final = 10_000
"""Files of a range, by the counts of the manifest lists; a larger manifest is a range of its own."""

MANIFESTS_IN_RANGE: Final = 500

_MOST_KEPT: Final = 100_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ManifestRange:
    """Manifests whose files are deleted in one go. Can be pickled, and then holds the keys of storage."""

    manifests: tuple[str, ...]
    storage: CatalogStorage
    kept: KeptKeys
    ends_at: float
    """Time after which nothing is deleted; Unix time in seconds."""
    files_per_call: int
    bounds: Bounds = DEFAULT_BOUNDS


@dataclass
class RangeResult:
    """The result of a range. Only a range that was emptied counts; another one is worked on once more."""

    progress: PurgeProgress
    emptied: list[str] = field(default_factory=list)
    """Manifests of the range, all of whose files are gone; none if any file is left."""
    error: str | None = None
    """Reason why files are left, if storage does not say it of single ones."""


class RangeRunner(Protocol):
    """Runs `delete_range` in other processes."""

    width: int
    """Ranges that run at a time."""

    def __call__(self, ranges: Sequence[ManifestRange], /) -> Sequence[RangeResult]:
        """Runs all of them, and returns when none runs any more."""
        ...


class _TimeOverError(Exception):
    """The time of a range is over."""


class Ranges:
    """Gives the manifests of one table out to other processes."""

    def __init__(
        self,
        storage: CatalogStorage,
        runner: RangeRunner,
        files_per_call: int,
        range_s: float,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        """Gives nothing out yet.

        Args:
            runner: runs ranges in other processes.
            files_per_call: files in one call to storage.
            range_s: how long a range may take.
            bounds: of manifests.
        """
        self._storage = storage
        self._runner = runner
        self._files_per_call = files_per_call
        self._range_s = range_s
        self._bounds = bounds

    def empty(
        self,
        manifests: Iterable[tuple[str, int]],
        kept: KeptFiles,
        before_batch: Callable[[], None],
        progress: PurgeProgress,
    ) -> set[bytes]:
        """Deletes the files of manifests, as far as that succeeds.

        Args:
            manifests: each with the number of its files.
            kept: files that live tables need; asked before each round.
            before_batch: called before each round; raises if the deletion must stop.
            progress: where files are counted.

        Returns:
            The manifests that have no files left, by `file_key`.
        """
        emptied: set[bytes] = set()
        ranges = _cut(manifests)
        while together := list(islice(ranges, self._runner.width)):
            started = time.monotonic()
            before_batch()
            with kept.batch():
                keys = kept.keys(_MOST_KEPT)
                if keys is None:
                    _log.info("live tables need too many of the files to tell other processes of them")
                    break
                results = self._run([self._range(range, keys) for range in together])
            for result in results:
                if result.error is not None:
                    _log.warning("a range of manifests was not emptied: %s", result.error)
                if result.emptied:
                    progress.add(result.progress)
                    emptied.update(map(file_key, result.emptied))
            progress.working_ms += int((time.monotonic() - started) * 1000)
        return emptied

    def _run(self, ranges: Sequence[ManifestRange]) -> Sequence[RangeResult]:
        try:
            return self._runner(ranges)
        except BaseException:
            # some may still be deleting, so the batch is under way until their time is over
            time.sleep(max(0.0, max(each.ends_at for each in ranges) - time.time()))
            raise

    def _range(self, manifests: tuple[str, ...], kept: KeptKeys) -> ManifestRange:
        ends_at = time.time() + self._range_s
        return ManifestRange(manifests, self._storage, kept, ends_at, self._files_per_call, self._bounds)


def delete_range(given: ManifestRange, now: Callable[[], float] = time.time) -> RangeResult:
    """Deletes the files of the manifests of a range, and no manifest. Can be repeated.

    Args:
        given: the range.
        now: Unix time in seconds.
    """

    def check() -> None:
        if now() >= given.ends_at:
            raise _TimeOverError

    result = RangeResult(PurgeProgress())
    reader = ManifestReader(given.storage, given.bounds)
    try:
        with (
            LocationSet() as seen,
            Deletions(
                given.storage,
                given.kept,
                batch_size=given.files_per_call,
                before_batch=check,
                progress=result.progress,
            ) as deletions,
        ):
            read: list[str] = []
            for manifest in given.manifests:
                check()
                for file in reader.files_of(manifest, None, seen):
                    if file.kind is FileKind.DATA:
                        deletions.add(file)
                    else:
                        read.append(manifest)
            deletions.flush()
    except _TimeOverError:
        result.error = "the time of the range is over"
    except FloecatError as error:
        result.error = error.message
    else:
        if result.progress.complete and not reader.unreadable:
            result.emptied = read
    return result


def _cut(manifests: Iterable[tuple[str, int]]) -> Iterator[tuple[str, ...]]:
    """Cuts manifests into ranges."""
    taken: list[str] = []
    files = 0
    for manifest, count in manifests:
        if taken and (files + count > FILES_IN_RANGE or len(taken) == MANIFESTS_IN_RANGE):
            yield tuple(taken)
            taken, files = [], 0
        taken.append(manifest)
        files += count
    if taken:
        yield tuple(taken)
