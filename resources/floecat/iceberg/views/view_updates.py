"""Changes of a view and what they require of it (Iceberg REST specification, `ViewUpdate`).

Schemas and versions stay encoded until `floecat.iceberg.views.view_builder` applies them. Go writes null for
an empty list or map, so null is accepted for both.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from floecat.iceberg.updates import (
    AddSchema,
    AssignUuid,
    RemoveProperties,
    SetLocation,
    SetProperties,
    Update,
    UpgradeFormatVersion,
)

__all__ = [
    "AddViewVersion",
    "AssertViewUuid",
    "SetCurrentViewVersion",
    "ViewRequirement",
    "ViewUpdate",
]


class AddViewVersion(Update, frozen=True, tag="add-view-version"):
    """Adds a version, or finds the one that behaves the same. It does not become the current one."""

    view_version: msgspec.Raw


class SetCurrentViewVersion(Update, frozen=True, tag="set-current-view-version"):
    """Makes a version the current one; `LAST_ADDED` means the last one that this request added."""

    view_version_id: int


ViewUpdate: TypeAlias = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetLocation
    | SetProperties
    | RemoveProperties
    | AddViewVersion
    | SetCurrentViewVersion
)
"""Any change of a view. A request applies its updates in order."""


class AssertViewUuid(msgspec.Struct, frozen=True, tag_field="type", tag="assert-view-uuid"):
    """The view must have this UUID; letter case does not count."""

    uuid: str


ViewRequirement: TypeAlias = AssertViewUuid
"""Requirement of a change on a view."""
