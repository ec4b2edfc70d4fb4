"""The commit: metadata files first, then every pointer in one SQL transaction.

The files are written outside any transaction. If a pointer moved meanwhile, they are deleted and the change
is worked out again on the newest metadata. If the store does not say whether it committed, they are kept.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import msgspec

from floecat.catalog.calls import Call
from floecat.catalog.documents import Document
from floecat.catalog.entries import Entries
from floecat.catalog.metadata_files import MetadataFiles
from floecat.clock import Clock
from floecat.errors import CommitStateUnknownError, FloecatError, UnavailableError
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.confirmation import ConfirmedTransactions
from floecat.store.engine import Connection, Store
from floecat.store.errors import DuplicateKeyError, ForeignKeyError
from floecat.transactions.locks import EntryLocks
from floecat.transactions.obsolete_files import deletable_files
from floecat.transactions.prepared import AnyPrepared
from floecat.transactions.rows import PointerMovedError, compressed, write_rows

__all__ = ["PointerSwaps", "Retries"]

_log = logging.getLogger(__name__)

_FAILS_SOON_S = 2.0


class Retries(msgspec.Struct, frozen=True):
    """How often a commit is worked out again, and how long it sleeps in between."""

    max_attempts: int
    initial_sleep_ms: int
    max_sleep_ms: int

    def sleep(self, attempt: int) -> None:
        """Sleeps before the next attempt: doubling, with jitter, so that writers do not march in step."""
        bound_ms = min(self.initial_sleep_ms * 2**attempt, self.max_sleep_ms)
        time.sleep(random.uniform(bound_ms / 2, bound_ms) / 1000)  # noqa: S311 - jitter


class PointerSwaps:
    """Makes prepared changes, all or none."""

    def __init__(
        self,
        store: Store,
        transactions: ConfirmedTransactions,
        entries: Entries,
        files: MetadataFiles,
        clock: Clock,
        retries: Retries,
    ) -> None:
        """Takes the store, storage and how persistent a commit is."""
        self._store = store
        self._transactions = transactions
        self._entries = entries
        self._files = files
        self._clock = clock
        self._retries = retries
        self._locks = EntryLocks()
        # threads come with the first transaction that writes more than one file
        self._writers = ThreadPoolExecutor(max_workers=16, thread_name_prefix="metadata-writer")

    def run(
        self,
        call: Call,
        identifiers: Sequence[TableIdentifier],
        prepare: Callable[[], Sequence[AnyPrepared]],
        finish: Callable[[Connection, Sequence[AnyPrepared]], None],
    ) -> Sequence[AnyPrepared]:
        """Prepares and makes changes until no pointer moves in between.

        Args:
            call: who asks.
            identifiers: the entries that are changed.
            prepare: works the changes out on the newest metadata; raises when a requirement fails on it.
            finish: called as the last thing inside the transaction; also when there is nothing to change.

        Raises:
            CommitStateUnknownError: the changes may have been made.
            UnavailableError: the store or storage is away, or the entries are contended; nothing was changed.
            FloecatError: what `prepare` raises; nothing was changed.
        """
        with self._locks.hold(call.catalog.id, identifiers):
            prepared = self._run(call, prepare, finish)
        if prepared is not None:
            for change in prepared:
                self._delete_obsolete(call, change)
            return prepared
        names = ", ".join(str(identifier) for identifier in identifiers[:3])
        raise UnavailableError(f"Too many concurrent commits on {names}; nothing was changed")

    def _run(
        self,
        call: Call,
        prepare: Callable[[], Sequence[AnyPrepared]],
        finish: Callable[[Connection, Sequence[AnyPrepared]], None],
    ) -> Sequence[AnyPrepared] | None:
        """Tries a bounded number of times; `None` when a pointer moved each time."""
        for attempt in range(self._retries.max_attempts):
            prepared = prepare()
            changed = [change for change in prepared if change.changed]
            if not changed and call.request is None:
                return prepared
            if self._attempt(call, prepared, changed, finish):
                for change in changed:
                    self._remember(call, change)
                return prepared
            self._retries.sleep(attempt)
        return None

    def _attempt(
        self,
        call: Call,
        prepared: Sequence[AnyPrepared],
        changed: Sequence[AnyPrepared],
        finish: Callable[[Connection, Sequence[AnyPrepared]], None],
    ) -> bool:
        """One try; `False` when a pointer moved."""
        written = self._write_files(call, changed)

        # compressed here, so that the transaction holds its locks only for as long as SQL takes
        rows = [(change, compressed(change) if change.changed else None) for change in prepared]

        def apply(conn: Connection, transaction_id: UUID) -> None:
            write_rows(conn, call, rows, self._clock.now_ms(), transaction_id)
            finish(conn, prepared)

        try:
            self._transactions.run(call.catalog.id, apply)
        except (PointerMovedError, DuplicateKeyError, ForeignKeyError):
            self._delete_files(call, written)
            return False
        except CommitStateUnknownError:
            # with nothing to change there is nothing that could be half known
            if changed:
                raise
        except BaseException:
            self._delete_files(call, written)
            raise
        return True

    def _write_files(self, call: Call, changed: Sequence[AnyPrepared]) -> list[str]:
        """Writes the metadata files, in parallel, and returns their locations; on a failure none stays.

        Storage that took long to fail is away, and is not asked to delete: what it has written after all is
        left for the orphan job.
        """
        started_s = time.monotonic()
        writes = [change for change in changed if change.writes_file]
        allowed = call.catalog.allowed

        def write(change: AnyPrepared) -> None:
            self._files.write(allowed, change.metadata_location, change.metadata)

        locations = [change.metadata_location for change in writes]
        if len(writes) == 1:
            outcomes = [_outcome(write, writes[0])]
        else:
            outcomes = list(self._writers.map(lambda change: _outcome(write, change), writes))
        failures = [failure for failure in outcomes if failure is not None]
        if failures:
            if time.monotonic() - started_s < _FAILS_SOON_S:
                self._delete_files(call, locations)
            raise failures[0]
        return locations

    def _delete_files(self, call: Call, locations: Sequence[str]) -> None:
        """Deletes files that no pointer names; what cannot be deleted is left for the orphan job."""
        for location in locations:
            try:
                self._files.delete(call.catalog.allowed, location)
            except FloecatError as error:
                _log.warning("could not delete unreferenced metadata file %s: %s", location, error.message)

    def _remember(self, call: Call, change: AnyPrepared) -> None:
        metadata = change.metadata
        document: Document[Any] = Document.of(metadata)
        self._entries.remember(call.catalog, change.identifier, change.state, document)

    def _delete_obsolete(self, call: Call, change: AnyPrepared) -> None:
        """Deletes what fell out of the metadata log. The commit is made: nothing here may fail it."""
        if not change.obsolete_files:
            return
        try:
            self._files.delete_many(call.catalog.allowed, deletable_files(self._store, change))
        except FloecatError as error:
            _log.warning("metadata files of %s were left: %s", change.identifier, error.message)


def _outcome(write: Callable[[AnyPrepared], None], change: AnyPrepared) -> FloecatError | None:
    try:
        write(change)
    except FloecatError as error:
        return error
    return None
