"""Requests for scan plans, and how a plan keeps its own until it is made.

A plan that is made later, or piece by piece, must not depend on what becomes of the table. It keeps a
metadata document with what planning reads: schemas, partition specs, and the snapshots of the request.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from floecat.errors import BadRequestError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.encoded_json import array_of, encode_json
from floecat.planning.plans.plan_answers import PartitionForm
from floecat.planning.table_states import snapshot_of
from floecat.storage.own_folders import OwnFolders
from floecat.store.entries.documents import compress, decompress

__all__ = ["PlanTableScan", "PlannedScan"]

_KEPT: Final = (
    "format-version",
    "table-uuid",
    "location",
    "last-sequence-number",
    "last-updated-ms",
    "last-column-id",
    "schema",
    "schemas",
    "current-schema-id",
    "partition-spec",
    "partition-specs",
    "default-spec-id",
    "last-partition-id",
    "sort-orders",
    "default-sort-order-id",
    "next-row-id",
    "snapshots",
)
"""Fields of metadata that planning reads, and those that a document must have."""

_MOST_DIGITS: Final = 18


class PlanTableScan(msgspec.Struct, rename="kebab", frozen=True, kw_only=True, omit_defaults=True):
    """A request for a scan plan (REST specification, `PlanTableScanRequest`).

    `select` chooses columns of rows, and no file: its names are not looked up, as those of metadata columns,
    nested ones and later schemas are sent too.
    """

    snapshot_id: int | None = None
    start_snapshot_id: int | None = None
    end_snapshot_id: int | None = None
    select: tuple[str, ...] | None = None
    filter: Any = None
    case_sensitive: bool | None = None
    use_snapshot_schema: bool | None = None
    stats_fields: tuple[str, ...] | None = None
    min_rows_requested: int | None = None


class PlannedScan(msgspec.Struct, frozen=True):
    """A scan of a table in one state.

    Attributes:
        metadata: of the table, or as much of it as planning reads.
        sent: what was asked for, with the id of the snapshot unless it is a range or the table has none.
        form: how partitions are spelled.
        manifests: first and end of the data manifests that are read, by place; None for all.
        own: as of `ScanRequest`.
    """

    metadata: TableMetadata
    sent: PlanTableScan
    form: PartitionForm = "specified"
    manifests: tuple[int, int] | None = None
    own: OwnFolders | None = None

    @classmethod
    def of(
        cls,
        metadata: TableMetadata,
        sent: PlanTableScan,
        *,
        zero_is_current: bool = False,
        form: PartitionForm = "specified",
        own: OwnFolders | None = None,
    ) -> PlannedScan:
        """Resolves what a client asks for.

        Args:
            metadata: of the table as it is now.
            sent: the request.
            zero_is_current: whether the id 0 means the current snapshot.
            form: how partitions are spelled.
            own: as of `ScanRequest`.

        Raises:
            BadRequestError: the table has no such snapshot, or both kinds of range are given.
        """
        snapshot_id = sent.snapshot_id
        is_range = sent.start_snapshot_id is not None or sent.end_snapshot_id is not None
        if is_range and snapshot_id is not None:
            raise BadRequestError(
                "Invalid plan: snapshot-id stands beside start-snapshot-id or end-snapshot-id"
            )
        if snapshot_id == 0 and zero_is_current:
            snapshot_id = None
        if not is_range:
            snapshot = snapshot_of(metadata, snapshot_id=snapshot_id)
            snapshot_id = None if snapshot is None else snapshot.snapshot_id
        return cls(metadata, msgspec.structs.replace(sent, snapshot_id=snapshot_id), form, own=own)

    @property
    def total_files(self) -> int:
        """Data files of the snapshot, as its writer counted them; 0 where that is unknown, or for a range."""
        if self.sent.snapshot_id is None:
            return 0
        snapshot = msgspec.json.decode(self.metadata.snapshot_bytes(self.sent.snapshot_id), type=_Counted)
        counted = "" if snapshot.summary is None else str(snapshot.summary.total_data_files)
        return int(counted) if counted.isdecimal() and len(counted) <= _MOST_DIGITS else 0

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that is read, the last one of a range; None for an empty table."""
        sent = self.sent
        return sent.end_snapshot_id if sent.snapshot_id is None else sent.snapshot_id

    def encode(self) -> bytes:
        """The scan as `decode` reads it, compressed."""
        fields = {name: value for name, value in self.metadata.fields.items() if name in _KEPT}
        snapshot_id = self.sent.snapshot_id
        if snapshot_id is not None:
            fields["snapshots"] = array_of([self.metadata.snapshot_bytes(snapshot_id)])
            fields["current-snapshot-id"] = (encode_json(snapshot_id),)
        document = b"".join(TableMetadata.of(fields).pieces())
        return compress(msgspec.json.encode(_Kept(self.sent, self.form, self.own, msgspec.Raw(document))))

    @classmethod
    def decode(cls, body: bytes) -> PlannedScan:
        """The scan that `encode` wrote."""
        kept = msgspec.json.decode(decompress(body), type=_Kept)
        return cls(TableMetadata.parse(bytes(kept.document)), kept.sent, kept.form, own=kept.own)


class _Kept(msgspec.Struct):
    sent: PlanTableScan
    form: PartitionForm
    own: OwnFolders | None
    document: msgspec.Raw


class _Counts(msgspec.Struct, rename="kebab", frozen=True):
    total_data_files: Any = None


class _Counted(msgspec.Struct):
    summary: _Counts | None = None
