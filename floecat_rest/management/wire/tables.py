"""Bodies about tables that are registered by their location."""

from __future__ import annotations

from uuid import UUID

import msgspec

from floecat.connectors.registrations import TableRegistration
from floecat.errors import FloecatError
from floecat.identifiers.namespace import TableIdentifier
from floecat_rest.errors import describe_error

__all__ = ["Identifier", "Problem", "RegisterRequest", "RegisteredTable", "problem_of", "registered_table"]


class RegisterRequest(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """A table that is in storage and becomes one of the catalog."""

    name: str
    format: str
    location: str
    format_version: int | None = None


class Identifier(msgspec.Struct):
    """A table by namespace and name."""

    namespace: tuple[str, ...]
    name: str

    @classmethod
    def of(cls, identifier: TableIdentifier) -> Identifier:
        """The identifier of the kernel."""
        return cls(identifier.namespace, identifier.name)


class Problem(msgspec.Struct):
    """Why something did not work, as an error answer would tell it."""

    type: str
    message: str


class RegisteredTable(msgspec.Struct, rename="kebab"):
    """A table that was registered."""

    identifier: Identifier
    id: UUID
    """What the pipeline knows the table by: its partition in Dagster."""
    format: str
    location: str
    table_uuid: str
    snapshot_id: int | None
    """Newest version that Iceberg readers see."""
    problem: Problem | None
    """Why the newest version cannot be read; loading the table is answered so."""


def registered_table(registration: TableRegistration, request_id: str) -> RegisteredTable:
    """Renders a registration."""
    return RegisteredTable(
        Identifier.of(registration.identifier),
        registration.entry_id,
        "delta",
        registration.location,
        registration.table_uuid,
        registration.snapshot_id,
        problem_of(registration.problem, request_id) if registration.problem else None,
    )


def problem_of(error: FloecatError, request_id: str) -> Problem:
    """Renders an error that is part of an answer."""
    described, _ = describe_error(error, request_id)
    return Problem(described.type, described.message)
