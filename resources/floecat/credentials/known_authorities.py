"""The authorities of each account, in memory for as long as the access of the account does not change.

Whatever changes an authority counts the version of its account's access, which the statement that confirms a
table returns: so a change holds for the next request of any process.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Final
from uuid import UUID

import msgspec

from floecat.credentials.authorities import KeyMethod, StorageAuthority
from floecat.fileio.locations import normalize_location
from floecat.store.catalogs import accounts, storage_authorities
from floecat.store.catalogs.storage_authorities import AuthorityRow
from floecat.store.database.engine import Connection, Store

__all__ = ["KnownAuthorities", "read_authority"]

_method: Final = msgspec.json.Decoder(KeyMethod)


class KnownAuthorities:
    """Reads the authorities of an account once for each version of its access. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[UUID, tuple[int, tuple[StorageAuthority, ...]]] = {}

    def in_memory(self, account_id: UUID, access_version: int) -> tuple[StorageAuthority, ...] | None:
        """The authorities of an account at a version of its access; None if they have to be read."""
        known = self._known.get(account_id)
        return known[1] if known is not None and known[0] == access_version else None

    def read_version(self, account_id: UUID) -> int:
        """The version of the access of an account now."""
        with self._store.read() as conn:
            return accounts.version(conn, account_id) or 0

    def of(
        self, account_id: UUID, access_version: int, conn: Connection | None = None
    ) -> tuple[StorageAuthority, ...]:
        """The authorities of an account at a version of its access, or later.

        Args:
            conn: reads them, if they have to be read; by default a connection of the store.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        found = self.in_memory(account_id, access_version)
        if found is None:
            with self._store.read() if conn is None else nullcontext(conn) as reading:
                found = tuple(map(read_authority, storage_authorities.of_account(reading, account_id)))
            # what was read may be newer than the version: then it is read again with the next one
            self._known[account_id] = access_version, found
        return found


def read_authority(row: AuthorityRow) -> StorageAuthority:
    """An authority of a row."""
    return StorageAuthority(
        row.id,
        row.account_id,
        row.name,
        normalize_location(row.prefix),
        _method.decode(row.method),
        row.enabled,
        row.secrets,
        row.version,
        row.created_at_ms,
        row.updated_at_ms,
    )
