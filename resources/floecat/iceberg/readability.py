"""What readers refuse in a document although it is well-formed: looked for when one is registered.

The reference implementation refuses a null where it looks for the presence of a field, and any document that
its JSON parser cannot read. PyIceberg refuses more nulls, and types in a spelling that it does not know. The
catalog itself reads all of that, so that a table which has it already is not lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.encryption_keys import check_encryption_key
from floecat.iceberg.json_arrays import fragment_bytes, split_array
from floecat.iceberg.json_values import Int32, Int64, JsonObject, RawJson, decode_json, is_null
from floecat.iceberg.metadata import TableMetadata
from floecat.iceberg.reader_limits import check_numbers
from floecat.iceberg.statistics_files import check_statistics_file

__all__ = ["check_readable", "check_schema_readable"]

_NEVER_NULL = (
    "schemas",
    "partition-specs",
    "sort-orders",
    "properties",
    "encryption-keys",
    "refs",
    "snapshots",
    "statistics",
    "partition-statistics",
    "snapshot-log",
    "metadata-log",
)

_TYPE = re.compile(r"[a-z_]+|decimal\([0-9]+,\s*[0-9]+\)|fixed\[[0-9]+\]|geometry\b.*|geography\b.*")
_FLOATS = frozenset({"float", "double"})


class _Snapshot(msgspec.Struct, frozen=True, rename="kebab", gc=False):
    snapshot_id: Int64
    sequence_number: Int64 | msgspec.UnsetType = msgspec.UNSET
    parent_snapshot_id: Int64 | msgspec.UnsetType = msgspec.UNSET
    manifest_list: str | msgspec.UnsetType = msgspec.UNSET
    manifests: list[str] | None = None
    summary: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    first_row_id: Int64 | None = None
    added_rows: Int64 | None = None


class _PartitionField(msgspec.Struct, frozen=True, rename="kebab"):
    source_id: Int32
    field_id: Int32 | msgspec.UnsetType = msgspec.UNSET


class _PartitionSpec(msgspec.Struct, frozen=True):
    fields: list[_PartitionField]


class _SortField(msgspec.Struct, frozen=True, rename="kebab"):
    source_id: Int32


class _SortOrder(msgspec.Struct, frozen=True):
    fields: list[_SortField]


def check_readable(metadata: TableMetadata) -> None:
    """Refuses a document, whose parts were parsed before, that not every reader can read.

    Costs one pass over the document, whatever it holds.

    Raises:
        IllegalArgumentError: see above. The message does not quote the document.
    """
    check_numbers(metadata.to_bytes(), "table metadata")
    for name in _NEVER_NULL:
        if name in metadata.fields and is_null(fragment_bytes(metadata.fields[name])):
            raise IllegalArgumentError(f"{name} is null")
    for schema in _elements(metadata, "schemas", "schema"):
        check_schema_readable(schema)
    for snapshot in decode_json(fragment_bytes(metadata.array("snapshots")), list[_Snapshot], "snapshots"):
        _check_snapshot(snapshot)
    for name in ("statistics", "partition-statistics"):
        for file in split_array(metadata.array(name), name):
            check_statistics_file(file, name)
    for key in split_array(metadata.array("encryption-keys"), "encryption-keys"):
        check_encryption_key(key)
    decode_json(fragment_bytes(metadata.array("partition-specs")), list[_PartitionSpec], "partition-specs")
    decode_json(fragment_bytes(metadata.array("sort-orders")), list[_SortOrder], "sort-orders")


def _elements(metadata: TableMetadata, name: str, legacy: str) -> Iterable[RawJson]:
    if name in metadata.fields:
        return split_array(metadata.array(name), name)
    return [fragment_bytes(metadata.fields[legacy])]


def _check_snapshot(snapshot: _Snapshot) -> None:
    if snapshot.manifest_list is msgspec.UNSET:
        if snapshot.manifests is None:
            raise IllegalArgumentError(
                f"snapshot {snapshot.snapshot_id} has neither manifest-list nor manifests"
            )
        return
    first, added = snapshot.first_row_id, snapshot.added_rows
    if (first is not None and (first < 0 or added is None)) or (added is not None and added < 0):
        raise IllegalArgumentError(f"snapshot {snapshot.snapshot_id} has row ids that cannot be")


def check_schema_readable(raw: RawJson) -> None:
    """Refuses a schema, parsed before, that not every reader can read.

    Raises:
        IllegalArgumentError: a null for `schema-id`, `identifier-field-ids` or a default value; a whole
            number as the default of a floating-point column; a type with capitals, or with blanks that are
            not usual.
    """
    schema = decode_json(raw, dict, "schema")
    for name in ("schema-id", "identifier-field-ids"):
        if name in schema and schema[name] is None:
            raise IllegalArgumentError(f"Invalid schema: {name} is null")
    _check_struct(schema)


def _check_struct(struct: JsonObject) -> None:
    for field in struct["fields"]:
        for name in ("initial-default", "write-default"):
            if name in field and (field[name] is None or _is_no_float(field["type"], field[name])):
                raise IllegalArgumentError(f"Invalid schema: {name} of {field['name']} is null or no float")
        _check_type(field["type"])


def _is_no_float(type: object, value: object) -> bool:
    return isinstance(type, str) and type in _FLOATS and isinstance(value, int)


def _check_type(type: object) -> None:
    if isinstance(type, str):
        if _TYPE.fullmatch(type) is None:
            raise IllegalArgumentError(f"Invalid schema: type {type[:80]} is not spelt as readers expect it")
    elif isinstance(type, dict) and type["type"] == "struct":
        _check_struct(type)
    elif isinstance(type, dict):
        for part in ("element", "key", "value"):
            _check_type(type.get(part))
