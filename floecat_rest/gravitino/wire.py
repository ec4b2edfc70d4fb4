"""Bodies of requests and answers, as Gravitino spells them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

__all__ = [
    "AlterSchemaRequest",
    "CatalogAnswer",
    "CatalogsAnswer",
    "CreateSchemaRequest",
    "DropAnswer",
    "GravitinoError",
    "IdentifiersAnswer",
    "MetalakeAnswer",
    "MetalakesAnswer",
    "RemoveProperty",
    "SchemaAnswer",
    "SetProperty",
    "VersionAnswer",
    "WireAudit",
    "WireCatalog",
    "WireMetalake",
    "WireName",
    "WireSchema",
    "WireVersion",
    "audit",
]

Texts = Mapping[str, str | int | float | bool | None]
"""Properties as clients send them: what is no text becomes one."""


class WireAudit(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who made something, and when."""

    creator: str | None = None
    create_time: str | None = None
    last_modifier: str | None = None
    last_modified_time: str | None = None


class WireName(msgspec.Struct, frozen=True):
    """A name with what it is in."""

    namespace: Sequence[str]
    name: str


class WireSchema(msgspec.Struct, frozen=True):
    """A namespace."""

    name: str
    properties: Mapping[str, str]
    audit: WireAudit
    comment: str | None


class WireCatalog(msgspec.Struct, frozen=True):
    """A catalog."""

    name: str
    type: str
    provider: str
    properties: Mapping[str, str]
    audit: WireAudit
    comment: str = ""


class WireMetalake(msgspec.Struct, frozen=True):
    """An account."""

    name: str
    properties: Mapping[str, str]
    audit: WireAudit
    comment: str = ""


class WireVersion(msgspec.Struct, frozen=True, rename="camel"):
    """The version of the API."""

    version: str
    compile_date: str
    git_commit: str


class IdentifiersAnswer(msgspec.Struct, frozen=True):
    """Names of a listing."""

    identifiers: Sequence[WireName]
    code: int = 0


class SchemaAnswer(msgspec.Struct, frozen=True):
    """A schema."""

    schema: WireSchema
    code: int = 0


class CatalogAnswer(msgspec.Struct, frozen=True):
    """A catalog."""

    catalog: WireCatalog
    code: int = 0


class CatalogsAnswer(msgspec.Struct, frozen=True):
    """Catalogs with their details."""

    catalogs: Sequence[WireCatalog]
    code: int = 0


class MetalakeAnswer(msgspec.Struct, frozen=True):
    """A metalake."""

    metalake: WireMetalake
    code: int = 0


class MetalakesAnswer(msgspec.Struct, frozen=True):
    """The metalakes."""

    metalakes: Sequence[WireMetalake]
    code: int = 0


class VersionAnswer(msgspec.Struct, frozen=True):
    """The version."""

    version: WireVersion
    code: int = 0


class DropAnswer(msgspec.Struct, frozen=True):
    """Whether there was something to drop."""

    dropped: bool
    code: int = 0


class GravitinoError(msgspec.Struct, frozen=True):
    """Body of errors."""

    code: int
    type: str
    message: str
    stack: Sequence[str] = ()


class CreateSchemaRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schema to create."""

    name: str
    comment: str | None = None
    properties: Texts | None = None


class SetProperty(
    msgspec.Struct, frozen=True, tag_field="@type", tag="setProperty", forbid_unknown_fields=True
):
    """Sets a property."""

    property: str
    value: str | int | float | bool


class RemoveProperty(
    msgspec.Struct, frozen=True, tag_field="@type", tag="removeProperty", forbid_unknown_fields=True
):
    """Removes a property, if it is there."""

    property: str


class AlterSchemaRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of a schema, in their order."""

    updates: Sequence[SetProperty | RemoveProperty]


def audit(
    created_at_ms: int | None,
    updated_at_ms: int | None = None,
    created_by: str | None = None,
    updated_by: str | None = None,
) -> WireAudit:
    """Who made and changed something, and when, as far as it is known; no change is no last modification."""
    changed_at_ms = None if updated_at_ms == created_at_ms and updated_by is None else updated_at_ms
    return WireAudit(created_by, _instant(created_at_ms), updated_by, _instant(changed_at_ms))


def _instant(time_ms: int | None) -> str | None:
    if time_ms is None:
        return None
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec='milliseconds')[:-6]}Z"
