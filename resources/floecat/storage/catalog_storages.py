"""The storages of all catalogs, as the settings of this process describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from floecat.errors import BadRequestError, SettingsError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations, check_new_location, normalize_location
from floecat.fileio.options import AdlsOptions, GcsOptions, ObjectStoreOptions
from floecat.settings import AdlsSettings, CatalogAccessSettings, GcsSettings, Settings, StorageSettings
from floecat.storage.access import StorageAccess
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.catalogs import catalogs
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.database.connections import Connection

__all__ = ["CatalogStorages", "check_locations", "object_store_options", "open_storages"]

OptionsT = TypeVar("OptionsT", GcsOptions, AdlsOptions)


class CatalogStorages:
    """Builds the storage of a catalog once for each version of its row. Safe to share between threads."""

    def __init__(
        self,
        access: StorageAccess,
        by_catalog: Mapping[str, StorageAccess] | None = None,
        *,
        default_account_id: UUID | None = None,
        shared_locations: Sequence[str] = (),
        artifact_locations: Sequence[str] = (),
    ) -> None:
        self._access = access
        self._by_catalog = dict(by_catalog or {})
        self._default_account_id = default_account_id
        self._shared_locations = tuple(shared_locations)
        self._artifact_locations = tuple(artifact_locations)
        self._built: dict[UUID, tuple[object, CatalogStorage]] = {}

    def of(self, row: CatalogRow) -> CatalogStorage:
        """The storage of a catalog: its locations and the shared ones, with the access set for its name."""
        version = (row.account_id, row.name, row.storage_location, row.allowed_locations)
        built = self._built.get(row.id)
        if built is None or built[0] != version:
            roots = (row.storage_location, *row.allowed_locations, *self._shared_locations)
            storage = CatalogStorage(
                AllowedLocations(roots),
                self._access_of(row),
                artifact_locations=self._artifact_locations,
                account_id=row.account_id,
            )
            built = self._built[row.id] = (version, storage)
        return built[1]

    def by_id(self, conn: Connection, catalog_id: UUID) -> CatalogStorage | None:
        """The storage of the catalog of this id; `None` if there is no such catalog."""
        row = catalogs.get(conn, catalog_id)
        return None if row is None else self.of(row)

    def all(self, conn: Connection) -> dict[UUID, CatalogStorage]:
        """The storage of every catalog of every account, by the id of the catalog."""
        return {row.id: self.of(row) for row in catalogs.list_all_accounts(conn)}

    def all_widened(self, conn: Connection) -> dict[UUID, CatalogStorage]:
        """The storages of `all` with artifacts, and locations of other catalogs that mean the same files.

        Catalogs of several accounts may have the same one.
        """
        own = {catalog_id: storage.with_artifacts for catalog_id, storage in self.all(conn).items()}
        first = {storage.access_key: storage for storage in own.values()}
        widened = {key: storage.with_neighbours(own.values()) for key, storage in first.items()}
        return {catalog_id: widened[storage.access_key] for catalog_id, storage in own.items()}

    def _access_of(self, row: CatalogRow) -> StorageAccess:
        # a name alone means a catalog of the default account: choosing a name must not give access to keys
        is_default = row.account_id == self._default_account_id
        return self._by_catalog.get(row.name if is_default else f"{row.account_id}/{row.name}", self._access)


def open_storages(settings: Settings, files: FileIO) -> CatalogStorages:
    """The storages that the settings describe. Nothing is sent before the first call.

    Args:
        files: the storage of catalogs that have no settings of their own; its counters count for all.

    Raises:
        SettingsError: the access of a catalog lacks a part of its key.
    """
    storage, artifacts = settings.storage, settings.gateway.delta_compat.location
    return CatalogStorages(
        StorageAccess.of(object_store_options(storage), fsync=storage.fsync, files=files),
        {
            name: StorageAccess.of(
                _named_options(storage, name, own), fsync=storage.fsync, counters=files.counters
            )
            for name, own in storage.catalogs.items()
        },
        default_account_id=settings.gateway.default_account_id,
        shared_locations=storage.allowed_locations,
        artifact_locations=() if artifacts is None else (str(normalize_location(artifacts)),),
    )


def check_locations(settings: Settings) -> None:
    """Refuses settings with a malformed location.

    Raises:
        SettingsError: such a setting; the message names it.
    """
    gateway = settings.gateway
    storage = settings.storage
    named = [("floecat.storage.allowed-locations", location) for location in storage.allowed_locations]
    named += [("floecat.storage.addable-locations", location) for location in storage.addable_locations]
    written = {
        "floecat.gateway.default-warehouse-path": gateway.default_warehouse_path,
        "floecat.gateway.delta-compat.location": gateway.delta_compat.location,
    }
    named += [(key, location) for key, location in written.items() if location is not None]
    for key, location in named:
        try:
            normalize_location(location)
            if key in written:
                check_new_location(location)
        except BadRequestError as error:
            raise SettingsError(f"{key}: {error.message}") from None


def object_store_options(
    storage: StorageSettings, own: CatalogAccessSettings | None = None
) -> ObjectStoreOptions:
    """The options of object storage.

    Args:
        storage: the settings.
        own: endpoints, regions and keys of a catalog, in place of those of `storage`.

    Raises:
        SettingsError: a part of a key is missing, there are several, or an endpoint is malformed.
    """
    aws, clouds = own or storage.aws, own or storage
    return ObjectStoreOptions(
        region=aws.region,
        endpoint=aws.s3.endpoint,
        path_style_access=aws.s3.path_style_access,
        access_key_id=aws.s3.access_key_id,
        secret_access_key=aws.s3.secret_access_key,
        session_token=aws.s3.session_token,
        gcs=_copied(clouds.gcs, GcsOptions),
        adls=_copied(clouds.adls, AdlsOptions),
        connect_timeout_s=storage.connect_timeout_ms / 1000,
        answer_timeout_s=storage.answer_timeout_ms / 1000,
        request_timeout_s=storage.request_timeout_ms / 1000,
        max_retries=storage.max_retries,
    )


def _named_options(storage: StorageSettings, name: str, own: CatalogAccessSettings) -> ObjectStoreOptions:
    try:
        return object_store_options(storage, own)
    except SettingsError as error:
        raise SettingsError(f"floecat.storage.catalogs.{name}: {error.message}") from None


def _copied(group: GcsSettings | AdlsSettings, options: type[OptionsT]) -> OptionsT:
    # fields of the two have the same names
    return options(**{field: getattr(group, field) for field in options.__struct_fields__})
