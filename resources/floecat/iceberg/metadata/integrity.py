"""Full check of a metadata document that another writer made, as when a table is registered."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple
from uuid import UUID

from floecat.errors import IllegalArgumentError, InvalidMetadataError
from floecat.iceberg.metadata.encryption_keys import check_encryption_key
from floecat.iceberg.metadata.properties import NAME_MAPPING, check_name_mapping, mapped_ids
from floecat.iceberg.metadata.refs_and_logs import (
    CLOCK_SKEW_MS,
    MAIN_BRANCH,
    MetadataLogEntry,
    SnapshotLogEntry,
    check_ref,
)
from floecat.iceberg.metadata.statistics_files import check_statistics_file
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.new_columns import check_new_columns
from floecat.iceberg.schemas.partitioning import (
    NO_PARTITION_FIELD_ID,
    check_fields_once,
    check_historical_spec,
    check_partition_spec,
)
from floecat.iceberg.schemas.schema import HIGHEST_COLUMN_ID
from floecat.iceberg.schemas.sorting import check_sort_order
from floecat.iceberg.values.encoded_json import (
    JsonObject,
    RawJson,
    decode_json,
    encode_json,
    fragment_bytes,
    split_array,
)
from floecat.iceberg.values.text_limits import check_numbers

__all__ = [
    "Counter",
    "check_integrity",
    "check_readable",
    "check_schema_readable",
    "counters",
]

_LISTS = ("snapshot_log", "metadata_log", "statistics", "partition_statistics", "encryption_keys")


def check_integrity(metadata: TableMetadata) -> None:
    """Reads every part of a document and checks that the parts agree.

    Raises:
        InvalidMetadataError: a part cannot be read, by the catalog or by clients; a current or default id is
            missing or an id occurs twice; a spec or order does not fit the current schema; a reference
            breaks the rules for its type or points at a missing snapshot, or `main` at another than
            `current-snapshot-id`; a snapshot is its own ancestor; a counter for new ids is below an id in
            use; a log is not in order of time.
    """
    for part in _LISTS:
        getattr(metadata, part)
    _check_uuid(metadata)
    _check_definitions(metadata)
    _check_snapshots(metadata)
    _check_refs(metadata)
    _check_keys(metadata)
    _check_counters(metadata)
    _check_log("snapshot-log", metadata.snapshot_log, metadata.last_updated_ms)
    _check_log("metadata-log", metadata.metadata_log, metadata.last_updated_ms)
    try:
        _check_fit(metadata)
        check_readable(metadata)
    except IllegalArgumentError as error:
        raise InvalidMetadataError(f"Invalid table metadata: {error.message}") from None


def _check_uuid(metadata: TableMetadata) -> None:
    # the header reads an empty one as missing
    written = metadata.fields.get("table-uuid", (encode_json(metadata.table_uuid),))
    try:
        UUID(decode_json(fragment_bytes(written), str, "table-uuid"))
    except ValueError:
        raise InvalidMetadataError("Invalid table metadata: table-uuid is not a UUID") from None


def _check_definitions(metadata: TableMetadata) -> None:
    schema_ids = [schema.schema_id for schema in metadata.schemas]
    spec_ids = [spec.spec_id for spec in metadata.partition_specs]
    order_ids = [order.order_id for order in metadata.sort_orders]
    _check_ids("schemas", schema_ids, "current-schema-id", metadata.current_schema_id)
    _check_ids("partition-specs", spec_ids, "default-spec-id", metadata.default_spec_id)
    _check_ids("sort-orders", order_ids, "default-sort-order-id", metadata.default_sort_order_id)


def _check_fit(metadata: TableMetadata) -> None:
    current = metadata.current_schema
    for schema in metadata.schemas:
        schema.check_format_version(metadata.format_version)
        check_new_columns(schema, None)
        if schema.highest_field_id > HIGHEST_COLUMN_ID:
            raise IllegalArgumentError(
                f"field id {schema.highest_field_id} of schema {schema.schema_id} is reserved"
                f" (ids of columns end at {HIGHEST_COLUMN_ID})"
            )
    for spec in metadata.partition_specs:
        check_fields_once(spec)
        check_historical_spec(spec, current)
        if spec.spec_id == metadata.default_spec_id:
            check_partition_spec(spec, current)
    for order in metadata.sort_orders:
        if order.is_unsorted != (order.order_id == 0):
            raise IllegalArgumentError("Sort order ID 0 is reserved for unsorted order, which must have it")
        if order.order_id == metadata.default_sort_order_id:
            check_sort_order(order, current)


def _check_ids(name: str, ids: Collection[int], current_name: str, current: int) -> None:
    if len(set(ids)) != len(ids):
        raise InvalidMetadataError(f"Invalid table metadata: an id occurs more than once in {name}")
    if current not in ids:
        raise InvalidMetadataError(f"Cannot find {current_name}={current} in {name}")


def _check_snapshots(metadata: TableMetadata) -> None:
    for snapshot in metadata.snapshots:
        if metadata.format_version == 1 and snapshot.sequence_number != 0:
            raise InvalidMetadataError(
                f"Invalid snapshot {snapshot.snapshot_id}: its sequence number must be 0 in v1"
            )
    _check_ancestors(metadata)
    current = metadata.current_snapshot_id
    if current is not None and metadata.snapshot(current) is None:
        raise InvalidMetadataError("Invalid table metadata: Cannot find current version")


def _check_ancestors(metadata: TableMetadata) -> None:
    """Refuses circles, in which readers go on for ever."""
    parents = {each.snapshot_id: each.parent_snapshot_id for each in metadata.snapshots}
    passed: set[int] = set()
    for snapshot_id in parents:
        path: set[int] = set()
        found: int | None = snapshot_id
        while found in parents and found not in passed:
            if found in path:
                raise InvalidMetadataError(f"Invalid snapshot {found}: it is its own ancestor")
            path.add(found)
            found = parents[found]
        passed |= path


def _check_counters(metadata: TableMetadata) -> None:
    for name, value, in_use in counters(metadata):
        if value < in_use:
            raise InvalidMetadataError(
                f"Invalid table metadata: {name} is {value}, and {in_use} is in use already"
            )


def _check_keys(metadata: TableMetadata) -> None:
    key_ids = [key.key_id for key in metadata.encryption_keys]
    if len(set(key_ids)) != len(key_ids):
        raise InvalidMetadataError("Invalid table metadata: an id occurs more than once in encryption-keys")


def _check_log(
    name: str, log: Sequence[SnapshotLogEntry] | Sequence[MetadataLogEntry], last_updated_ms: int
) -> None:
    times = [entry.timestamp_ms for entry in log]
    if any(later - earlier < -CLOCK_SKEW_MS for earlier, later in pairwise(times)):
        raise InvalidMetadataError(f"Invalid table metadata: {name} is not sorted by time")
    if times and last_updated_ms - times[-1] < -CLOCK_SKEW_MS:
        raise InvalidMetadataError(
            f"Invalid update timestamp {last_updated_ms}: before last {name} entry at {times[-1]}"
        )


def _check_refs(metadata: TableMetadata) -> None:
    for name, ref in metadata.refs.items():
        try:
            check_ref(name, ref)
        except IllegalArgumentError as error:
            raise InvalidMetadataError(f"Invalid table metadata: {error.message}") from None
        if metadata.snapshot(ref.snapshot_id) is None:
            raise InvalidMetadataError(
                f"Snapshot for reference {name} does not exist in the existing snapshots list"
            )
    main = metadata.refs.get(MAIN_BRANCH)
    if main is None:
        return
    if metadata.current_snapshot_id is None:
        raise InvalidMetadataError("Current snapshot is not set, but main branch exists")
    if main.snapshot_id != metadata.current_snapshot_id:
        raise InvalidMetadataError(
            f"Current snapshot ID does not match main branch"
            f" ({metadata.current_snapshot_id} != {main.snapshot_id})"
        )


_TYPE = re.compile(r"[a-z_]+|decimal\([0-9]+,\s*[0-9]+\)|fixed\[[0-9]+\]|geometry\b.*|geography\b.*")
_FLOATS = frozenset({"float", "double"})


def check_readable(metadata: TableMetadata) -> None:
    """Refuses a document, already parsed, that some readers cannot read although it is well-formed.

    The reference implementation refuses a null where it checks the presence of a field, and any document that
    its JSON parser cannot read; PyIceberg refuses more. The catalog itself reads all of that, so that a table
    that has it already is not lost. What `floecat.iceberg.normalization` rewrites is not checked again.

    Raises:
        IllegalArgumentError: with a message that does not quote the document.
    """
    check_numbers(metadata.to_bytes(), "table metadata")
    check_name_mapping(metadata.properties.get(NAME_MAPPING, "[]"))
    for name in ("statistics", "partition-statistics"):
        for file in split_array(metadata.array(name), name):
            check_statistics_file(file, name)
    for key in split_array(metadata.array("encryption-keys"), "encryption-keys"):
        check_encryption_key(key)


def check_schema_readable(raw: RawJson) -> None:
    """Refuses a schema, already parsed, that some readers cannot read.

    Raises:
        IllegalArgumentError: a null for `schema-id`, `identifier-field-ids` or a default value; an integer as
            the default of a floating-point column; a type with capitals or unusual blanks.
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


_ROW_LINEAGE_VERSION = 3


class Counter(NamedTuple):
    """A counter in table metadata that new ids are taken from.

    Attributes:
        name: the field of the document.
        value: its value in the document.
        in_use: the highest id in use, which the value must not be below.
    """

    name: str
    value: int
    in_use: int


def counters(metadata: TableMetadata) -> Iterator[Counter]:
    """The counters that the format version of the table has.

    Raises:
        InvalidMetadataError: a part that holds ids cannot be read.
    """
    yield Counter("last-column-id", metadata.last_column_id, max(_column_ids(metadata), default=0))
    partition_ids = (spec.last_field_id for spec in metadata.partition_specs)
    last_partition_id = max(partition_ids, default=NO_PARTITION_FIELD_ID)
    yield Counter("last-partition-id", metadata.last_partition_id, last_partition_id)
    if metadata.format_version > 1:
        numbers = (snapshot.sequence_number for snapshot in metadata.snapshots)
        yield Counter("last-sequence-number", metadata.last_sequence_number, max(numbers, default=0))
    if metadata.format_version >= _ROW_LINEAGE_VERSION:
        rows = ((each.first_row_id or 0) + (each.added_rows or 0) for each in metadata.snapshots)
        yield Counter("next-row-id", metadata.next_row_id, max(rows, default=0))


def _column_ids(metadata: TableMetadata) -> Iterator[int]:
    return (found for found in _mentioned_ids(metadata) if found <= HIGHEST_COLUMN_ID)


def _mentioned_ids(metadata: TableMetadata) -> Iterator[int]:
    """Ids of columns wherever the document names one: files may still hold columns that were dropped."""
    for schema in metadata.schemas:
        yield schema.highest_field_id
    for spec in metadata.partition_specs:
        yield from chain.from_iterable(field.sources for field in spec.fields)
    for order in metadata.sort_orders:
        yield from chain.from_iterable(field.sources for field in order.fields)
    for file in metadata.statistics:
        for blob in file.blob_metadata:
            yield from blob.fields
    yield from mapped_ids(metadata.properties.get(NAME_MAPPING, ""))
