"""Creation, replacement and registration of views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.auth.authorizer import Privilege
from floecat.catalog.load_table import etag_of
from floecat.catalog.replayed_answers import ViewAnswer
from floecat.commits.table_registration import read_metadata_file
from floecat.entries.calls import Call, LoadedView
from floecat.entries.entry_locations import (
    check_locations,
    check_not_chosen,
    chosen_location,
    is_default,
    named_locations,
)
from floecat.entries.formats import TableFormats
from floecat.entries.names import check_owns_view, missing_view, namespace_for
from floecat.entries.open_entries import EntryParts
from floecat.entries.overlaps import entry_folders
from floecat.entries.prepared_changes import AnyPrepared, Prepared
from floecat.iceberg.metadata.properties import metadata_version
from floecat.iceberg.values.text_limits import check_stored_text
from floecat.iceberg.views.normalization import normalize_view
from floecat.iceberg.views.view_builder import (
    apply_view_updates,
    check_view_requirements,
    new_view_metadata,
    view_metadata_file_location,
)
from floecat.iceberg.views.view_integrity import check_view_integrity
from floecat.iceberg.views.view_metadata import ViewMetadata
from floecat.iceberg.views.view_updates import ViewRequirement, ViewUpdate
from floecat.identifiers.namespace import Namespace, TableIdentifier

__all__ = ["CreateView", "ViewCommitService", "checked_view"]


class CreateView(msgspec.Struct, frozen=True, rename="kebab"):
    """A request to create a view (Iceberg REST specification, `CreateViewRequest`)."""

    name: str
    schema: msgspec.Raw
    view_version: msgspec.Raw
    properties: dict[str, str] | None = None
    """Required by the specification; the reference client leaves an empty map out."""
    location: str | None = None


class ViewCommitService:
    """Writes view metadata."""

    def __init__(self, parts: EntryParts, formats: TableFormats) -> None:
        """`formats` say which views take commits."""
        self._formats = formats
        self._store = parts.store
        self._clock = parts.clock
        self._entries = parts.entries
        self._files = parts.files
        self._writes = parts.writes

    def create(self, call: Call, namespace: Namespace, request: CreateView) -> LoadedView:
        """Creates a view.

        Raises:
            BadRequestError: a name or a location is malformed.
            IllegalArgumentError: schema or version break the view specification.
            ForbiddenError: the principal may not create the view.
            NoSuchNamespaceError: the namespace does not exist.
            AlreadyExistsError: the name is taken, by a table or a view.
            LocationNotAllowedError: the view would live outside the allowed locations.
        """
        identifier = TableIdentifier(namespace, request.name)

        def prepare() -> Prepared[ViewMetadata]:
            row = namespace_for(self._store, call, "view", identifier, Privilege.CREATE_VIEW)
            view_uuid = uuids.uuid7()
            location = chosen_location(request.location, call.catalog, row.properties, identifier, view_uuid)
            metadata = new_view_metadata(
                schema=request.schema,
                view_version=request.view_version,
                properties=request.properties or {},
                location=location,
                view_uuid=str(view_uuid),
                now_ms=self._clock.now_ms(),
            )
            is_given = is_default(call.catalog, row.properties, identifier, location)
            check_not_chosen(call.catalog, location, metadata.properties, is_given=is_given)
            check_locations(call.catalog.allowed, metadata.location, metadata.properties)
            file = view_metadata_file_location(metadata, 0, uuids.uuid7())
            return _new_view(identifier, metadata, file, row.id, "create", writes_file=True)

        return self._run(call, identifier, prepare, Privilege.CREATE_VIEW)

    def replace(
        self,
        call: Call,
        identifier: TableIdentifier,
        requirements: Sequence[ViewRequirement],
        updates: Sequence[ViewUpdate],
    ) -> LoadedView:
        """Applies updates to a view.

        Raises:
            ForbiddenError: the principal may not write the view, or does not own it where it reads with the
                rights of its owner.
            NoSuchViewError: the view does not exist.
            CommitFailedError: a requirement does not hold on the newest metadata.
            IllegalArgumentError: an update breaks the view specification.
            CommitStateUnknownError: the commit may have been applied.
        """

        def prepare() -> Prepared[ViewMetadata]:
            entry = self._entries.find_view(call, identifier, Privilege.WRITE_VIEW)
            if entry is None:
                raise missing_view(identifier)
            self._formats.of(entry.row).check_writable(entry.row, identifier)
            if entry.row.definer:
                with self._store.read() as conn:
                    check_owns_view(conn, call, identifier, entry.row.owner_id)
            base = entry.document.parsed()
            check_view_requirements(requirements, base)
            applied = apply_view_updates(base, updates, now_ms=self._clock.now_ms())
            metadata = applied.metadata
            location = entry.row.metadata_location
            if applied.changed:
                check_locations(
                    call.catalog.allowed,
                    metadata.location,
                    metadata.properties,
                    base.properties,
                    base.location,
                )
                version = metadata_version(location) + 1
                location = view_metadata_file_location(metadata, version, uuids.uuid7())
            moved = named_locations(metadata.location, metadata.properties) != named_locations(
                base.location, base.properties
            )
            if moved:
                is_given = metadata.location == base.location
                check_not_chosen(call.catalog, metadata.location, metadata.properties, is_given=is_given)
            return Prepared(
                identifier=identifier,
                kind="view",
                operation="commit",
                folders=entry_folders(metadata.location, metadata.properties) if moved else (),
                metadata=metadata,
                metadata_location=location,
                object_uuid=entry.row.object_uuid,
                location=metadata.location,
                format_version=metadata.format_version,
                base=entry.row,
                namespace_id=entry.row.namespace_id,
            )

        return self._run(call, identifier, prepare, Privilege.WRITE_VIEW)

    def register(self, call: Call, namespace: Namespace, name: str, metadata_location: str) -> LoadedView:
        """Makes a view of a metadata file.

        Raises:
            BadRequestError: a name or the location is malformed, or there is no such file.
            InvalidMetadataError: the file is not view metadata.
            ForbiddenError: the principal may not register the view.
            LocationNotAllowedError: the file or the view lies outside the allowed locations.
            NoSuchNamespaceError: the namespace does not exist.
            AlreadyExistsError: the name is taken, by a table or a view.
        """
        identifier = TableIdentifier(namespace, name)

        def prepare() -> Prepared[ViewMetadata]:
            row = namespace_for(self._store, call, "view", identifier, Privilege.REGISTER_VIEW)
            data = read_metadata_file(self._files, call, metadata_location)
            metadata = checked_view(call, data)
            return _new_view(identifier, metadata, metadata_location, row.id, "register", writes_file=False)

        return self._run(call, identifier, prepare, Privilege.REGISTER_VIEW)

    def _run(
        self,
        call: Call,
        identifier: TableIdentifier,
        prepare: Callable[[], Prepared[ViewMetadata]],
        needed: Privilege,
    ) -> LoadedView:
        return self._writes.apply(
            call,
            [identifier],
            lambda: [prepare()],
            partial(_answer, call),
            ViewAnswer(),
            (needed, call.on_entry("view", identifier)),
        )


def checked_view(call: Call, data: bytes) -> ViewMetadata:
    """The document of a view that another writer made, normalised.

    Raises:
        InvalidMetadataError: it is no view metadata.
        LocationNotAllowedError: the view lies outside the allowed locations.
    """
    metadata = ViewMetadata.parse(normalize_view(data))
    check_stored_text(metadata.view_uuid, "view-uuid")
    check_view_integrity(metadata)
    check_locations(call.catalog.allowed, metadata.location, metadata.properties, is_new=False)
    return metadata


def _answer(call: Call, changes: Sequence[AnyPrepared]) -> LoadedView:
    change = changes[0]
    return LoadedView(
        change.metadata.to_bytes(),
        change.metadata_location,
        call.catalog.storage.client_config(change.location),
        etag_of(change.state),
    )


def _new_view(
    identifier: TableIdentifier,
    metadata: ViewMetadata,
    metadata_location: str,
    namespace_id: UUID,
    operation: str,
    *,
    writes_file: bool,
) -> Prepared[ViewMetadata]:
    return Prepared(
        identifier=identifier,
        kind="view",
        operation=operation,
        metadata=metadata,
        metadata_location=metadata_location,
        object_uuid=metadata.view_uuid,
        location=metadata.location,
        format_version=metadata.format_version,
        base=None,
        folders=entry_folders(metadata.location, metadata.properties, metadata_location),
        namespace_id=namespace_id,
        writes_file=writes_file,
    )
