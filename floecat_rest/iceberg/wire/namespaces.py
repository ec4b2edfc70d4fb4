"""Bodies of the namespace operations."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = [
    "CreateNamespaceRequest",
    "ListNamespacesResponse",
    "UpdateNamespacePropertiesRequest",
]


class CreateNamespaceRequest(msgspec.Struct):
    """A namespace to create. Missing parents are created with it."""

    namespace: tuple[str, ...]
    properties: dict[str, str] | None = None


class ListNamespacesResponse(msgspec.Struct, rename="kebab"):
    """Namespaces, each with all its levels."""

    namespaces: Sequence[tuple[str, ...]]
    next_page_token: str | None = None


class UpdateNamespacePropertiesRequest(msgspec.Struct):
    """Properties to set and keys to remove."""

    removals: list[str] | None = None
    updates: dict[str, str] | None = None
