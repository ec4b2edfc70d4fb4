"""The one way to write entries: metadata files first, then every pointer in one SQL transaction.

The files are written outside any transaction. If a pointer moved meanwhile, they are deleted and the change
is worked out again on the newest metadata. If the store does not say whether it committed, they are kept.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from floecat.auth.authorizer import Check
from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.entries.idempotency_keys import AnswerCodec, Claim, IdempotencyKeys
from floecat.entries.lookup import Document, Entries
from floecat.entries.metadata_files import MetadataFiles
from floecat.entries.overlaps import Overlaps
from floecat.entries.prepared_changes import (
    AnyPrepared,
    PointerMovedError,
    check_not_purged,
    compressed,
    write_rows,
)
from floecat.entries.purge_guard import PurgeGuard
from floecat.errors import CommitStateUnknownError, FloecatError, UnavailableError
from floecat.identifiers.namespace import TableIdentifier
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import DuplicateKeyError, ForeignKeyError
from floecat.store.entries import written_files

__all__ = ["EntryWrites", "Retries"]

A = TypeVar("A")

_log = logging.getLogger(__name__)

_WRITER_THREADS = 16
_OUTCOMES = ("committed", "retried", "gave_up", "unknown")
_FAILS_SOON_S = 2.0
_MOST_OBSOLETE: Final = 1000
"""A commit drops one file, or some when the log is made shorter; a registered log may hold any number."""


class Retries(msgspec.Struct, frozen=True):
    """The attempts of a commit that is worked out again, and the sleep in between."""

    max_attempts: int
    initial_sleep_ms: int
    max_sleep_ms: int

    def sleep(self, attempt: int) -> None:
        """Sleeps before the next attempt: doubling, with jitter, so that writers do not retry in lockstep."""
        bound_ms = min(self.initial_sleep_ms * 2**attempt, self.max_sleep_ms)
        time.sleep(random.uniform(bound_ms / 2, bound_ms) / 1000)  # noqa: S311 - jitter


class EntryWrites:
    """Makes prepared changes of entries, all or none."""

    def __init__(
        self,
        store: Store,
        guard: PurgeGuard,
        keys: IdempotencyKeys,
        entries: Entries,
        files: MetadataFiles,
        storages: CatalogStorages,
        overlaps: Overlaps,
        clock: Clock,
        retries: Retries,
    ) -> None:
        self._store = store
        self._guard = guard
        self._keys = keys
        self._entries = entries
        self._files = files
        self._storages = storages
        self._overlaps = overlaps
        self._clock = clock
        self._retries = retries
        self._locks = _EntryLocks()
        self._outcomes = dict.fromkeys(_OUTCOMES, 0)
        self._counting = Lock()
        # its threads start with the first transaction that writes more than one file
        self._writers = ThreadPoolExecutor(_WRITER_THREADS, thread_name_prefix="metadata-writer")

    @property
    def outcomes(self) -> Mapping[str, int]:
        """The number of commits in this process, by outcome.

        `committed`; `retried` (worked out again, as another one was faster; such a commit counts again at its
        end); `gave_up` after too many retries; `unknown` if the store did not say.
        """
        with self._counting:
            return dict(self._outcomes)

    def apply(
        self,
        call: Call,
        identifiers: Sequence[TableIdentifier],
        prepare: Callable[[], Sequence[AnyPrepared]],
        render: Callable[[Sequence[AnyPrepared]], A],
        codec: AnswerCodec[A],
        *needed: Check,
    ) -> A:
        """Prepares and makes changes until no pointer moves in between, once per idempotency key.

        Args:
            identifiers: the entries that are changed.
            prepare: works the changes out on the newest metadata; raises when a requirement fails on it.
            render: the answer to changes that are made.
            codec: how the answer is stored for replay.
            needed: see `IdempotencyKeys.claim`.

        Raises:
            CommitStateUnknownError: the changes may have been made.
            UnavailableError: store or storage is unavailable, or too many others change the
                entries; nothing was changed.
            FloecatError: what `prepare` raises; nothing was changed.
        """
        while True:
            claim = self._keys.claim(call, codec, *needed)
            if claim.is_replay:
                return claim.replay()
            with claim, self._locks.hold(call.catalog.id, identifiers):
                for attempt in range(self._retries.max_attempts):
                    changes = prepare()
                    answer = render(changes)
                    changed = [change for change in changes if change.changed]
                    if not changed and call.request is None:
                        return answer
                    written = self._write_files(call, changed)
                    if self._commit(call, changes, changed, written, claim, answer):
                        self._count("committed")
                        self._after_commit(call, changed)
                        return answer
                    self._count("retried")
                    self._retries.sleep(attempt)
                self._count("gave_up")
                names = ", ".join(str(identifier) for identifier in identifiers[:3])
                raise UnavailableError(
                    f"Too many concurrent commits on {names} (floecat.gateway.commit.replan.max-attempts);"
                    " nothing was changed"
                )

    def _count(self, outcome: str) -> None:
        with self._counting:
            self._outcomes[outcome] += 1

    def _write_files(self, call: Call, changed: Sequence[AnyPrepared]) -> list[str]:
        """Writes the metadata files, in parallel, and returns their locations; on a failure none stays.

        Storage that took long to fail is not asked to delete: what it wrote after all is left for the orphan
        job.
        """
        started_s = time.monotonic()
        writes = [change for change in changed if change.writes_file]
        storage = call.catalog.storage

        def write(change: AnyPrepared) -> FloecatError | None:
            try:
                self._files.write(storage, change.metadata_location, change.metadata)
            except FloecatError as error:
                return error
            return None

        locations = [change.metadata_location for change in writes]
        outcomes = list(map(write, writes) if len(writes) == 1 else self._writers.map(write, writes))
        failures = [failure for failure in outcomes if failure is not None]
        if failures:
            if time.monotonic() - started_s < _FAILS_SOON_S:
                self._delete_files(call, locations)
            raise failures[0]
        return locations

    def _commit(
        self,
        call: Call,
        changes: Sequence[AnyPrepared],
        changed: Sequence[AnyPrepared],
        written: Sequence[str],
        claim: Claim[A],
        answer: A,
    ) -> bool:
        """The SQL transaction; `False` when a pointer moved. Deletes the files of a commit that failed."""
        # compressed here, so that the transaction holds its locks only for as long as SQL takes
        rows = [(change, compressed(change) if change.changed else None) for change in changes]

        def work(conn: Connection, transaction_id: UUID) -> bool:
            claim.keep(conn, answer)
            purging = write_rows(
                conn,
                call.catalog.id,
                call.principal.name,
                rows,
                self._clock.now_ms(),
                transaction_id,
                call.owner,
            )
            for change in changes:
                if change.operation == "register" and change.kind == "table":
                    check_not_purged(conn, self._storages, call.catalog, change)
            new = {change.state.id: change.folders for change in changes}
            self._overlaps.check(conn, call.catalog, new)
            return purging

        try:
            self._guard.run(call.catalog.id, changed, work)
        except (PointerMovedError, DuplicateKeyError, ForeignKeyError):
            self._delete_files(call, written)
            return False
        except CommitStateUnknownError:
            # if no pointer was to change, it does not matter whether the transaction was committed
            if changed:
                self._count("unknown")
                raise
        except Exception:  # not an interruption, which may come after the COMMIT
            self._delete_files(call, written)
            raise
        return True

    def _after_commit(self, call: Call, changed: Sequence[AnyPrepared]) -> None:
        """Keeps the new documents in memory and deletes files that fell out of the metadata log."""
        for change in changed:
            document: Document[Any] = Document.of(change.metadata)
            self._entries.remember(call.catalog, change.identifier, change.state, document)
            if change.obsolete_files:
                try:
                    self._files.delete_many(call.catalog.storage, _deletable_files(self._store, change))
                except FloecatError as error:  # the commit is made: nothing here may fail it
                    _log.warning("metadata files of %s were left: %s", change.identifier, error.message)

    def _delete_files(self, call: Call, locations: Sequence[str]) -> None:
        """Deletes files that no pointer names; what cannot be deleted is left for the orphan job."""
        for location in locations:
            try:
                self._files.delete(call.catalog.storage, location)
            except FloecatError as error:
                _log.warning("could not delete unreferenced metadata file %s: %s", location, error.message)


def _deletable_files(store: Store, change: AnyPrepared) -> list[str]:
    """The obsolete files of a change that surely belong to this table alone.

    What a log names comes from clients, by registration, and may be any file. The others are left to the
    orphan job.

    Args:
        store: knows who wrote a file, and what is current.
        change: a change that has been made.

    Raises:
        StoreUnavailableError: the store is away.
    """
    if not change.obsolete_files or change.base is None:
        return []
    newest = change.obsolete_files[-_MOST_OBSOLETE:]
    with store.read() as conn:
        return written_files.unneeded(conn, change.base.id, change.object_uuid, newest)


class _EntryLocks:
    """Locks by name, striped: commits on one entry take turns inside a process.

    So they rarely lose a compare-and-set to each other. Correctness does not depend on it: other processes
    commit to the same store, and the store decides.
    """

    def __init__(self, stripes: int = 1024, timeout_s: float = 10.0) -> None:
        """Takes how many locks there are, and how long a commit waits for its turn before it just tries."""
        self._locks = [Lock() for _ in range(stripes)]
        self._timeout_s = timeout_s

    def hold(self, catalog_id: UUID, identifiers: Iterable[TableIdentifier]) -> _HeldLocks:
        """Holds the locks of all names, taken in one order over all threads."""
        number = len(self._locks)
        stripes = {hash((catalog_id.int, identifier)) % number for identifier in identifiers}
        return _HeldLocks([self._locks[stripe] for stripe in sorted(stripes)], self._timeout_s)


class _HeldLocks:
    """Locks while they are held; one that another thread keeps for too long is done without."""

    def __init__(self, locks: Sequence[Lock], timeout_s: float) -> None:
        self._locks = locks
        self._timeout_s = timeout_s
        self._held: list[Lock] = []

    def __enter__(self) -> None:
        deadline = time.monotonic() + self._timeout_s
        for lock in self._locks:
            if lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
                self._held.append(lock)

    def __exit__(self, *_: object) -> None:
        for lock in self._held:
            lock.release()
