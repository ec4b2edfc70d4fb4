"""Storage that a request brings its own access for.

A registration may name the endpoint and keys that its metadata file is read with. They are used for that
one read, and neither kept nor passed on. Locations stay inside the allowed ones whatever the request
says.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from floecat.errors import BadRequestError, SettingsError
from floecat.fileio.base import FileIO
from floecat.fileio.opening import open_fileio
from floecat.fileio.options import ObjectStoreOptions

__all__ = ["RequestFiles"]

_FAMILIES = ("s3.", "s3a.", "s3n.", "fs.", "client.", "aws.", "hadoop.")
_FIELDS = {
    "s3.endpoint": "endpoint",
    "s3.region": "region",
    "client.region": "region",
    "s3.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
    "s3.session-token": "session_token",
    "s3.path-style-access": "path_style_access",
}
_KEYS = frozenset({"access_key_id", "secret_access_key", "session_token"})
"""They belong together: one that a request brings is never completed from the catalog's own."""


class RequestFiles:
    """Opens storage for one request."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled

    def open(self, own: ObjectStoreOptions, properties: Mapping[str, str]) -> FileIO | None:
        """Storage as the properties describe it, or `None` when they do not concern storage.

        Args:
            own: how the catalog itself reaches the storage.
            properties: of the request.

        Raises:
            BadRequestError: a property of storage is unknown or malformed, or this is turned off.
        """
        given = {key: value for key, value in properties.items() if key.startswith(_FAMILIES)}
        if not given:
            return None
        if not self._enabled:
            raise BadRequestError(
                "Storage properties are not taken from requests; "
                "floecat.gateway.register-storage-properties turns that on"
            )
        unknown = sorted(given.keys() - _FIELDS.keys())
        if unknown:
            raise BadRequestError(
                f"Unknown storage property: {unknown[0][:80]} (known: {', '.join(sorted(_FIELDS))})"
            )
        return open_fileio(_merged(own, given))


def _merged(own: ObjectStoreOptions, given: Mapping[str, str]) -> ObjectStoreOptions:
    changes: dict[str, object] = {_FIELDS[key]: value for key, value in given.items()}
    if "path_style_access" in changes:
        changes["path_style_access"] = _boolean(given["s3.path-style-access"])
    if "endpoint" in changes and "access_key_id" not in changes:
        # neither the catalog's keys nor those of its machine sign for an endpoint that a request names
        raise BadRequestError("Invalid storage properties: s3.endpoint needs s3.access-key-id")
    if _KEYS & changes.keys():
        changes = dict.fromkeys(_KEYS) | changes
    try:
        return msgspec.structs.replace(own, **changes)
    except SettingsError as error:
        raise BadRequestError(f"Invalid storage properties: {error.message}") from None


def _boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise BadRequestError("Invalid storage property s3.path-style-access: must be true or false")
    return value.lower() == "true"
