"""Registration of tables that are already in storage, by location and format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

import msgspec

from floecat.entries.calls import Call
from floecat.errors import BadRequestError, FloecatError
from floecat.identifiers.namespace import Namespace, TableIdentifier

__all__ = ["RegistersTables", "TableOfConnector", "TableRegistration", "TableRegistrations"]


class TableRegistration(msgspec.Struct, frozen=True):
    """A table that was registered."""

    identifier: TableIdentifier
    location: str
    """Root of the table, normalized."""
    table_uuid: str
    entry_id: UUID
    """Names the table in the pipeline; a rename does not change it."""
    snapshot_id: int | None = None
    """Newest snapshot that Iceberg readers see; `None` if none could be read yet."""
    problem: FloecatError | None = None
    """Reason why the newest state of the table could not be read, if so."""
    format: str = "delta"
    """See `EntryRow.format`."""


class TableOfConnector(NamedTuple):
    """A table that a connector registered."""

    entry_id: UUID
    identifier: TableIdentifier
    location: str
    object_uuid: str
    gone_at_ms: int | None
    """Time since which the connector has not found it."""


class RegistersTables(Protocol):
    """Registers tables of one format."""

    def register(
        self,
        call: Call,
        namespace: Namespace,
        name: str,
        location: str,
        *,
        format_version: int | None = None,
        connector_id: UUID | None = None,
        read: bool = True,
    ) -> TableRegistration:
        """Makes an entry for the table at a location, and reads the table unless `read` is false.

        Raises:
            FloecatError: nothing was registered.
        """
        ...

    def known(self, call: Call, location: str, /) -> Sequence[TableIdentifier]:
        """The tables of the catalog that are rooted at a normalized location."""
        ...

    def of_connector(self, connector_id: UUID, /) -> Sequence[TableOfConnector]:
        """The tables that a connector registered."""
        ...

    def set_gone(self, entry_ids: Sequence[UUID], gone_at_ms: int | None, /) -> None:
        """Notes since when their connector has not found tables; `None` for found again."""
        ...


class TableRegistrations:
    """The formats whose tables can be registered by their location."""

    def __init__(self, formats: Mapping[str, RegistersTables]) -> None:
        self._formats = dict(formats)

    def known(self, call: Call, location: str) -> list[TableIdentifier]:
        """The tables of the catalog, of any of the formats, that are rooted at a normalized location."""
        return [table for format in self._formats.values() for table in format.known(call, location)]

    def of_connector(self, connector_id: UUID) -> list[TableOfConnector]:
        """The tables that a connector registered, of any of the formats."""
        return [table for format in self._formats.values() for table in format.of_connector(connector_id)]

    def set_gone(self, entry_ids: Sequence[UUID], gone_at_ms: int | None) -> None:
        """See `RegistersTables.set_gone`."""
        for format in self._formats.values():
            format.set_gone(entry_ids, gone_at_ms)

    def takes(self, format: str) -> bool:
        """Whether tables of a format are registered by their location."""
        return format in self._formats

    def of(self, format: str) -> RegistersTables:
        """The service that registers tables of a format.

        Raises:
            BadRequestError: the format is unknown, or cannot be registered by location.
        """
        found = self._formats.get(format)
        if found is None:
            raise BadRequestError(f"Unknown format: {format[:80]!r} (known: {', '.join(self._formats)})")
        return found
