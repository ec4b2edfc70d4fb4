"""Changes of a view and what they require of it (Iceberg REST specification, `ViewUpdate`).

Schemas and versions stay encoded until `floecat.iceberg.views.view_builder` applies them. Go writes null for
an empty list or map, so null is accepted for both.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

__all__ = [
    "LAST_ADDED",
    "AddViewSchema",
    "AddViewVersion",
    "AssertViewUuid",
    "AssignViewUuid",
    "RemoveViewProperties",
    "SetCurrentViewVersion",
    "SetViewLocation",
    "SetViewProperties",
    "UpgradeViewFormatVersion",
    "ViewRequirement",
    "ViewUpdate",
]

LAST_ADDED = -1
"""As an id in an update: the one that an earlier update of the same request added."""


class _Update(msgspec.Struct, frozen=True, tag_field="action", rename="kebab"):
    pass


class AssignViewUuid(_Update, frozen=True, tag="assign-uuid"):
    """Assigns the UUID of the view, which cannot change afterwards."""

    uuid: str


class UpgradeViewFormatVersion(_Update, frozen=True, tag="upgrade-format-version"):
    """Raises the format version."""

    format_version: int


class AddViewSchema(_Update, frozen=True, tag="add-schema"):
    """Adds a schema, or finds the equal one of the view. Its id is ignored."""

    schema: msgspec.Raw
    last_column_id: int | None = None
    """Deprecated in the specification; it has no meaning for views."""


class SetViewLocation(_Update, frozen=True, tag="set-location"):
    """Sets the base location."""

    location: str


class SetViewProperties(_Update, frozen=True, tag="set-properties"):
    """Sets properties; others stay."""

    updates: dict[str, str] | msgspec.UnsetType | None = msgspec.UNSET
    updated: dict[str, str] | msgspec.UnsetType | None = msgspec.UNSET
    """What clients before Iceberg 1.0 call `updates`."""

    def __post_init__(self) -> None:
        if self.updates is msgspec.UNSET and self.updated is msgspec.UNSET:
            raise ValueError("Object missing required field `updates`")

    @property
    def properties(self) -> dict[str, str]:
        """The properties to set."""
        return (self.updated if self.updates is msgspec.UNSET else self.updates) or {}


class RemoveViewProperties(_Update, frozen=True, tag="remove-properties"):
    """Removes properties; unknown names are fine."""

    removals: list[str] | msgspec.UnsetType | None = msgspec.UNSET
    removed: list[str] | msgspec.UnsetType | None = msgspec.UNSET
    """What clients before Iceberg 1.0 call `removals`."""

    def __post_init__(self) -> None:
        if self.removals is msgspec.UNSET and self.removed is msgspec.UNSET:
            raise ValueError("Object missing required field `removals`")

    @property
    def names(self) -> list[str]:
        """The properties to remove."""
        return (self.removed if self.removals is msgspec.UNSET else self.removals) or []


class AddViewVersion(_Update, frozen=True, tag="add-view-version"):
    """Adds a version, or finds the one that behaves the same. It does not become the current one."""

    view_version: msgspec.Raw


class SetCurrentViewVersion(_Update, frozen=True, tag="set-current-view-version"):
    """Makes a version the current one; `LAST_ADDED` means the last one that this request added."""

    view_version_id: int


ViewUpdate: TypeAlias = (
    AssignViewUuid
    | UpgradeViewFormatVersion
    | AddViewSchema
    | SetViewLocation
    | SetViewProperties
    | RemoveViewProperties
    | AddViewVersion
    | SetCurrentViewVersion
)
"""Any change of a view. A request applies its updates in order."""


class AssertViewUuid(msgspec.Struct, frozen=True, tag_field="type", tag="assert-view-uuid"):
    """The view must have this UUID; letter case does not count."""

    uuid: str


ViewRequirement: TypeAlias = AssertViewUuid
"""What a change may require of a view."""
