"""Snapshots of other writers in the form that every reader reads.

PyIceberg and DuckDB refuse a table with a snapshot that lacks `operation` or has an unknown one, newer
versions of DuckDB also one without `schema-id`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.snapshots import OPERATIONS, check_snapshots
from floecat.iceberg.normalization.values import (
    each,
    each_value,
    encode_object,
    integer,
    keep,
    object_of,
    text,
)
from floecat.iceberg.values.encoded_json import (
    Int32,
    Int64,
    RawJson,
    array_of,
    decode_fields,
    decode_json,
    encode_json,
)
from floecat.iceberg.values.json_checks import check_json, has_keys
from floecat.iceberg.values.text_limits import int32_of

__all__ = [
    "normalize_snapshots",
]

_ORIGINAL_OPERATION = "original-operation"
"""Key of a summary for an operation that is unknown."""

_NO_PARENT = -1
_NO_TEXT = b'""'

_UNSET = msgspec.UNSET


class _Readable(msgspec.Struct, frozen=True, rename="kebab", gc=False):
    """A snapshot that every reader accepts; other fields are ignored."""

    snapshot_id: Int64
    timestamp_ms: Int64
    manifest_list: str
    summary: dict[str, str]
    schema_id: Int32
    sequence_number: Int64 | msgspec.UnsetType = _UNSET
    parent_snapshot_id: Int64 | msgspec.UnsetType = _UNSET
    first_row_id: Int64 | msgspec.UnsetType = _UNSET
    added_rows: Int64 | msgspec.UnsetType = _UNSET
    key_id: str | msgspec.UnsetType = _UNSET
    manifests: list[str] | msgspec.UnsetType = _UNSET


class _Age(msgspec.Struct, frozen=True, rename="kebab", gc=False):
    """Fields that order snapshots by age."""

    snapshot_id: Int64
    timestamp_ms: Int64
    sequence_number: Int64 = 0
    parent_snapshot_id: Int64 | None = None


_REQUIRED_FIELDS = 5

_rewrite = object_of(
    dict.fromkeys(
        (
            "snapshot-id",
            "timestamp-ms",
            "schema-id",
            "sequence-number",
            "parent-snapshot-id",
            "first-row-id",
            "added-rows",
        ),
        integer,
    )
    | {"manifest-list": keep, "manifests": keep, "key-id": keep, "summary": each_value(text)}
)

_elements_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_decoder = msgspec.json.Decoder(_Readable)


def normalize_snapshots(array: RawJson, schema_ids: Collection[int], current_schema_id: int) -> RawJson:
    """The array of snapshots, each readable; costs one pass if they already are.

    Args:
        array: encoded.
        schema_ids: of the schemas of the table.
        current_schema_id: for snapshots without a schema id, as readers assume.

    Raises:
        BoundExceededError: there are more than `floecat.limits` allows.
        IllegalArgumentError: a snapshot cannot be made readable for every reader; the message names it.
    """
    check_snapshots(array if isinstance(array, bytes | memoryview) else bytes(array))
    if _are_readable(bytes(array), schema_ids):
        return array
    check_json(bytes(array))
    elements = each(_rewrite)(array)
    oldest = min(
        decode_json(elements, list[_Age], "snapshots"),
        key=lambda age: (age.sequence_number, age.timestamp_ms),
        default=None,
    )
    made = [
        _normalized(element, schema_ids, current_schema_id, oldest)
        for element in decode_json(elements, list[msgspec.Raw], "snapshots")
    ]
    return array_of(made)[0]


def _are_readable(array: bytes, schema_ids: Collection[int]) -> bool:
    pairs = 0
    try:
        # one by one: summaries of all of them take many times the memory of the array
        for element in _elements_decoder.decode(array):
            snapshot = _decoder.decode(element)
            if not _is_readable(snapshot, schema_ids):
                return False
            pairs += _pairs(snapshot)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    # more than were decoded: a duplicate or unknown key
    return has_keys(array, pairs)


def _is_readable(snapshot: _Readable, schema_ids: Collection[int]) -> bool:
    first, added = snapshot.first_row_id, snapshot.added_rows
    return (
        snapshot.summary.get("operation") in OPERATIONS
        and snapshot.schema_id in schema_ids
        and snapshot.parent_snapshot_id != _NO_PARENT
        and snapshot.manifest_list != ""
        and (first is _UNSET or (first >= 0 and added is not _UNSET))
        and (added is _UNSET or added >= 0)
    )


def _pairs(snapshot: _Readable) -> int:
    return (
        _REQUIRED_FIELDS
        + len(snapshot.summary)
        + (snapshot.sequence_number is not _UNSET)
        + (snapshot.parent_snapshot_id is not _UNSET)
        + (snapshot.first_row_id is not _UNSET)
        + (snapshot.added_rows is not _UNSET)
        + (snapshot.key_id is not _UNSET)
        + (snapshot.manifests is not _UNSET)
    )


def _normalized(
    raw: msgspec.Raw, schema_ids: Collection[int], current_schema_id: int, oldest: _Age | None
) -> bytes:
    data = bytes(raw)
    fields: dict[str, RawJson] = dict(decode_fields(data, "snapshot"))
    age = decode_json(data, _Age, "snapshot")
    if bytes(fields.get("manifest-list", _NO_TEXT)) == _NO_TEXT:
        names = "names its manifests itself" if "manifests" in fields else "names no manifests"
        raise IllegalArgumentError(
            f"snapshot {age.snapshot_id} {names} and has no manifest-list, without which PyIceberg and DuckDB"
            " cannot read the table"
        )
    if age.parent_snapshot_id == _NO_PARENT:
        del fields["parent-snapshot-id"]
    schema_id = fields.get("schema-id")
    if schema_id is None or decode_json(schema_id, int, "schema-id of a snapshot") not in schema_ids:
        fields["schema-id"] = encode_json(current_schema_id)
    is_first = age == oldest and age.parent_snapshot_id in (None, _NO_PARENT)
    fields["summary"] = _summary(fields.get("summary", b"{}"), is_first=is_first)
    made = encode_object(fields)
    _check(made, age.snapshot_id, schema_ids)
    return made


def _summary(raw: RawJson, *, is_first: bool) -> RawJson:
    summary = decode_json(raw, dict[str, str], "summary of a snapshot")
    said = summary.pop("operation", None)
    if said in OPERATIONS:
        return raw
    if said is None:
        operation = _derived_operation(summary, is_first=is_first)
    elif said.strip().lower() in OPERATIONS:
        operation = said.strip().lower()
    else:
        operation = "overwrite"
        summary[_ORIGINAL_OPERATION] = said
    return encode_json({"operation": operation} | summary)


def _derived_operation(summary: Mapping[str, str], *, is_first: bool) -> str:
    """The operation of a snapshot without one: what its counts prove, otherwise what readers assume.

    Java and PyIceberg read a summary without an operation as `overwrite`. After a wrong `append` or `delete`,
    incremental readers would miss changes, so both counts of data files are required.
    """
    added, removed = (int32_of(summary.get(name, "")) for name in ("added-data-files", "deleted-data-files"))
    deletes = any(int32_of(summary.get(name, "")) for name in ("added-delete-files", "removed-delete-files"))
    match added, removed:
        case int(), 0 if added and not deletes:
            return "append"
        case 0, int() if removed or deletes:
            return "delete"
        case None, None if is_first and not deletes:
            return "append"
        case _:
            return "overwrite"


def _check(data: bytes, snapshot_id: int, schema_ids: Collection[int]) -> None:
    snapshot = decode_json(data, _Readable, f"snapshot {snapshot_id}")
    if not _is_readable(snapshot, schema_ids):
        raise IllegalArgumentError(
            f"snapshot {snapshot_id} has row ids that cannot be: first-row-id needs added-rows, and neither"
            " may be negative"
        )
