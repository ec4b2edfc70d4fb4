"""What a purger is: the part of a purge that can be replaced (`floecat.purge.purger`).

A drop with purge removes the table and inserts a row for the purge in one transaction. The row names the
purger. `sql-async` is then called by workers, every other purger at once, on the thread of the request and
after COMMIT. If a purger raises, the table stays dropped, and a worker calls the same purger again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol
from uuid import UUID

import msgspec

from floecat.events.table_events import TableEvent
from floecat.identifiers.namespace import TableIdentifier
from floecat.purge.progress import PurgeProgress
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.documents import decompress
from floecat.store.job_claims import Lease

__all__ = ["PurgeRequest", "Purger", "PurgerContext"]


class PurgeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A dropped table whose files are to be deleted."""

    job_id: UUID
    attempt: int
    """From 1; every further one means that the one before ended early, and may have done some of the work."""
    account_id: UUID
    catalog_id: UUID
    catalog: str
    """Name of the catalog; empty in a request that an earlier version wrote."""
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
    """Who dropped the table; had the privileges for it."""
    request_id: str | None
    requested_at_ms: int
    progress: PurgeProgress
    """What the purger counts here is stored with the row, and shown to operators."""
    lease: Lease
    """Names the claim of the row."""
    check: Callable[[], None]
    """To be called before each step that cannot be undone; raises if the work must stop, as when another
    worker holds the row. Renews nothing: that happens in the background."""
    attachment: Callable[[], bytes | None]
    """Reads the metadata as of the drop, compressed as the store keeps it."""

    def metadata(self) -> bytes | None:
        """The metadata document as of the drop, JSON; `None` if the table had none."""
        stored = self.attachment()
        return None if stored is None else decompress(stored)


class PurgerContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a purger may use of the process that it runs in."""

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
        """Called once, before the first request.

        Args:
            properties: `floecat.purge.properties`.
            context: what it may use.
        """
        ...

    def purge_table(self, request: PurgeRequest, /) -> None:
        """Deletes the files of a table, or takes over to see to it.

        The row of the request is done when this returns, and tried again later if it raises. Whatever it
        deletes, it must be able to do so again, in part or whole.
        """
        ...

    def name(self) -> str:
        """What rows call it."""
        ...

    def close(self) -> None:
        """Called once, when the process ends."""
        ...
