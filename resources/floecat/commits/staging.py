"""Staged tables: metadata that a client has been given and has not committed yet.

They are kept in the store with a time to live, so that any replica can complete them, and without secrets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256

import uuid_utils.compat as uuids

from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.iceberg.builder.metadata_builder import apply_updates
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.updates import AddSchema, RemoveProperties, TableUpdate
from floecat.identifiers.encoding import physical_name
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.database.engine import Connection, Store
from floecat.store.entries import staged_tables
from floecat.store.entries.documents import compress, decompress

__all__ = ["Staging"]

_SECRET = re.compile(
    "secret|token|passw|passphrase|credential|accesskey|accountkey|sharedkey|privatekey|apikey|ssekey"
    "|serviceaccountkey|connectionstring|sas"
)
_SEPARATORS = re.compile("[-_.]")
_LONGEST_KEY = 128


class Staging:
    """Keeps staged tables and finds them again."""

    def __init__(self, store: Store, clock: Clock, *, ttl_ms: int) -> None:
        self._store = store
        self._clock = clock
        self._ttl_ms = ttl_ms

    def keep(
        self,
        conn: Connection,
        call: Call,
        identifier: TableIdentifier,
        metadata: TableMetadata,
        stage_id: str | None,
    ) -> TableMetadata:
        """Keeps a staged table; the same stage id of the same caller returns what was kept first.

        Args:
            conn: a transaction.
            identifier: what the table will be called.
            metadata: what it will be created with.
            stage_id: the caller's name for this staging.

        Returns:
            The metadata that is staged under the id.
        """
        now_ms = self._clock.now_ms()
        row = staged_tables.StagedTableRow(
            id=uuids.uuid7(),
            catalog_id=call.catalog.id,
            namespace=physical_name(identifier.namespace),
            name=identifier.name,
            stage_id=_key(call, stage_id or str(uuids.uuid7())),
            principal=call.principal.name,
            body=compress(_without_secrets(metadata, now_ms).to_bytes()),
            created_at_ms=now_ms,
            expires_at_ms=now_ms + self._ttl_ms,
        )
        kept = staged_tables.insert(conn, row, now_ms)
        return metadata if kept.id == row.id else TableMetadata.parse(decompress(kept.body))

    def base_of(
        self, call: Call, identifier: TableIdentifier, updates: Sequence[TableUpdate], stage_id: str | None
    ) -> TableMetadata | None:
        """The staged table that updates complete, or `None` when they bring everything themselves.

        Clients send all of the metadata again with the commit. One that sends only what it changed since
        staging is completed from the store: by its stage id, or by name when only one is staged.
        """
        if any(isinstance(update, AddSchema) for update in updates):
            return None
        with self._store.read() as conn:
            rows = staged_tables.find(
                conn,
                call.catalog.id,
                physical_name(identifier.namespace),
                identifier.name,
                self._clock.now_ms(),
            )
        own = [row for row in rows if row.principal == call.principal.name]
        wanted = None if stage_id is None else _key(call, stage_id)
        chosen = [row for row in own if row.stage_id == wanted] or own
        return TableMetadata.parse(decompress(chosen[0].body)) if len(chosen) == 1 else None


def _key(call: Call, stage_id: str) -> str:
    """Stage ids are names that clients choose, of any length: each caller has its own."""
    key = f"{call.principal.name}/{stage_id}"
    return key if len(key.encode()) <= _LONGEST_KEY else sha256(key.encode()).hexdigest()


def _holds_secret(key: str) -> bool:
    return _SECRET.search(_SEPARATORS.sub("", key.lower())) is not None


def _without_secrets(metadata: TableMetadata, now_ms: int) -> TableMetadata:
    secrets = frozenset(key for key in metadata.properties if _holds_secret(key))
    if not secrets:
        return metadata
    removal = RemoveProperties(removals=secrets)
    return apply_updates(metadata, [removal], now_ms=now_ms, base_metadata_location=None).metadata
