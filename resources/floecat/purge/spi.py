"""Purgers: the part of a purge that can be replaced (`floecat.purge.purger`).

A drop with purge removes the table and inserts a row for the purge in one transaction. The row names the
purger. `sql-async` is then called by workers, every other purger at once, on the thread of the request and
after COMMIT. If a purger raises, the table stays dropped, and a worker calls the same purger again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol
from uuid import UUID

import msgspec

from floecat.errors import BadRequestError
from floecat.events.table_events import TableEvent
from floecat.identifiers.namespace import TableIdentifier
from floecat.purge.deletion.progress import PurgeProgress
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.database.engine import Connection, Store
from floecat.store.entries.documents import decompress
from floecat.store.jobs import job_claims, purger_rows
from floecat.store.jobs.job_claims import Lease
from floecat.store.jobs.leases import LeaseLostError

__all__ = ["PurgeRequest", "Purger", "PurgerContext", "PurgerRows"]

_KEY_BYTES: Final = 256
_PAGE: Final = 100


class PurgerRows:
    """Rows of a purger, for one purge: bytes by key, in the store of the catalog. They go with the job.

    Each change is a transaction: what was put is there for the next attempt, in any process. Other purges
    have rows of their own.
    """

    def __init__(self, store: Store, lease: Lease, most_bytes: int) -> None:
        """Opens the rows of a job.

        Args:
            store: holds them.
            lease: under which they may be changed.
            most_bytes: of all rows of the job; each counts with 256 bytes more than its value.
        """
        self._store = store
        self._lease = lease
        self._most_bytes = most_bytes

    def get(self, key: str) -> bytes | None:
        """The value of a key; `None` if there is none."""
        with self._store.read() as conn:
            return purger_rows.get(conn, self._lease.job_id, key)

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Yields keys and values, in the order of the keys' bytes."""
        after = ""
        while True:
            with self._store.read() as conn:
                found = purger_rows.page(conn, self._lease.job_id, after, _PAGE)
            yield from found
            if len(found) < _PAGE:
                return
            after = found[-1][0]

    def put(self, key: str, value: bytes) -> None:
        """Stores a value, in place of the one before.

        Raises:
            BadRequestError: the key is empty, not text, or has more than 256 bytes; or the rows would be too
                large (`floecat.purge.purger-rows-bytes`).
            LeaseLostError: the purge is another worker's, or is to be cancelled.
            StoreUnavailableError: the store fails.
        """
        try:
            size = len(key.encode())
        except UnicodeEncodeError:  # half of a pair of UTF-16
            size = 0
        if not 0 < size <= _KEY_BYTES or "\0" in key:
            raise BadRequestError(f"The key of a purger's row must be a text of 1 to {_KEY_BYTES} bytes")

        def work(conn: Connection) -> None:
            # under the lock of the job, so that no other put is between the look at the size and this one
            self._hold(conn)
            others = purger_rows.size_bytes(conn, self._lease.job_id, key, _KEY_BYTES)
            if others + _KEY_BYTES + len(value) > self._most_bytes:
                raise BadRequestError(
                    f"The rows of a purger would have more than {self._most_bytes} bytes"
                    " (floecat.purge.purger-rows-bytes)"
                )
            purger_rows.put(conn, self._lease.job_id, key, value)

        self._store.run(work)

    def delete(self, key: str) -> None:
        """Deletes a key; one that is missing is fine.

        Raises:
            LeaseLostError: the purge is another worker's, or is to be cancelled.
            StoreUnavailableError: the store fails.
        """

        def work(conn: Connection) -> None:
            self._hold(conn)
            purger_rows.delete(conn, self._lease.job_id, key)

        self._store.run(work)

    def _hold(self, conn: Connection) -> None:
        if not job_claims.is_held(conn, self._lease):
            raise LeaseLostError


class PurgeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A dropped table whose files are to be deleted."""

    job_id: UUID
    attempt: int
    """Attempts, from 1; a further one means that the one before ended early, and may have done some work."""
    account_id: UUID
    catalog_id: UUID
    catalog: str
    """Name of the catalog."""
    identifier: TableIdentifier
    """The former name. Another table may have it by now."""
    entry_id: UUID
    table_uuid: str
    location: str
    metadata_location: str
    """Root of what is reachable."""
    format: str
    """`iceberg`, `delta`."""
    principal: str
    """Principal that dropped the table; had the privileges for it."""
    request_id: str | None
    requested_at_ms: int
    progress: PurgeProgress
    """The counts of the purger, stored with the row, and shown to operators."""
    lease: Lease
    """Names the claim of the row."""
    check: Callable[[], None]
    """To be called before each step that cannot be undone; raises if the work must stop, as when another
    worker holds the row. Renews nothing: that happens in the background."""
    rows: PurgerRows
    """Storage for state that the purger needs at the next attempt."""
    attachment: Callable[[], bytes | None]
    """Reads the metadata as of the drop, compressed as the store keeps it."""

    def metadata(self) -> bytes | None:
        """The metadata document as of the drop, JSON; `None` if the table had none."""
        stored = self.attachment()
        return None if stored is None else decompress(stored)


class PurgerContext(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of its process that a purger may use."""

    server_identity: str
    """`host:pid`."""
    storage: Callable[[UUID], CatalogStorage]
    """The storage of a catalog by its id, with the keys as they are now. Keys are never in a row: ask at each
    request, and again if storage refuses access. Raises `LocationNotAllowedError` if the catalog is gone."""
    emit: Callable[[TableEvent], None]
    """Calls the listeners. Start, completion and failure of a purge are reported without it."""


class Purger(Protocol):
    """Deletes the files of dropped tables, or has them deleted. Shared by threads."""

    def initialize(self, properties: Mapping[str, str], context: PurgerContext, /) -> None:
        """Prepares the purger; called once, before the first request.

        Args:
            properties: `floecat.purge.properties`.
            context: what it may use.
        """
        ...

    def purge_table(self, request: PurgeRequest, /) -> None:
        """Deletes a table's files, or accepts responsibility for deleting them.

        The row of the request is done when this returns, and tried again later if it raises. Whatever it
        deletes, it must be able to do so again, in part or whole.
        """
        ...

    def name(self) -> str:
        """The name of the purger in rows."""
        ...

    def close(self) -> None:
        """Closes the purger; called once, when the process ends."""
        ...
