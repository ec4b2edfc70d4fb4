"""Table metadata: an immutable document, decoded only where needed.

The top level is split once. Fields that a change does not touch stay the bytes they were read as, and each
document passes the index of its snapshots on to its successor.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final, TypeVar
from uuid import UUID

import msgspec

from floecat.compression.pieces import runs
from floecat.errors import IllegalArgumentError, InvalidMetadataError
from floecat.iceberg.metadata.encryption_keys import EncryptedKey
from floecat.iceberg.metadata.metadata_header import FIELD_ORDER, MetadataHeader, read_header
from floecat.iceberg.metadata.properties import Codec, metadata_file_name
from floecat.iceberg.metadata.refs_and_logs import (
    MAIN_BRANCH,
    MetadataLogEntry,
    SnapshotLogEntry,
    SnapshotRef,
    parse_metadata_log,
    parse_snapshot_log,
)
from floecat.iceberg.metadata.snapshots import SnapshotIndex, SnapshotSummary, check_number_of_snapshots
from floecat.iceberg.metadata.statistics_files import PartitionStatisticsFile, StatisticsFile
from floecat.iceberg.schemas.partitioning import (
    FIRST_PARTITION_FIELD_ID,
    NO_PARTITION_FIELD_ID,
    PartitionSpec,
    parse_partition_spec,
)
from floecat.iceberg.schemas.schema import Schema, parse_schema
from floecat.iceberg.schemas.sorting import UNSORTED, SortOrder, parse_sort_order
from floecat.iceberg.values.bounds import exceeded, process_bounds
from floecat.iceberg.values.encoded_json import (
    EMPTY_ARRAY,
    NULL,
    Fragment,
    Piece,
    RawJson,
    array_of,
    blocks_of,
    decode_fields,
    decode_json,
    encode_json,
    fragment_bytes,
    fragment_size,
    is_null,
    split_array,
)

__all__ = ["TableMetadata", "metadata_file_location", "split_document"]

T = TypeVar("T")

_ARRAYS = (
    "schemas",
    "partition-specs",
    "sort-orders",
    "snapshots",
    "snapshot-log",
    "metadata-log",
    "statistics",
    "partition-statistics",
    "encryption-keys",
)

_GROWING = ("snapshots", "snapshot-log")
"""Arrays that commits append to; they make up most of a large document."""


_LOGS = ("snapshot-log", "metadata-log")

_DECODED_AT_ONCE = 1 << 20


class TableMetadata:
    """The metadata of a table. Immutable; safe to share between threads.

    Attributes:
        format_version: 1, 2 or 3.
        table_uuid: for v1 documents without one, a UUID derived from the location.
        location: without a slash at its end.
        last_updated_ms: when it was written.
        last_partition_id: highest partition field id ever assigned; 999 if none.
        next_row_id: 0 before format version 3.
        current_snapshot_id: None without one, where the document has -1 or null.
        properties: table properties.
        refs: branches and tags by name.
    """

    def __init__(
        self,
        fields: Mapping[str, Fragment],
        header: MetadataHeader,
        *,
        properties: Mapping[str, str],
        refs: Mapping[str, SnapshotRef],
        snapshot_index: SnapshotIndex | None = None,
        document: bytes | None = None,
    ) -> None:
        """Assembles a document from parts that are known to agree; `parse` reads one.

        Args:
            fields: the encoded top-level fields, in order.
            header: the scalars among them, decoded.
            properties: `properties`, decoded.
            refs: `refs`, decoded.
            snapshot_index: index of `snapshots`, if known.
            document: the whole document, encoded, if known.
        """
        self._fields = dict(fields) if document is not None else _settled(fields)
        # a parsed document keeps its bytes, those between its fields included
        self._pieces = (document,) if document is not None else tuple(runs(_pieces(self._fields)))
        self.header = header
        self.format_version = header.format_version
        self.table_uuid = header.table_uuid
        self.location = header.location
        self.last_sequence_number = header.last_sequence_number
        self.last_updated_ms = header.last_updated_ms
        self.last_column_id = header.last_column_id
        self.current_schema_id = header.current_schema_id
        self.default_spec_id = header.default_spec_id
        self.default_sort_order_id = header.default_sort_order_id
        self.next_row_id = header.next_row_id
        self.current_snapshot_id = header.current_snapshot_id
        self.properties: Mapping[str, str] = MappingProxyType(dict(properties))
        self.refs: Mapping[str, SnapshotRef] = MappingProxyType(dict(refs))
        self._snapshot_index = snapshot_index

    @classmethod
    def parse(cls, data: bytes) -> TableMetadata:
        """Reads a metadata document of format version 1, 2 or 3.

        Snapshots, schemas and logs are checked when first used; `floecat.iceberg.metadata.integrity` checks a
        document from elsewhere in full.

        Raises:
            InvalidMetadataError: malformed, of another format version, or a required field is missing or of
                another type. The message never quotes the document.
        """
        return cls.of(split_document(data), data)

    @classmethod
    def of(cls, fields: Mapping[str, Fragment], document: bytes | None = None) -> TableMetadata:
        """Reads a document that is already split; see `parse`.

        Args:
            fields: the encoded top-level fields, in order.
            document: the whole document, if known.

        Raises:
            BoundExceededError: its definitions are larger than `floecat.limits` allows.
            InvalidMetadataError: see `parse`.
        """
        present = {
            name: fragment for name, fragment in fields.items() if not is_null(fragment_bytes(fragment))
        }
        _check_size(present)
        header = read_header(present)  # first, as another version may have other fields
        _check_arrays(present)
        properties = _decode_small(present, "properties", dict[str, str])
        refs = _decode_small(present, "refs", dict[str, SnapshotRef])
        if header.current_snapshot_id is not None:
            # "There is always a main branch reference" (table specification, "Table Metadata Fields")
            refs.setdefault(MAIN_BRANCH, SnapshotRef(header.current_snapshot_id, "branch"))
        return cls(fields, header, properties=properties, refs=refs, document=document)

    def check_bounds(self) -> None:
        """Refuses a document that `parse` would refuse for its size, before it is written.

        Raises:
            BoundExceededError: it exceeds a bound of `floecat.limits`.
        """
        _check_size(self._fields)
        if self._snapshot_index is not None:
            check_number_of_snapshots(len(self._snapshot_index))

    # -- encoding -------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The JSON document: the bytes it was parsed from, or the pieces joined once."""
        return self._document

    @cached_property
    def _document(self) -> bytes:
        return b"".join(self._pieces)

    def pieces(self) -> Sequence[Piece]:
        """The document in pieces. Large ones are the same objects as in the previous document."""
        return self._pieces

    @property
    def size_bytes(self) -> int:
        """Length of the document."""
        return fragment_size(self._pieces)

    def refs_only_bytes(self) -> bytes:
        """The document with only the snapshots that a branch or tag points at directly (`snapshots=refs`)."""
        return self._refs_only

    @property
    def has_refs_only_bytes(self) -> bool:
        """Whether `refs_only_bytes` has been computed."""
        return "_refs_only" in self.__dict__

    @cached_property
    def _refs_only(self) -> bytes:
        array = fragment_bytes(self.array("snapshots"))
        wanted = {ref.snapshot_id for ref in self.refs.values()}
        selected = self.snapshot_index.select(array, wanted)
        if len(selected) == len(self.snapshot_index):
            return self.to_bytes()
        return b"".join(_pieces(self._fields | {"snapshots": array_of(selected)}))

    @property
    def fields(self) -> Mapping[str, Fragment]:
        """The encoded top-level fields, in order; not to be changed."""
        return self._fields

    def array(self, name: str) -> Fragment:
        """A top-level array, encoded: `[]` if absent; schemas, specs and orders of old v1 documents as lists.

        Raises:
            InvalidMetadataError: the single schema or spec of an old v1 document cannot be read.
        """
        fragment = self._fields.get(name)
        if fragment is None or fragment == NULL:
            return self._legacy_array(name)
        return fragment

    def _legacy_array(self, name: str) -> Fragment:
        match name:
            case "schemas":
                schema = self._legacy("schema", parse_schema)
                return array_of([schema.with_schema_id(schema.schema_id).raw])
            case "partition-specs":
                return array_of([encode_json(self._legacy("partition-spec", _read_v1_spec))])
            case "sort-orders":
                return array_of([encode_json(UNSORTED)])
            case _:
                return EMPTY_ARRAY

    def _legacy(self, name: str, read: Callable[[RawJson], T]) -> T:
        try:
            return read(fragment_bytes(self._fields[name]))
        except IllegalArgumentError as error:
            raise InvalidMetadataError(f"Invalid table metadata: {error.message}") from None

    def _elements(self, name: str, read: Callable[[RawJson], T]) -> tuple[T, ...]:
        elements = split_array(self.array(name), name)
        try:
            return tuple(read(element) for element in elements)
        except IllegalArgumentError as error:
            raise InvalidMetadataError(f"Invalid table metadata: {error.message}") from None

    # -- snapshots ------------------------------------------------------------------------------------------

    @property
    def snapshot_index(self) -> SnapshotIndex:
        """Index over the encoded snapshots; decoded when first asked for."""
        if self._snapshot_index is None:
            self._snapshot_index = SnapshotIndex.of(fragment_bytes(self.array("snapshots")))
        return self._snapshot_index

    @property
    def known_snapshot_index(self) -> SnapshotIndex | None:
        """The index, if it was needed before."""
        return self._snapshot_index

    @property
    def snapshots(self) -> Sequence[SnapshotSummary]:
        """All snapshots, in the order of the document."""
        return self.snapshot_index.summaries

    def snapshot(self, snapshot_id: int) -> SnapshotSummary | None:
        """The snapshot with an id, None if it is missing."""
        return self.snapshot_index.get(snapshot_id)

    def snapshot_bytes(self, snapshot_id: int) -> Piece:
        """The encoded snapshot with an id, all its fields included.

        Raises:
            KeyError: it is missing.
        """
        return self.snapshot_index.slice(fragment_bytes(self.array("snapshots")), snapshot_id)

    @cached_property
    def snapshot_log(self) -> Sequence[SnapshotLogEntry]:
        """The times when snapshots became current, oldest first."""
        return parse_snapshot_log(self.array("snapshot-log"))

    @cached_property
    def metadata_log(self) -> Sequence[MetadataLogEntry]:
        """The previous metadata files, oldest first."""
        return parse_metadata_log(self.array("metadata-log"))

    @cached_property
    def statistics(self) -> Sequence[StatisticsFile]:
        """Statistics files."""
        return self._structs("statistics", StatisticsFile)

    @cached_property
    def partition_statistics(self) -> Sequence[PartitionStatisticsFile]:
        """Partition statistics files."""
        return self._structs("partition-statistics", PartitionStatisticsFile)

    @cached_property
    def encryption_keys(self) -> Sequence[EncryptedKey]:
        """Encrypted keys."""
        return self._structs("encryption-keys", EncryptedKey)

    def _structs(self, name: str, type: type[T]) -> tuple[T, ...]:
        return self._elements(name, lambda element: decode_json(element, type, name))

    @property
    def has_row_lineage(self) -> bool:
        """Whether each row has an id and the sequence number of its last change."""
        return self.format_version >= 3

    # -- schemas, specs and orders --------------------------------------------------------------------------

    @cached_property
    def schemas(self) -> Sequence[Schema]:
        """All schemas, in the order of the document."""
        return self._elements("schemas", parse_schema)

    @property
    def current_schema(self) -> Schema:
        """The current schema.

        Raises:
            InvalidMetadataError: it is missing from the document.
        """
        for schema in self.schemas:
            if schema.schema_id == self.current_schema_id:
                return schema
        raise InvalidMetadataError(
            f"Cannot find schema with current-schema-id={self.current_schema_id} from schemas"
        )

    @cached_property
    def partition_specs(self) -> Sequence[PartitionSpec]:
        """All partition specs, in the order of the document."""
        return self._elements("partition-specs", parse_partition_spec)

    @cached_property
    def sort_orders(self) -> Sequence[SortOrder]:
        """All sort orders, in the order of the document."""
        return self._elements("sort-orders", parse_sort_order)

    @cached_property
    def last_partition_id(self) -> int:
        """Highest partition field id ever assigned."""
        if self.header.last_partition_id is not None:
            return self.header.last_partition_id
        return max((spec.last_field_id for spec in self.partition_specs), default=NO_PARTITION_FIELD_ID)


def split_document(data: bytes) -> dict[str, Fragment]:
    """The encoded top-level fields of a metadata document, in order.

    Raises:
        BoundExceededError: its definitions are larger than `floecat.limits` allows.
        InvalidMetadataError: it is not a JSON object in UTF-8.
    """
    try:
        _check_utf8(data)
        fields = decode_fields(data, "table metadata")
    except UnicodeDecodeError:
        raise InvalidMetadataError("Invalid table metadata: not valid UTF-8") from None
    except IllegalArgumentError as error:
        raise InvalidMetadataError(error.message) from None
    split: dict[str, Fragment] = {name: (memoryview(value),) for name, value in fields.items()}
    _check_size(split)
    return split


def _check_utf8(data: bytes) -> None:
    # decoded at once, a document with one wide character takes four times its size
    decoder, view = getincrementaldecoder("utf-8")(), memoryview(data)
    for start in range(0, len(data), _DECODED_AT_ONCE):
        decoder.decode(view[start : start + _DECODED_AT_ONCE])
    decoder.decode(b"", final=True)


def _check_size(fields: Mapping[str, Fragment]) -> None:
    sizes = {name: fragment_size(fragment) for name, fragment in fields.items() if name != "snapshots"}
    logs = [sizes.pop(name, 0) for name in _LOGS]
    if max(sum(sizes.values()), *logs) > process_bounds.limits.definition_bytes:
        problem = "beside snapshots it has more bytes than"
        raise exceeded(process_bounds.limits, "definition_bytes", "table metadata", problem)


def _settled(fields: Mapping[str, Fragment]) -> dict[str, Fragment]:
    """The fields without views, which would keep the previous document alive; growing arrays in blocks."""
    return {
        name: fragment
        if name not in _GROWING and len(fragment) == 1 and type(fragment[0]) is bytes
        else (name in _GROWING and blocks_of(fragment)) or (bytes(fragment_bytes(fragment)),)
        for name, fragment in fields.items()
    }


def _check_arrays(fields: Mapping[str, Fragment]) -> None:
    for name in _ARRAYS:
        if name in fields and bytes(fields[name][0][:1]) != b"[":
            raise InvalidMetadataError(f"Invalid table metadata: {name} is not an array")


def _decode_small(fields: Mapping[str, Fragment], name: str, type: type[T]) -> T:
    if name not in fields:
        return type()
    try:
        return msgspec.json.decode(fragment_bytes(fields[name]), type=type)
    except (msgspec.MsgspecError, UnicodeError):
        raise InvalidMetadataError(f"Invalid table metadata: cannot parse {name}") from None


def _pieces(fields: Mapping[str, Fragment]) -> list[Piece]:
    pieces: list[Piece] = []
    for name, fragment in fields.items():
        pieces += (_LABELS.get(name) or _label(name), *fragment)
    if pieces:
        pieces[0] = b"{" + pieces[0][1:]
    return [*pieces, b"}"] if pieces else [b"{}"]


def _label(name: str) -> bytes:
    return b"," + encode_json(name) + b":"


_LABELS: Final = {name: _label(name) for name in FIELD_ORDER}


def _read_v1_spec(raw: RawJson) -> PartitionSpec:
    spec = parse_partition_spec(b'{"spec-id":0,"fields":' + bytes(raw) + b"}")
    if any(field.field_id is not None for field in spec.fields):
        return spec
    numbered = (
        msgspec.structs.replace(field, field_id=field_id)
        for field_id, field in enumerate(spec.fields, FIRST_PARTITION_FIELD_ID)
    )
    return PartitionSpec(0, tuple(numbered))


def metadata_file_location(
    metadata: TableMetadata, version: int, uuid: UUID | str, *, gzip_above_bytes: int = 0
) -> str:
    """The location of a metadata file: in `write.metadata.path`, otherwise in `metadata` below the table.

    Args:
        metadata: the document to write.
        version: one more than that of the previous file, 0 for the first; see `metadata_version`.
        uuid: makes the name unique.
        gzip_above_bytes: larger documents are compressed unless the table names a codec; 0 for never.

    Raises:
        IllegalArgumentError: `write.metadata.compression-codec` is neither `none` nor `gzip`.
    """
    default: Codec = "gzip" if 0 < gzip_above_bytes < metadata.size_bytes else "none"
    return metadata_file_name(metadata.location, metadata.properties, version, uuid, default_codec=default)
