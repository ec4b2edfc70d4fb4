"""Bodies of the view operations. `CreateViewRequest` is the kernel's own `CreateView`."""

from __future__ import annotations

import msgspec

from floecat.iceberg.views.updates import ViewRequirement, ViewUpdate

__all__ = ["CommitViewRequest", "RegisterViewRequest"]


class CommitViewRequest(msgspec.Struct):
    """Requirements and updates for the view that the path names."""

    updates: list[ViewUpdate] | None = None
    requirements: list[ViewRequirement] | None = None


class RegisterViewRequest(msgspec.Struct, rename="kebab"):
    """A metadata file that becomes a view."""

    name: str
    metadata_location: str
