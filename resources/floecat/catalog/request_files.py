"""Storage that a request brings its own access for.

A registration may name the endpoint and keys that its metadata file is read with. They are used for that
one read, and neither kept nor passed on. Locations stay inside the allowed ones whatever the request
says. Names are those of Iceberg's own file IO and of PyIceberg, as in `floecat.storage.client_config`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec

from floecat.errors import BadRequestError, SettingsError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import Location, normalize_location
from floecat.fileio.opening import open_fileio
from floecat.fileio.options import AdlsOptions, GcsOptions, ObjectStoreOptions

__all__ = ["RequestFiles"]

_FAMILIES: Final = ("s3.", "s3a.", "s3n.", "fs.", "client.", "aws.", "hadoop.", "gcs.", "adls.")

_VALUE: Final = re.compile(r"[!-~]+")
"""Values go into URLs and headers. Empty ones would count as missing, and the machine's access be used."""

_TENANT: Final = re.compile(r"[A-Za-z0-9.-]+")

Options = TypeVar("Options", ObjectStoreOptions, GcsOptions, AdlsOptions)


class _Properties(NamedTuple):
    """Properties that a request may set for one kind of storage."""

    endpoint: str
    """Property of the endpoint."""

    fields: Mapping[str, str]
    """Properties, and the fields of the options that they set."""

    credentials: frozenset[str]
    """Fields that belong together: one that a request brings is never completed from the catalog's own."""


_S3: Final = _Properties(
    "s3.endpoint",
    {
        "s3.endpoint": "endpoint",
        "s3.region": "region",
        "client.region": "region",
        "s3.access-key-id": "access_key_id",
        "s3.secret-access-key": "secret_access_key",
        "s3.session-token": "session_token",
        "s3.path-style-access": "path_style_access",
    },
    frozenset({"access_key_id", "secret_access_key", "session_token"}),
)
_GCS: Final = _Properties(
    "gcs.service.host",
    {"gcs.service.host": "endpoint", "gcs.project-id": "project_id", "gcs.oauth2.token": "token"},
    frozenset({"service_account_file", "service_account_key", "token"}),
)


def _adls(host: str) -> _Properties:
    # Java names the host in properties; its "connection string" is an endpoint
    endpoint = f"adls.connection-string.{host}"
    fields = {
        endpoint: "endpoint",
        "adls.account-key": "account_key",
        "adls.auth.shared-key.account.key": "account_key",
        "adls.sas-token": "sas_token",
        f"adls.sas-token.{host}": "sas_token",
        "adls.tenant-id": "tenant_id",
        "adls.client-id": "client_id",
        "adls.client-secret": "client_secret",
    }
    return _Properties(endpoint, fields, frozenset(fields.values()) - {"endpoint"})


class RequestFiles:
    """Opens storage for one request."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled

    def open(self, own: ObjectStoreOptions, location: str, properties: Mapping[str, str]) -> FileIO | None:
        """Storage as the properties describe it, or `None` when they do not concern storage.

        Args:
            own: how the catalog itself reaches the storage.
            location: of the file to read.
            properties: of the request.

        Raises:
            BadRequestError: a property of storage is unknown or malformed, the location is malformed, or this
                is turned off.
        """
        given = {key: value for key, value in properties.items() if key.startswith(_FAMILIES)}
        if not given:
            return None
        if not self._enabled:
            raise BadRequestError(
                "Storage properties are not taken from requests; "
                "floecat.gateway.register-storage-properties turns that on"
            )
        place = normalize_location(location)
        adls = _adls(place.authority.rpartition("@")[2])
        known = {**_S3.fields, **_GCS.fields, **adls.fields}
        unknown = sorted(given.keys() - known.keys())
        if unknown:
            raise BadRequestError(
                f"Unknown storage property: {unknown[0][:80]} (known: {', '.join(sorted(known))})"
            )
        _check_values(given)
        if adls.endpoint in given:
            given[adls.endpoint] = _without_account(adls.endpoint, given[adls.endpoint], place)
        try:
            options = msgspec.structs.replace(
                own, gcs=_merged(own.gcs, _GCS, given), adls=_merged(own.adls, adls, given)
            )
            return open_fileio(_merged(options, _S3, given))
        except SettingsError as error:
            raise BadRequestError(f"Invalid storage properties: {error.message}") from None


def _merged(own: Options, known: _Properties, given: Mapping[str, str]) -> Options:
    changes: dict[str, object] = {known.fields[key]: given[key] for key in given if key in known.fields}
    if "path_style_access" in changes:
        changes["path_style_access"] = _boolean(given["s3.path-style-access"])
    brought = known.credentials & changes.keys()
    if "endpoint" in changes and not brought:
        # neither the catalog's keys nor those of its machine sign for an endpoint that a request names
        raise BadRequestError(f"Invalid storage properties: {known.endpoint} needs credentials beside it")
    if brought:
        changes = dict.fromkeys(known.credentials) | changes
    return msgspec.structs.replace(own, **changes)


def _check_values(given: Mapping[str, str]) -> None:
    for name, value in given.items():
        if not (_TENANT if name == "adls.tenant-id" else _VALUE).fullmatch(value):
            raise BadRequestError(f"Invalid storage property {name}: it is empty or has invalid characters")


def _without_account(name: str, value: str, place: Location) -> str:
    account = place.authority.rpartition("@")[2].partition(".")[0]
    endpoint, _, last = value.rstrip("/").rpartition("/")
    if last != account:
        raise BadRequestError(f"Invalid storage property {name}: must be a URL that ends with /{account}")
    return endpoint


def _boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise BadRequestError("Invalid storage property s3.path-style-access: must be true or false")
    return value.lower() == "true"
