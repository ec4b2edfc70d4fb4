"""New view metadata, and view metadata with updates applied (Iceberg view specification).

A version is immutable. The catalog decides its id and the id of its schema: the client chose those that it
sends from the metadata that it last saw, and another client may have used them since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from floecat.errors import CommitFailedError, IllegalArgumentError
from floecat.iceberg.metadata.properties import check_property_count, metadata_file_name, strip_trailing_slash
from floecat.iceberg.updates import (
    LAST_ADDED,
    AddSchema,
    AssignUuid,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from floecat.iceberg.views.view_metadata import (
    SUPPORTED_VIEW_FORMAT_VERSION,
    VersionLogEntry,
    ViewMetadata,
    ViewSchema,
    ViewVersion,
)
from floecat.iceberg.views.view_updates import (
    AddViewVersion,
    SetCurrentViewVersion,
    ViewRequirement,
    ViewUpdate,
)
from floecat.iceberg.views.view_versions import (
    ViewSchemas,
    ViewVersions,
    check_dialects_kept,
    expired_log_entries,
    read_new_version,
    retained_versions,
)

__all__ = [
    "AppliedViewUpdates",
    "apply_view_updates",
    "check_view_requirements",
    "new_view_metadata",
    "view_metadata_file_location",
]


class AppliedViewUpdates(NamedTuple):
    """The outcome of updates."""

    metadata: ViewMetadata
    changed: bool
    """`False` if the updates have no effect; then `metadata` is the one they were applied to."""


def new_view_metadata(
    *,
    schema: bytes | msgspec.Raw,
    view_version: bytes | msgspec.Raw,
    properties: Mapping[str, str],
    location: str,
    view_uuid: str,
    now_ms: int,
) -> ViewMetadata:
    """The first metadata of a view.

    The schema becomes schema 0, whatever id it carries, and the version refers to it. Everything else about
    the version stays as it was sent: an empty `default-namespace` stays empty and an absent
    `default-catalog` absent, since both decide how unqualified names resolve.

    Args:
        schema: JSON object of the schema.
        view_version: JSON object of the version.
        properties: properties of the view.
        location: base location.
        view_uuid: identity of the new view.
        now_ms: time of the creation; the log takes the time that the version carries.

    Raises:
        IllegalArgumentError: the schema or the version breaks a rule of the specification.
    """
    del now_ms  # the version carries its own time
    version = read_new_version(bytes(view_version))
    change = _Change.blank(location=location, view_uuid=view_uuid, properties=properties)
    version = version.with_ids(version_id=version.version_id, schema_id=change.schemas.add(bytes(schema)))
    change.set_current(change.versions.add(version, change.schemas), version.timestamp_ms)
    return change.build(previous=None)


def apply_view_updates(
    base: ViewMetadata, updates: Sequence[ViewUpdate], *, now_ms: int
) -> AppliedViewUpdates:
    """Applies updates in order.

    Args:
        base: the current metadata.
        updates: what to change.
        now_ms: when, if a version that existed before becomes the current one.

    Raises:
        IllegalArgumentError: an update breaks a rule of the specification, or the new current version has
            lost a SQL dialect although `replace.drop-dialect.allowed` is not set.
    """
    change = _Change.of(base)
    for update in updates:
        change.apply(update, now_ms)
    if not change.differs_from(base):
        return AppliedViewUpdates(base, changed=False)
    return AppliedViewUpdates(change.build(previous=base), changed=True)


def check_view_requirements(requirements: Sequence[ViewRequirement], metadata: ViewMetadata) -> None:
    """Checks what a change requires of the current metadata.

    Raises:
        CommitFailedError: a requirement does not hold.
    """
    for requirement in requirements:
        if requirement.uuid.lower() != metadata.view_uuid.lower():
            raise CommitFailedError(
                "Requirement failed: view UUID does not match: "
                f"expected {metadata.view_uuid} != {requirement.uuid}"
            )


def view_metadata_file_location(metadata: ViewMetadata, version: int, uuid: UUID | str) -> str:
    """The location of a metadata file: in `write.metadata.path`, otherwise in `metadata` below the view.

    Args:
        metadata: the document to write.
        version: one more than that of the previous file, 0 for the first.
        uuid: makes the name unique, so that racing commits never write the same file.

    Raises:
        IllegalArgumentError: `write.metadata.compression-codec` is neither `none` nor `gzip`.
    """
    location = strip_trailing_slash(metadata.location)
    return metadata_file_name(location, metadata.properties, version, uuid)


class _Change:
    """View metadata while updates change it."""

    def __init__(
        self,
        *,
        fields: dict[str, object],
        view_uuid: str,
        location: str,
        properties: dict[str, str],
        schemas: Mapping[int, ViewSchema],
        versions: Mapping[int, ViewVersion],
        current_version_id: int,
    ) -> None:
        self.fields = fields
        self.view_uuid = view_uuid
        self.location = location
        self.properties = properties
        self.schemas = ViewSchemas(schemas)
        self.versions = ViewVersions(versions)
        self.current_version_id = current_version_id
        self.current_since_ms = 0

    @classmethod
    def blank(cls, *, location: str, view_uuid: str, properties: Mapping[str, str]) -> _Change:
        return cls(
            fields={"view-uuid": view_uuid, "format-version": SUPPORTED_VIEW_FORMAT_VERSION},
            view_uuid=view_uuid,
            location=location,
            properties=dict(properties),
            schemas={},
            versions={},
            current_version_id=LAST_ADDED,
        )

    @classmethod
    def of(cls, base: ViewMetadata) -> _Change:
        return cls(
            fields=dict(base.fields()),
            view_uuid=base.view_uuid,
            location=base.location,
            properties=dict(base.properties),
            schemas=base.schemas,
            versions=base.versions,
            current_version_id=base.current_version_id,
        )

    def apply(self, update: ViewUpdate, now_ms: int) -> None:
        match update:
            case AssignUuid(uuid=uuid):
                if uuid.lower() != self.view_uuid.lower():
                    raise IllegalArgumentError("Cannot reassign uuid")
            case UpgradeFormatVersion(format_version=version):
                _check_upgrade(version)
            case SetLocation(location=location):
                if not location:
                    raise IllegalArgumentError("Invalid location: must not be empty")
                self.location = location
            case SetProperties():
                self.properties |= update.properties
                check_property_count(self.properties)
            case RemoveProperties():
                for name in update.keys:
                    self.properties.pop(name, None)
            case AddSchema(schema=schema):
                self.schemas.add(bytes(schema))
            case AddViewVersion(view_version=encoded):
                self.versions.add(read_new_version(bytes(encoded)), self.schemas)
            case SetCurrentViewVersion(view_version_id=version_id):
                self.select_version(version_id, now_ms)

    def select_version(self, version_id: int, now_ms: int) -> None:
        if version_id == LAST_ADDED:
            if self.versions.last_added_id is None:
                raise IllegalArgumentError("Cannot set last version id: no current version id has been set")
            version_id = self.versions.last_added_id
        version = self.versions.items.get(version_id)
        if version is None:
            raise IllegalArgumentError(f"Cannot set current version to unknown version: {version_id}")
        # an older version becomes current now, long after it was made
        self.set_current(
            version_id, version.timestamp_ms if version_id in self.versions.added_ids else now_ms
        )

    def set_current(self, version_id: int, since_ms: int) -> None:
        self.current_version_id = version_id
        self.current_since_ms = since_ms

    def differs_from(self, base: ViewMetadata) -> bool:
        return (
            self.current_version_id != base.current_version_id
            or self.location != base.location
            or self.properties != base.properties
            or len(self.schemas.items) != len(base.schemas)
            or len(self.versions.items) != len(base.versions)
        )

    def build(self, *, previous: ViewMetadata | None) -> ViewMetadata:
        current = self.versions.items[self.current_version_id]
        check_dialects_kept(previous.current_version if previous else None, current, self.properties)
        versions = retained_versions(
            self.versions.items, current, added_ids=self.versions.added_ids, properties=self.properties
        )
        log = list(previous.version_log) if previous else []
        encoded_log = previous.encoded_version_log() if previous else []
        if previous is None or previous.current_version_id != current.version_id:
            log.append(VersionLogEntry(timestamp_ms=self.current_since_ms, version_id=current.version_id))
            encoded_log.append(msgspec.Raw(msgspec.json.encode(log[-1])))
        expired = expired_log_entries(log, {version.version_id for version in versions})
        self.fields |= {
            "location": self.location,
            "schemas": [msgspec.Raw(schema.encoded) for schema in self.schemas.items.values()],
            "current-version-id": current.version_id,
            "versions": [msgspec.Raw(version.encoded) for version in versions],
            "version-log": encoded_log[expired:],
            "properties": self.properties,
        }
        return ViewMetadata.parse(msgspec.json.encode(self.fields))


def _check_upgrade(format_version: int) -> None:
    if format_version < SUPPORTED_VIEW_FORMAT_VERSION:
        raise IllegalArgumentError(
            f"Cannot downgrade v{SUPPORTED_VIEW_FORMAT_VERSION} view to v{format_version}"
        )
    if format_version > SUPPORTED_VIEW_FORMAT_VERSION:
        raise IllegalArgumentError(
            f"Unsupported format version: {format_version} (supported: {SUPPORTED_VIEW_FORMAT_VERSION})"
        )
