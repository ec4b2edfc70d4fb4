"""Index artifacts: files that index one data file of a snapshot, as page-index sidecars of Parquet files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import Enum
from typing import Final, TypeAlias

import msgspec

from floecat.clock import Clock
from floecat.entries.calls import Call, Page, PageRequest
from floecat.entries.idempotency_keys import Finish, IdempotencyKeys, JsonAnswer
from floecat.errors import BadRequestError, IllegalArgumentError, NotFoundError
from floecat.identifiers.namespace import TableIdentifier
from floecat.statistics.records import FileTarget, check_numbers, target_storage_id
from floecat.statistics.snapshots import ALL, Snapshots, size_of
from floecat.statistics.target_statistics import MOST_RECORDS, put_rows
from floecat.store import page_tokens
from floecat.store.database.engine import Store
from floecat.store.record_pages import fetch_records
from floecat.store.statistics.snapshot_records import INDEX_ARTIFACTS, RecordRow
from floecat.working_memory import take_memory

__all__ = [
    "ArtifactState",
    "IndexArtifact",
    "IndexArtifacts",
    "IndexCoverage",
    "artifact_of",
    "artifact_row",
]


class ArtifactState(Enum):
    """The state of an artifact."""

    PENDING = "pending"
    READY = "ready"
    FAILED = "failed"
    DELETED = "deleted"


class IndexCoverage(
    msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True
):
    """The rows, pages and bytes that an artifact covers; None is unknown."""

    rows_indexed: int | None = None
    live_rows_indexed: int | None = None
    pages_indexed: int | None = None
    row_groups_indexed: int | None = None
    bytes_scanned: int | None = None
    properties: dict[str, str] = {}


class IndexArtifact(
    msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, forbid_unknown_fields=True
):
    """An artifact (`IndexArtifactRecord` of the RPC contract). Times in ms since the epoch."""

    target: FileTarget
    """The data file."""
    artifact_uri: str
    artifact_format: str = "parquet"
    artifact_format_version: int = 1
    content_etag: str = ""
    """SHA-256 of the content, in hexadecimal digits."""
    content_sha256_b64: str = ""
    state: ArtifactState = ArtifactState.READY
    created_at_ms: int = 0
    refreshed_at_ms: int = 0
    coverage: IndexCoverage = IndexCoverage()
    source_file_format: str | None = None
    source_schema_id: str | None = None
    field_ids: tuple[int, ...] = ()
    properties: dict[str, str] = {}


_Artifacts: TypeAlias = Page[IndexArtifact]


class IndexArtifacts:
    """Puts, gets and lists index artifacts. Safe to share between threads."""

    def __init__(self, store: Store, clock: Clock, keys: IdempotencyKeys, snapshots: Snapshots) -> None:
        self._store = store
        self._clock = clock
        self._keys = keys
        self._snapshots = snapshots

    def put(
        self,
        call: Call,
        identifier: TableIdentifier,
        snapshot: str | None,
        artifacts: Sequence[IndexArtifact],
    ) -> int:
        """Puts artifacts of one snapshot, each in place of the one of its data file; all or none.

        Returns:
            How many data files they are of.

        Raises:
            ForbiddenError: the principal may not write the table.
            NoSuchTableError: the table does not exist.
            NotFoundError: it has no such snapshot.
            BadRequestError: there are too many artifacts.
            IllegalArgumentError: an artifact names no file.
        """
        if len(artifacts) > MOST_RECORDS:
            raise BadRequestError(f"Too many artifacts: send at most {MOST_RECORDS:,} in one request")

        def work(finish: Finish[int]) -> int:
            found = self._snapshots.write(call, identifier, snapshot)
            for artifact in artifacts:
                call.catalog.allowed.check(artifact.artifact_uri)
            now_ms = self._clock.now_ms()
            rows = [artifact_row(found.snapshot_id, each, now_ms) for each in artifacts]
            return put_rows(self._store, INDEX_ARTIFACTS, found, rows, finish)

        return self._keys.run(call, JsonAnswer(int), work)

    def get(
        self, call: Call, identifier: TableIdentifier, snapshot: str | None, storage_id: str
    ) -> IndexArtifact:
        """The artifact of a data file, by the storage id of the target.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            NotFoundError: it has no such snapshot, or there is no artifact.
        """
        found = self._snapshots.read(call, identifier, snapshot)
        with self._store.read() as conn:
            row = INDEX_ARTIFACTS.get(conn, found.entry_id, found.snapshot_id, storage_id)
        if row is None:
            raise NotFoundError(
                f"There is no index artifact of {storage_id[:100]} in snapshot {found.snapshot_id}"
            )
        take_memory(len(row.body))
        return artifact_of(row.body)

    def list(
        self,
        call: Call,
        identifier: TableIdentifier,
        snapshot: str | None = None,
        page: PageRequest = ALL,
    ) -> tuple[int, _Artifacts]:
        """Artifacts of a snapshot.

        Returns:
            The snapshot, and a page.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            NotFoundError: it has no such snapshot.
        """
        found = self._snapshots.read(call, identifier, snapshot)
        scope = f"index-artifacts {found.entry_id} {found.snapshot_id}"
        after = page_tokens.decode(page.token, scope) if page.token else ""
        of = (found.entry_id, found.snapshot_id, "", after)
        fetched = fetch_records(
            self._store,
            lambda conn, count: INDEX_ARTIFACTS.sizes(conn, *of, count),
            lambda conn, count: INDEX_ARTIFACTS.page(conn, *of, count),
            size_of(page),
        )
        rows = fetched.rows
        token = page_tokens.encode(rows[-1].storage_id, scope) if fetched.has_more and rows else None
        return found.snapshot_id, Page([artifact_of(row.body) for row in rows], token)


_decoder: Final = msgspec.json.Decoder(IndexArtifact)


def artifact_of(body: bytes) -> IndexArtifact:
    """The artifact that a row holds."""
    return _decoder.decode(body)


def artifact_row(snapshot_id: int, artifact: IndexArtifact, now_ms: int) -> RecordRow:
    """The row of an artifact.

    Raises:
        IllegalArgumentError: it names no file, or a number is out of range.
    """
    if not artifact.artifact_uri:
        raise IllegalArgumentError("Invalid index artifact: artifact-uri must not be empty")
    check_numbers(artifact, "index artifact")
    body = msgspec.json.encode(artifact)
    without_times = msgspec.structs.replace(artifact, created_at_ms=0, refreshed_at_ms=0)
    return RecordRow(
        snapshot_id=snapshot_id,
        storage_id=target_storage_id(artifact.target),
        etag=hashlib.sha256(msgspec.json.encode(without_times)).hexdigest(),
        body=body,
        updated_at_ms=now_ms,
    )
