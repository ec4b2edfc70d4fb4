"""Table metadata of other writers in the form that every reader reads."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TypeAlias
from uuid import UUID

import msgspec

from floecat.errors import BoundExceededError, IllegalArgumentError, InvalidMetadataError
from floecat.iceberg.metadata.integrity import counters
from floecat.iceberg.metadata.properties import strip_trailing_slash
from floecat.iceberg.metadata.refs_and_logs import MAIN_BRANCH, MetadataLogEntry, SnapshotLogEntry
from floecat.iceberg.metadata.table_metadata import TableMetadata, split_document
from floecat.iceberg.normalization.definitions import (
    canonical,
    normalize_partition_field,
    normalize_properties,
    normalize_schema,
    normalize_sort_order,
    normalize_spec,
    numbered,
)
from floecat.iceberg.normalization.foreign_snapshots import normalize_snapshots
from floecat.iceberg.normalization.values import (
    Rewrite,
    each,
    each_value,
    integer,
    keep,
    lower,
    object_of,
    renamed,
    rewritten,
    text,
)
from floecat.iceberg.schemas.sorting import UNSORTED
from floecat.iceberg.values.encoded_json import (
    Fragment,
    RawJson,
    decode_fields,
    decode_json,
    encode_json,
    fragment_bytes,
    split_array,
)
from floecat.iceberg.values.json_checks import check_json, has_keys

__all__ = ["normalize_table", "read_foreign_table", "read_metadata_file"]

_LONG_ARRAYS = ("snapshots", "snapshot-log", "metadata-log")
_LONG_BYTES = 64 * 1024
_DEFINITIONS = ("schemas", "partition-specs", "sort-orders")
_EMPTY = re.compile(rb"\[\s*\]")

Changes: TypeAlias = Mapping[str, object]
"""New values of top-level fields."""

PYICEBERG_BLOBS = frozenset({"apache-datasketches-theta-v1", "deletion-vector-v1"})
"""Types of blobs that PyIceberg accepts; it refuses tables with others (0.12, `BlobMetadata`)."""


def _integers(*names: str) -> dict[str, Rewrite]:
    return dict.fromkeys(names, integer)


def _known_blobs(raw: RawJson) -> RawJson:
    blobs = decode_json(raw, list[msgspec.Raw], "blob-metadata")
    known = [blob for blob in blobs if decode_json(blob, _Blob, "blob-metadata").type in PYICEBERG_BLOBS]
    return raw if len(known) == len(blobs) else encode_json(known)


class _Blob(msgspec.Struct):
    type: str


_blob = object_of(
    _integers("snapshot-id", "sequence-number")
    | {"type": keep, "fields": each(integer), "properties": each_value(text)}
)
_statistics_file = object_of(
    _integers("snapshot-id", "file-size-in-bytes", "file-footer-size-in-bytes")
    | {
        "statistics-path": keep,
        "key-metadata": keep,
        "blob-metadata": each(_blob),
    }
)
_with_known_blobs = each(object_of({"blob-metadata": _known_blobs}))
_key = object_of(
    {
        "key-id": keep,
        "encrypted-key-metadata": keep,
        "encrypted-by-id": keep,
        "properties": each_value(text),
    }
)
_ref = object_of(
    _integers("snapshot-id", "min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")
    | {"type": lower}
)


def _log(entry: type[SnapshotLogEntry] | type[MetadataLogEntry]) -> Rewrite:
    """A log; a well-formed one costs one pass."""
    decoder = msgspec.json.Decoder(list[entry])  # type: ignore[valid-type]
    names = {field.encode_name: integer for field in msgspec.structs.fields(entry)}
    rewrite_all = each(object_of(names))

    def rewrite(raw: RawJson) -> RawJson:
        data = bytes(raw)
        with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            if has_keys(data, len(names) * len(decoder.decode(data))):
                return raw
        check_json(data)
        return rewrite_all(raw)

    return rewrite


def _uuid(written: str) -> str:
    try:
        dashed = str(UUID(written))
    except ValueError:
        return written  # refused by the check afterwards
    return written if written.lower() == dashed else dashed


_TABLE: Mapping[str, Rewrite] = {
    **_integers(
        "format-version",
        "last-sequence-number",
        "last-updated-ms",
        "last-column-id",
        "current-schema-id",
        "default-spec-id",
        "last-partition-id",
        "default-sort-order-id",
        "current-snapshot-id",
        "next-row-id",
    ),
    "table-uuid": lambda raw: renamed(raw, _uuid),
    "location": lambda raw: renamed(raw, lambda location: location and strip_trailing_slash(location)),
    "schema": normalize_schema,
    "schemas": each(normalize_schema),
    "partition-spec": lambda raw: numbered(each(normalize_partition_field)(raw)),
    "partition-specs": each(normalize_spec),
    "sort-orders": each(normalize_sort_order),
    "properties": normalize_properties,
    "encryption-keys": each(_key),
    "refs": each_value(_ref),
    "snapshots": keep,
    "statistics": each(_statistics_file),
    "partition-statistics": each(_statistics_file),
    "snapshot-log": _log(SnapshotLogEntry),
    "metadata-log": _log(MetadataLogEntry),
}


def normalize_table(data: bytes) -> bytes:
    """A metadata document in the form that every reader reads; the same bytes if it already is.

    Raises:
        InvalidMetadataError: see `read_foreign_table`.
    """
    return read_foreign_table(data).to_bytes()


def read_metadata_file(data: bytes) -> TableMetadata:
    """Reads a metadata file as registration does; without normalization if it could not be registered today.

    Raises:
        InvalidMetadataError: it is not table metadata.
    """
    try:
        return read_foreign_table(data)
    except BoundExceededError:
        raise
    except InvalidMetadataError:
        return TableMetadata.parse(data)


def read_foreign_table(data: bytes) -> TableMetadata:
    """Reads and normalizes a metadata document of any writer.

    Raises:
        InvalidMetadataError: it is not table metadata, or a part cannot be made readable for every reader.
            The message names the part and quotes nothing.
    """
    data = data.removeprefix(BOM_UTF8)
    fields = {name: fragment[0] for name, fragment in split_document(data).items()}
    try:
        check_json(_without_long_arrays(data, fields))
        made = rewritten(_without_leftovers(fields), _TABLE, nullable="current-snapshot-id")
        metadata = TableMetadata.of(
            {name: (value,) for name, value in made.items()}, data if made is fields else None
        )
        for changes in (_defaults, _snapshots, _raised, _statistics):
            metadata = _with(metadata, changes(metadata))
    except InvalidMetadataError:
        raise
    except IllegalArgumentError as error:
        raise InvalidMetadataError(f"Invalid table metadata: {error.message}") from None
    return metadata


def _without_long_arrays(data: bytes, fields: Mapping[str, RawJson]) -> bytes:
    """The document without the long arrays, which are checked for duplicate keys when rewritten."""
    cuts = []
    for name in _LONG_ARRAYS:
        view = memoryview(fields.get(name, b""))
        if len(view) > _LONG_BYTES:
            start = data.find(bytes(view[:_LONG_BYTES]))
            cuts.append((start, start + len(view)))
    pieces, end = [], 0
    for start, after in sorted(cuts):
        pieces += [data[end:start], b"null"]
        end = after
    return b"".join([*pieces, data[end:]])


def _without_leftovers(fields: Mapping[str, RawJson]) -> Mapping[str, RawJson]:
    """The fields without those that readers ignore but may fail on; the same mapping if there are none.

    From version 2 those are the single `schema` and `partition-spec`; in version 1 the empty lists beside
    them. No reader accepts a table without sort orders.
    """
    empty = {name for name in _DEFINITIONS if _EMPTY.fullmatch(fields.get(name, b"")) is not None}
    if bytes(integer(fields.get("format-version", b""))) == b"1":
        gone = {name for name in empty if name == "sort-orders" or name.removesuffix("s") in fields}
    else:
        gone = {name for name in ("schema", "partition-spec") if name in fields}
        if "sort-orders" in empty:
            fields = {**fields, "sort-orders": encode_json([UNSORTED])}
    return {name: value for name, value in fields.items() if name not in gone} if gone else fields


def _defaults(metadata: TableMetadata) -> Changes:
    """Values for missing fields: those of early version 1 documents, and `main`."""
    made: dict[str, object] = {}
    if metadata.format_version == 1:
        made |= {name: _raw(metadata.array(name)) for name in _DEFINITIONS if name not in metadata.fields}
        made |= {name: value for name, value in _current(metadata) if not _says(metadata, name, value)}
    main = metadata.refs.get(MAIN_BRANCH)
    refs = decode_fields(fragment_bytes(metadata.fields.get("refs", (b"{}",))), "refs")
    if main is not None and MAIN_BRANCH not in refs:
        made["refs"] = refs | {MAIN_BRANCH: msgspec.Raw(encode_json(main))}
    return made


def _current(metadata: TableMetadata) -> Iterator[tuple[str, object]]:
    """Fields of format version 1 for readers that know lists and for readers that do not."""
    yield "table-uuid", metadata.table_uuid
    yield "current-schema-id", metadata.current_schema_id
    yield "default-spec-id", metadata.default_spec_id
    yield "last-partition-id", metadata.last_partition_id
    yield "default-sort-order-id", metadata.default_sort_order_id
    yield "schema", msgspec.Raw(metadata.current_schema.raw)
    yield "partition-spec", _default_spec_fields(metadata)


def _default_spec_fields(metadata: TableMetadata) -> object:
    elements = split_array(metadata.array("partition-specs"), "partition-specs")
    for spec, element in zip(metadata.partition_specs, elements, strict=True):
        if spec.spec_id == metadata.default_spec_id:
            return decode_fields(element, "partition spec")["fields"]
    raise InvalidMetadataError(f"Cannot find default-spec-id={metadata.default_spec_id} in partition-specs")


def _snapshots(metadata: TableMetadata) -> Changes:
    if "snapshots" not in metadata.fields:
        return {}
    array = fragment_bytes(metadata.array("snapshots"))
    schema_ids = {schema.schema_id for schema in metadata.schemas}
    made = normalize_snapshots(array, schema_ids, metadata.current_schema.schema_id)
    return {} if made is array else {"snapshots": msgspec.Raw(bytes(made))}


def _raised(metadata: TableMetadata) -> Changes:
    return {each.name: each.in_use for each in counters(metadata) if each.value < each.in_use}


def _statistics(metadata: TableMetadata) -> Changes:
    """Statistics without blobs that PyIceberg refuses. Runs last, as counters include their column ids."""
    if not metadata.statistics:
        return {}
    array = fragment_bytes(metadata.array("statistics"))
    made = _with_known_blobs(array)
    return {} if made is array else {"statistics": msgspec.Raw(bytes(made))}


def _with(metadata: TableMetadata, changes: Changes) -> TableMetadata:
    """The document with new values for some fields; None removes a field."""
    if not changes:
        return metadata
    made: dict[str, Fragment] = dict(metadata.fields)
    for name, value in changes.items():
        if value is None:
            del made[name]
        else:
            made[name] = (encode_json(value),)
    return TableMetadata.of(made)


def _says(metadata: TableMetadata, name: str, value: object) -> bool:
    field = metadata.fields.get(name)
    return field is not None and canonical(fragment_bytes(field)) == canonical(encode_json(value))


def _raw(fragment: Fragment) -> msgspec.Raw:
    return msgspec.Raw(bytes(fragment_bytes(fragment)))
