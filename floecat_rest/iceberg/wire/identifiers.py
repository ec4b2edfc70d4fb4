"""Identifiers in bodies."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from floecat.entries.calls import Page
from floecat.identifiers.namespace import TableIdentifier

__all__ = ["ListTablesResponse", "RenameTableRequest", "WireIdentifier", "list_tables"]


class WireIdentifier(msgspec.Struct):
    """A table or view by namespace and name (`TableIdentifier`)."""

    namespace: tuple[str, ...]
    name: str

    def to_identifier(self) -> TableIdentifier:
        """The kernel's form."""
        return TableIdentifier(self.namespace, self.name)


class ListTablesResponse(msgspec.Struct, rename="kebab"):
    """Tables or views of a namespace."""

    identifiers: Sequence[WireIdentifier]
    next_page_token: str | None = None


class RenameTableRequest(msgspec.Struct):
    """Rename or move of a table or a view."""

    source: WireIdentifier
    destination: WireIdentifier


def list_tables(page: Page[TableIdentifier]) -> ListTablesResponse:
    """Render a page of a listing."""
    return ListTablesResponse([WireIdentifier(*identifier) for identifier in page.items], page.next_token)
