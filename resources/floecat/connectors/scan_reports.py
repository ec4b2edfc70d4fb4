"""What a scan of a connector did."""

from __future__ import annotations

from uuid import UUID

import msgspec

from floecat.connectors.connector_info import ScanProgress
from floecat.connectors.followed_format import FOLLOWED
from floecat.connectors.followed_tables import Followed
from floecat.connectors.registrations import TableRegistration
from floecat.errors import FloecatError
from floecat.identifiers.namespace import TableIdentifier

__all__ = ["CatalogTable", "ConnectorScanReport", "FailedTable"]

_ENTRY_BYTES = 200


class CatalogTable(msgspec.Struct, frozen=True):
    """A table that the catalog had before."""

    identifier: TableIdentifier
    location: str


class FailedTable(msgspec.Struct, frozen=True):
    """A table that could not be registered, or a place that could not be read."""

    location: str
    error: FloecatError
    identifier: TableIdentifier | None = None
    """The name that the table would get."""


class ConnectorScanReport(msgspec.Struct):
    """The result of a scan, in the order in which tables were found."""

    connector: str
    catalog: str = ""
    """Name of its catalog."""
    schema_separator: str | None = None
    """Of its catalog; none in a flat one."""
    account_id: UUID | None = None
    job_id: UUID | None = None
    """The job of the scan, if there is one."""
    registered: list[TableRegistration] = []
    """New tables. One that cannot be read is registered all the same, with the problem."""
    changed: list[Followed] = []
    """Tables and views that follow another catalog: newer states, new names, and what is gone or removed."""
    skipped: list[CatalogTable] = []
    failed: list[FailedTable] = []
    gone: int = 0
    """Number of those in `changed` that are gone or removed."""
    failed_tables: int = 0
    """Number of tables in `failed`; the others are places."""
    captures: int = 0
    """Number of tables whose captures were asked for."""
    folders: int = 0
    """Number of folders that were searched."""
    size_bytes: int = 0
    """Bytes of names, locations and messages, each counted as often as an answer has it."""
    error: FloecatError | None = None
    """Reason why the scan ended early, if it did."""

    @property
    def progress(self) -> ScanProgress:
        """The progress of the scan."""
        changed = len(self.changed) - self.gone
        tables = len(self.registered) + changed + len(self.skipped) + self.failed_tables
        return ScanProgress(
            self.folders,
            tables,
            len(self.registered),
            len(self.failed),
            changed,
            self.gone,
            self.captures,
        )

    def follows(self, followed: Followed) -> None:
        """Adds a table or view that follows another catalog."""
        if followed.change == "new":
            self.registered.append(
                TableRegistration(
                    followed.identifier,
                    followed.address,
                    followed.object_uuid,
                    followed.entry_id,
                    followed.snapshot_id,
                    format=FOLLOWED,
                )
            )
        elif followed.change == "unchanged":
            self.skipped.append(CatalogTable(followed.identifier, followed.address))
        else:
            self.changed.append(followed)
            self.gone += followed.change in ("gone", "removed")
        self.counts(followed.identifier, followed.address)

    def fails(self, failure: FailedTable) -> None:
        """Adds a failure."""
        self.failed.append(failure)
        self.failed_tables += failure.identifier is not None
        self.counts(failure.identifier, failure.location, failure.error)

    def counts(
        self, identifier: TableIdentifier | None, location: str, problem: FloecatError | None = None
    ) -> None:
        """Counts the bytes of a table or a place."""
        texts = (str(identifier or ""), location, problem.message if problem else "")
        self.size_bytes += _ENTRY_BYTES + sum(map(len, texts))

    @property
    def unreadable(self) -> list[TableRegistration]:
        """The new tables that cannot be read."""
        return [made for made in self.registered if made.problem is not None]

    @property
    def summary(self) -> str | None:
        """The failures, in one sentence; `None` if there were none."""
        if self.error is not None:
            return self.error.message
        if not self.failed:
            return None
        first = self.failed[0]
        return f"{len(self.failed)} failed, the first at {first.location}: {first.error.message}"
