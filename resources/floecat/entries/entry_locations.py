"""Locations of tables and views, kept inside the allowed locations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from uuid import UUID

from floecat.entries.calls import Catalog
from floecat.errors import BadRequestError
from floecat.fileio.locations import AllowedLocations, check_new_location, normalize_location
from floecat.iceberg.metadata.properties import strip_trailing_slash
from floecat.identifiers.encoding import safe_path_segment
from floecat.identifiers.namespace import Namespace, TableIdentifier

__all__ = [
    "PATH_PROPERTIES",
    "check_locations",
    "check_not_chosen",
    "chosen_location",
    "default_location",
    "is_default",
    "named_locations",
    "namespace_location",
]

PATH_PROPERTIES = (
    "write.metadata.path",
    "write.data.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""Properties of tables that say where files go (Apache Iceberg, "Write properties")."""


def namespace_location(catalog: Catalog, namespace: Namespace, properties: Mapping[str, str]) -> str:
    """The `location` property of a namespace, else its folder below the catalog's storage location.

    No other namespace has that folder by default: engines put tables into it without an id of their own.
    There is no slash at the end, since many of them add one.
    """
    if given := properties.get("location"):
        return strip_trailing_slash(given)
    return "/".join((catalog.storage_location, *map(_own_folder, namespace)))


def default_location(
    catalog: Catalog, namespace_properties: Mapping[str, str], identifier: TableIdentifier, object_uuid: UUID
) -> str:
    """A location of its own, in that of the namespace: no other table, past or future, gets the same one."""
    parent = namespace_location(catalog, identifier.namespace, namespace_properties)
    return f"{parent}/{safe_path_segment(identifier.name)}-{object_uuid.hex[-12:]}"


def chosen_location(
    requested: str | None,
    catalog: Catalog,
    namespace_properties: Mapping[str, str],
    identifier: TableIdentifier,
    object_uuid: UUID,
) -> str:
    """The location that a request names, as it names it but for slashes at the end, else the default one."""
    if requested:
        return strip_trailing_slash(requested)
    return default_location(catalog, namespace_properties, identifier, object_uuid)


def is_default(
    catalog: Catalog, namespace_properties: Mapping[str, str], identifier: TableIdentifier, location: str
) -> bool:
    """Whether a location has the form of a default one, as engines make some themselves.

    That is, the folder of the namespace, and the name in it, with or without a UUID.
    """
    parent, name = namespace_location(catalog, identifier.namespace, namespace_properties), identifier.name
    folder, _, last = str(normalize_location(location)).rpartition("/")
    known = (re.escape(each) for each in (name, safe_path_segment(name)))
    is_own = re.fullmatch(f"({'|'.join(known)})(-[0-9a-f-]{{12,36}})?", last)
    return folder == str(normalize_location(parent)) and is_own is not None


def check_not_chosen(
    catalog: Catalog, location: str, properties: Mapping[str, str], *, is_given: bool
) -> None:
    """Refuses locations that a client chose, where clients may not.

    Args:
        catalog: where the table or view is.
        location: of the table or view.
        properties: of the table or view; what they name may lie in the location.
        is_given: whether the location is one that the catalog gives, or gave.

    Raises:
        BadRequestError: a location is malformed, or chosen.
    """
    if catalog.clients_choose:
        return
    own = normalize_location(location)
    if not is_given or not all(
        map(own.contains, map(normalize_location, named_locations(location, properties)))
    ):
        raise BadRequestError(
            "Invalid location: clients choose none here (floecat.gateway.client-locations); leave it out"
        )


def named_locations(location: str, properties: Mapping[str, str]) -> list[str]:
    """The location of a table or view, and those that its properties name for new files."""
    return [location, *(properties[key] for key in PATH_PROPERTIES if key in properties)]


def check_locations(
    allowed: AllowedLocations,
    location: str,
    properties: Mapping[str, str],
    known: Mapping[str, str] | None = None,
    known_location: str | None = None,
    *,
    is_new: bool = True,
) -> None:
    """Refuses a table or view that would live or write outside the allowed locations.

    Args:
        allowed: the allowed locations of the catalog.
        location: where the table lives.
        properties: its properties; those that name paths are looked at.
        known: properties before the change; what is unchanged is not looked at again.
        known_location: the location before the change.
        is_new: whether nothing has been written there yet.

    Raises:
        BadRequestError: a location is relative or malformed.
        LocationNotAllowedError: a location lies outside.
    """
    changed = [location] if location != known_location else []
    for key in PATH_PROPERTIES:
        path = properties.get(key)
        if path is not None and path != (known or {}).get(key):
            changed.append(path)
    for each in changed:
        allowed.check(each)
        if is_new:
            check_new_location(each)


def _own_folder(level: str) -> str:
    folder = safe_path_segment(level)
    return folder if folder == level else f"{folder}-{sha256(level.encode()).hexdigest()[:12]}"
