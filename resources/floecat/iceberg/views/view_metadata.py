"""View metadata documents (Iceberg view specification, format version 1).

A document is parsed once and never changed. Fields that the specification does not name stay: fields are kept
as the bytes they came in, and `floecat.iceberg.views.view_builder` makes a new document by replacing whole
fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from floecat.errors import InvalidMetadataError
from floecat.iceberg.values.encoded_json import Int32, Int64

__all__ = [
    "SUPPORTED_VIEW_FORMAT_VERSION",
    "VersionLogEntry",
    "ViewMetadata",
    "ViewRepresentation",
    "ViewSchema",
    "ViewVersion",
]

T = TypeVar("T")

_behaviour_encoder = msgspec.json.Encoder(order="deterministic")

SUPPORTED_VIEW_FORMAT_VERSION = 1
"""The only format version in the specification."""


class ViewRepresentation(msgspec.Struct, frozen=True):
    """A way to express a view. `sql` and `dialect` are set when `type` is `sql`, the only type so far."""

    type: str
    sql: str | None = None
    dialect: str | None = None

    @property
    def sql_dialect(self) -> str | None:
        """The dialect in lower case, which is how dialects are compared; `None` unless the type is `sql`."""
        if self.type.lower() != "sql" or self.dialect is None:
            return None
        return self.dialect.lower()


class VersionLogEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """The time when a version became the current one."""

    timestamp_ms: Int64
    version_id: Int32


class ViewSchema(msgspec.Struct, frozen=True):
    """A schema of a view, as it stands in the document."""

    schema_id: int
    encoded: bytes
    """The JSON object."""


class _VersionFields(msgspec.Struct, frozen=True, rename="kebab"):
    version_id: Int32
    schema_id: Int32
    timestamp_ms: Int64
    summary: dict[str, str]
    representations: list[ViewRepresentation]
    default_namespace: list[str]
    default_catalog: str | None = None


class ViewVersion(msgspec.Struct, frozen=True):
    """An immutable version of a view: its definition, and where its unqualified names resolve."""

    version_id: int
    schema_id: int
    timestamp_ms: int
    summary: Mapping[str, str]
    representations: Sequence[ViewRepresentation]
    default_namespace: tuple[str, ...]
    default_catalog: str | None
    encoded: bytes
    """The JSON object, with the fields that this struct does not name."""

    @classmethod
    def parse(cls, encoded: bytes) -> ViewVersion:
        """Reads the JSON object of a version.

        Raises:
            InvalidMetadataError: a required field is missing or of the wrong type.
        """
        fields = _decode(encoded, _VersionFields, "view version")
        for representation in fields.representations:
            _check_representation(representation)
        return cls(
            version_id=fields.version_id,
            schema_id=fields.schema_id,
            timestamp_ms=fields.timestamp_ms,
            summary=MappingProxyType(fields.summary),
            representations=tuple(fields.representations),
            default_namespace=tuple(fields.default_namespace),
            default_catalog=fields.default_catalog,
            encoded=encoded,
        )

    @property
    def sql_dialects(self) -> frozenset[str]:
        """Dialects of the SQL representations, in lower case."""
        return frozenset(
            dialect for item in self.representations if (dialect := item.sql_dialect) is not None
        )

    def with_ids(self, *, version_id: int, schema_id: int) -> ViewVersion:
        """The same version under other ids; itself if they do not change."""
        if (version_id, schema_id) == (self.version_id, self.schema_id):
            return self
        fields: dict[str, Any] = msgspec.json.decode(self.encoded, type=dict[str, msgspec.Raw])
        fields |= {"version-id": version_id, "schema-id": schema_id}
        return ViewVersion.parse(msgspec.json.encode(fields))

    def behaviour(self) -> bytes:
        """A key that is equal for versions that differ in nothing but their ids and their time of creation.

        Fields that the specification does not name count too. An absent field equals `null`.
        """
        fields: dict[str, object] = msgspec.json.decode(self.encoded)
        ignored = {"version-id", "timestamp-ms"}
        return _behaviour_encoder.encode(
            {name: value for name, value in fields.items() if name not in ignored and value is not None}
        )


class _SchemaId(msgspec.Struct, frozen=True, rename="kebab"):
    schema_id: Int32 = 0


class _FormatVersion(msgspec.Struct, frozen=True, rename="kebab"):
    format_version: Int32


class _Document(msgspec.Struct, frozen=True, rename="kebab"):
    view_uuid: str
    format_version: Int32
    location: str
    current_version_id: Int32
    schemas: list[msgspec.Raw]
    versions: list[msgspec.Raw]
    version_log: list[VersionLogEntry]
    properties: dict[str, str] | None = None


class ViewMetadata:
    """A view metadata document. Immutable.

    Attributes:
        view_uuid: identity of the view; never changes.
        format_version: format version of the document.
        location: base location, from which locations of metadata files derive.
        current_version_id: id of the current version; one of `versions` has it.
        properties: settings and comments.
        versions: known versions by id, in the order of the document.
        version_log: every change of the current version, oldest first.
        schemas: known schemas by id, in the order of the document.
    """

    __slots__ = (
        "_encoded",
        "current_version_id",
        "format_version",
        "location",
        "properties",
        "schemas",
        "version_log",
        "versions",
        "view_uuid",
    )

    def __init__(self, document: _Document, encoded: bytes) -> None:
        self._encoded = encoded
        self.view_uuid = document.view_uuid
        self.format_version = document.format_version
        self.location = document.location
        self.current_version_id = document.current_version_id
        self.properties: Mapping[str, str] = MappingProxyType(document.properties or {})
        self.version_log: Sequence[VersionLogEntry] = tuple(document.version_log)
        self.versions: Mapping[int, ViewVersion] = _versions_by_id(document.versions)
        self.schemas: Mapping[int, ViewSchema] = _schemas_by_id(document.schemas)

    @classmethod
    def parse(cls, data: bytes) -> ViewMetadata:
        """Reads and checks a document.

        Raises:
            InvalidMetadataError: it is not view metadata, or breaks the specification. The message names the
                field, never its value.
        """
        try:
            document = _decode(data, _Document, "view metadata")
        except InvalidMetadataError:
            # the version is named first, as another one may have other fields
            _check_format_version(_decode(data, _FormatVersion, "view metadata").format_version)
            raise
        _check_format_version(document.format_version)
        _check_header(document)
        metadata = cls(document, data)
        _check_current_version(metadata)
        return metadata

    def to_bytes(self) -> bytes:
        """The JSON document; of a parsed one, exactly the bytes it was parsed from."""
        return self._encoded

    def fields(self) -> dict[str, msgspec.Raw]:
        """Top-level fields in the order of the document, encoded; a new dict each time."""
        return msgspec.json.decode(self._encoded, type=dict[str, msgspec.Raw])

    def encoded_version_log(self) -> list[msgspec.Raw]:
        """The entries of the version log, encoded; a new list each time."""
        return msgspec.json.decode(self.fields()["version-log"], type=list[msgspec.Raw])

    def pieces(self) -> Sequence[bytes]:
        """The document in pieces: one, as views are small."""
        return (self.to_bytes(),)

    @property
    def size_bytes(self) -> int:
        """Size of the JSON document."""
        return len(self._encoded)

    @property
    def current_version(self) -> ViewVersion:
        """The version that engines execute."""
        return self.versions[self.current_version_id]

    @property
    def current_schema(self) -> ViewSchema:
        """The schema of the current version."""
        return self.schemas[self.current_version.schema_id]


def _decode(data: bytes, kind: type[T], what: str) -> T:
    try:
        data.decode()  # msgspec does not check the parts that stay encoded
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # msgspec names the field and the expected type; it quotes no values of these structs
        raise InvalidMetadataError(f"Cannot parse {what}: {error}") from None


def _check_representation(representation: ViewRepresentation) -> None:
    if representation.type.lower() != "sql":
        return
    if representation.sql is None or representation.dialect is None:
        raise InvalidMetadataError(
            "Cannot parse view version: a SQL representation needs `sql` and `dialect`"
        )


def _check_format_version(version: int) -> None:
    if version != SUPPORTED_VIEW_FORMAT_VERSION:
        raise InvalidMetadataError(
            f"Unsupported format version: {version} (supported: {SUPPORTED_VIEW_FORMAT_VERSION})"
        )


def _check_header(document: _Document) -> None:
    if not document.location:
        raise InvalidMetadataError("Cannot parse view metadata: `location` is empty")
    try:
        UUID(document.view_uuid)
    except ValueError:
        raise InvalidMetadataError("Cannot parse view metadata: `view-uuid` is not a UUID") from None


def _versions_by_id(encoded: list[msgspec.Raw]) -> Mapping[int, ViewVersion]:
    versions = [ViewVersion.parse(bytes(raw)) for raw in encoded]
    by_id = {version.version_id: version for version in versions}
    if len(by_id) != len(versions):
        raise InvalidMetadataError("Cannot parse view metadata: two versions have the same id")
    return MappingProxyType(by_id)


def _schemas_by_id(encoded: list[msgspec.Raw]) -> Mapping[int, ViewSchema]:
    # a schema without an id is schema 0, as in tables with one schema
    schemas = [
        ViewSchema(_decode(bytes(raw), _SchemaId, "view schema").schema_id, bytes(raw)) for raw in encoded
    ]
    by_id = {schema.schema_id: schema for schema in schemas}
    if len(by_id) != len(schemas):
        raise InvalidMetadataError("Cannot parse view metadata: two schemas have the same id")
    return MappingProxyType(by_id)


def _check_current_version(metadata: ViewMetadata) -> None:
    version = metadata.versions.get(metadata.current_version_id)
    if version is None:
        raise InvalidMetadataError(
            f"Cannot find current version {metadata.current_version_id}"
            f" in view versions: {list(metadata.versions)}"
        )
    if version.schema_id not in metadata.schemas:
        raise InvalidMetadataError(
            f"Cannot find current schema with id {version.schema_id} in schemas: {list(metadata.schemas)}"
        )
