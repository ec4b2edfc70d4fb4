"""The Iceberg metadata document of a Delta table: a snapshot for each version that has its artifacts.

The document is derived, never committed to: it is made from the one before and the versions that were added
or fell out. Its parts are those of the table specification ("Table Metadata Fields"); summaries of snapshots
are of its Appendix F ("Optional Snapshot Summary Fields").
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from floecat.delta.artifacts.version_manifests import VersionManifests
from floecat.delta.protocol.actions import CommitInfo
from floecat.iceberg.manifests.lists import ManifestFile
from floecat.iceberg.metadata.snapshots import SnapshotSummary
from floecat.iceberg.schemas.partitioning import NO_PARTITION_FIELD_ID, PartitionField
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.values.encoded_json import JsonObject

__all__ = ["TableDocument", "VersionSnapshot", "snapshot_summary"]

_KEPT_METADATA_FILES = 10

_UNSORTED: JsonObject = {"order-id": 0, "fields": []}

_REARRANGING = frozenset({"OPTIMIZE", "REORG", "CLUSTER BY"})
"""Delta operations that do not change rows."""


class VersionSnapshot(msgspec.Struct, frozen=True):
    """A version as a snapshot.

    Attributes:
        version: the Delta version, which is the snapshot id.
        timestamp_ms: when the version was made.
        schema_id: a schema of the document.
        manifest_list: its location.
        summary: `operation` and counters.
        first_row_id: first row id it assigns; None before format version 3.
        added_rows: row ids it assigns.
    """

    version: int
    timestamp_ms: int
    schema_id: int
    manifest_list: str
    summary: Mapping[str, str]
    first_row_id: int | None = None
    added_rows: int = 0


class TableDocument:
    """A metadata document in the making. Not thread-safe."""

    def __init__(self, fields: JsonObject) -> None:
        self._fields = fields
        self._snapshots: dict[int, JsonObject] = {
            snapshot["snapshot-id"]: snapshot for snapshot in fields["snapshots"]
        }

    @classmethod
    def new(cls, table_uuid: str, location: str, format_version: int) -> TableDocument:
        """A document without schemas, specs and snapshots."""
        fields: JsonObject = {
            "format-version": format_version,
            "table-uuid": table_uuid,
            "location": location,
            "last-sequence-number": 0,
            "last-updated-ms": 0,
            "last-column-id": 0,
            "current-schema-id": 0,
            "schemas": [],
            "default-spec-id": 0,
            "partition-specs": [],
            "last-partition-id": NO_PARTITION_FIELD_ID,
            "default-sort-order-id": 0,
            "sort-orders": [_UNSORTED],
            "properties": {},
            "current-snapshot-id": None,
            "refs": {},
            "snapshots": [],
            "snapshot-log": [],
            "metadata-log": [],
        }
        if format_version >= 3:
            fields["next-row-id"] = 0
        return cls(fields)

    @classmethod
    def parse(cls, document: bytes) -> TableDocument:
        """The successor of a document that `encode` made."""
        return cls(msgspec.json.decode(document))

    @property
    def format_version(self) -> int:
        """The format version of the document."""
        return int(self._fields["format-version"])

    @property
    def versions(self) -> list[int]:
        """Delta versions that are snapshots, in order."""
        return sorted(self._snapshots)

    @property
    def next_row_id(self) -> int:
        """First row id that is free; 0 before format version 3."""
        return int(self._fields.get("next-row-id", 0))

    def snapshot(self, version: int) -> JsonObject | None:
        """The snapshot of a version, as in the document."""
        return self._snapshots.get(version)

    def summary(self, version: int) -> SnapshotSummary:
        """The snapshot of a version, as the store keeps it."""
        return msgspec.convert(self._snapshots[version], SnapshotSummary)

    def schema(self, schema: Schema) -> int:
        """The id of a schema in the document; adds it if there is no equal one."""
        wanted = msgspec.json.decode(schema.raw)
        wanted.pop("schema-id", None)
        schemas = self._fields["schemas"]
        for known in schemas:
            if {key: value for key, value in known.items() if key != "schema-id"} == wanted:
                return int(known["schema-id"])
        schema_id = max((known["schema-id"] for known in schemas), default=-1) + 1
        schemas.append({"type": "struct", "schema-id": schema_id} | wanted)
        self._fields["last-column-id"] = max(self._fields["last-column-id"], schema.highest_field_id)
        return schema_id

    def spec(self, fields: Sequence[PartitionField]) -> int:
        """The id of a partition spec in the document; adds it if no other has these fields.

        Names do not distinguish specs: they follow the names of columns.
        """
        wanted = msgspec.to_builtins(tuple(fields))
        specs = self._fields["partition-specs"]
        for known in specs:
            if _without_names(known["fields"]) == _without_names(wanted):
                return int(known["spec-id"])
        spec_id = max((known["spec-id"] for known in specs), default=-1) + 1
        specs.append({"spec-id": spec_id, "fields": list(wanted)})
        last = max((field.field_id or 0 for field in fields), default=NO_PARTITION_FIELD_ID)
        self._fields["last-partition-id"] = max(self._fields["last-partition-id"], last)
        return spec_id

    def lost_specs(self, schema: Schema) -> frozenset[int]:
        """Ids of the partition specs with columns that a schema does not have."""
        return frozenset(
            spec["spec-id"]
            for spec in self._fields["partition-specs"]
            if not {field["source-id"] for field in spec["fields"]} <= schema.fields_by_id.keys()
        )

    @property
    def partition_names(self) -> Mapping[int, str]:
        """Names of the fields of all specs, by id."""
        specs = self._fields["partition-specs"]
        return {field["field-id"]: field["name"] for spec in specs for field in spec["fields"]}

    def add(self, snapshot: VersionSnapshot) -> None:
        """Adds or replaces a version."""
        fields: JsonObject = {
            "snapshot-id": snapshot.version,
            "sequence-number": snapshot.version + 1,
            "timestamp-ms": snapshot.timestamp_ms,
            "manifest-list": snapshot.manifest_list,
            "summary": dict(snapshot.summary),
            "schema-id": snapshot.schema_id,
        }
        if snapshot.first_row_id is not None:
            fields |= {"first-row-id": snapshot.first_row_id, "added-rows": snapshot.added_rows}
            next_row_id = snapshot.first_row_id + snapshot.added_rows
            self._fields["next-row-id"] = max(self.next_row_id, next_row_id)
        self._snapshots[snapshot.version] = fields

    def remove(self, versions: Collection[int]) -> None:
        """Removes versions."""
        for version in versions:
            self._snapshots.pop(version, None)

    def make_current(self, version: int, spec_id: int, properties: Mapping[str, str]) -> None:
        """Makes a version the current one, with its schema, spec and table properties."""
        self._fields["current-snapshot-id"] = version
        self._fields["current-schema-id"] = self._snapshots[version]["schema-id"]
        self._fields["default-spec-id"] = spec_id
        self._fields["properties"] = dict(sorted(properties.items()))
        self._fields["refs"] = {"main": {"snapshot-id": version, "type": "branch"}}

    def follow(self, metadata_location: str) -> Sequence[str]:
        """Adds the metadata file that this document replaces to the metadata log.

        Returns:
            Files that fell out of the log, and are no longer needed.
        """
        log: list[Any] = self._fields["metadata-log"]
        log.append({"timestamp-ms": self._fields["last-updated-ms"], "metadata-file": metadata_location})
        fallen, self._fields["metadata-log"] = log[:-_KEPT_METADATA_FILES], log[-_KEPT_METADATA_FILES:]
        return [entry["metadata-file"] for entry in fallen]

    def encode(self) -> bytes:
        """The document as JSON; the same state gives the same bytes."""
        ordered = [self._snapshots[version] for version in self.versions]
        # Readers want the snapshot log in order of time. Files of commits that are older than in-commit
        # timestamps may have been copied, and so seem newer.
        for snapshot, after in zip(ordered[-2::-1], ordered[:0:-1], strict=True):
            snapshot["timestamp-ms"] = min(snapshot["timestamp-ms"], after["timestamp-ms"] - 1)
        for parent, snapshot in zip([None, *ordered], ordered, strict=False):
            snapshot.pop("parent-snapshot-id", None)
            if parent is not None:
                snapshot["parent-snapshot-id"] = parent["snapshot-id"]
        log = [
            {"timestamp-ms": snapshot["timestamp-ms"], "snapshot-id": snapshot["snapshot-id"]}
            for snapshot in ordered
        ]
        current = self._snapshots[self._fields["current-snapshot-id"]]
        self._fields |= {
            "snapshots": ordered,
            "snapshot-log": log,
            "last-sequence-number": max(snapshot["sequence-number"] for snapshot in ordered),
            "last-updated-ms": max(self._fields["last-updated-ms"], current["timestamp-ms"]),
        }
        return msgspec.json.encode(self._fields)


def snapshot_summary(manifests: VersionManifests, commit_info: CommitInfo | None) -> Mapping[str, str]:
    """The summary of a version: its changes, and the totals after it. Records include deleted ones.

    Args:
        manifests: of the version.
        commit_info: of its commit, if that still exists.
    """
    version = manifests.version
    own_data = [manifest for manifest in manifests.data if manifest.added_snapshot_id == version]
    own_deletes = [manifest for manifest in manifests.deletes if manifest.added_snapshot_id == version]
    counters = {
        "added-data-files": _sum(own_data, "added_files_count"),
        "added-records": _sum(own_data, "added_rows_count"),
        "deleted-data-files": _sum(own_data, "deleted_files_count"),
        "deleted-records": _sum(own_data, "deleted_rows_count"),
        "added-delete-files": _sum(own_deletes, "added_files_count"),
        "added-position-deletes": _sum(own_deletes, "added_rows_count"),
        "removed-delete-files": _sum(own_deletes, "deleted_files_count"),
        "removed-position-deletes": _sum(own_deletes, "deleted_rows_count"),
    }
    totals = {
        "total-data-files": _live(manifests.data, "files"),
        "total-records": _live(manifests.data, "rows"),
        "total-files-size": manifests.files_size_bytes,
        "total-delete-files": _live(manifests.deletes, "files"),
        "total-position-deletes": _live(manifests.deletes, "rows"),
        "total-equality-deletes": 0,
    }
    operation = commit_info.operation if commit_info else None
    summary = {"operation": _operation(counters, operation, restores_rows=manifests.restores_rows)}
    summary |= {name: str(value) for name, value in counters.items() if value}
    summary |= {name: str(max(value, 0)) for name, value in totals.items()}
    if operation:
        summary["delta.operation"] = operation
    return summary


def _without_names(fields: Sequence[JsonObject]) -> list[JsonObject]:
    return [{key: value for key, value in field.items() if key != "name"} for field in fields]


def _operation(counters: Mapping[str, int], delta_operation: str | None, *, restores_rows: bool) -> str:
    names = ("added-data-files", "added-delete-files", "deleted-data-files", "removed-delete-files")
    files, deletes, gone_files, gone_deletes = (counters[name] for name in names)
    if not (files or deletes or gone_files or gone_deletes) or delta_operation in _REARRANGING:
        return "replace"
    if files:
        return "overwrite" if deletes or gone_files or gone_deletes else "append"
    return "overwrite" if restores_rows else "delete"


def _sum(manifests: Sequence[ManifestFile], counter: str) -> int:
    return sum(getattr(manifest, counter) or 0 for manifest in manifests)


def _live(manifests: Sequence[ManifestFile], what: str) -> int:
    return _sum(manifests, f"added_{what}_count") + _sum(manifests, f"existing_{what}_count")
