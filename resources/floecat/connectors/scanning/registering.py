"""One scan of a connector whose tables are registered by their locations."""

from __future__ import annotations

from collections.abc import Iterator

from floecat.catalog.namespaces import NamespaceService
from floecat.clock import Clock
from floecat.connectors.followed_tables import Followed
from floecat.connectors.following import Difference
from floecat.connectors.registrations import TableRegistration, TableRegistrations
from floecat.connectors.scan_reports import CatalogTable, ConnectorScanReport
from floecat.connectors.spi import DiscoveredTable
from floecat.entries.calls import Call
from floecat.errors import AlreadyExistsError
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.catalogs.connectors import ConnectorRow

__all__ = ["Registering"]


class Registering:
    """Registers what is new, and marks what is gone."""

    def __init__(
        self,
        registrations: TableRegistrations,
        namespaces: NamespaceService,
        clock: Clock,
        call: Call,
        row: ConnectorRow,
    ) -> None:
        """Reads what the connector registered already.

        Args:
            namespaces: makes the namespaces of tables.
            call: who scans; asked whether it may register tables.
            row: the connector.
        """
        self._registrations = registrations
        self._namespaces = namespaces
        self._clock = clock
        self._call = call
        self._row = row
        self._known = {table.location: table for table in registrations.of_connector(row.id)}
        self._seen: set[str] = set()

    def take(
        self,
        found: DiscoveredTable,
        identifier: TableIdentifier,
        report: ConnectorScanReport,
        *,
        read: bool,
    ) -> None:
        """Registers a table that was found, unless it is here.

        Args:
            identifier: the name that it gets.
            report: is told of it.
            read: whether a new one is read now.

        Raises:
            FloecatError: it cannot be registered.
        """
        known = self._here(found)
        if known is None:
            try:
                made = self._register(identifier, found, read=read)
            except AlreadyExistsError:
                known = self._here(found)  # another scan was faster
                if known is None:
                    raise
            else:
                report.registered.append(made)
                report.counts(made.identifier, made.location, made.problem)
                return
        report.skipped.append(CatalogTable(known, found.location))
        report.counts(known, found.location)

    def compare(self, found: DiscoveredTable, identifier: TableIdentifier) -> Difference | None:
        """The difference between what was found and what is here; changes nothing."""
        return Difference.new(identifier, found) if self._here(found) is None else None

    def missing(self) -> Iterator[Difference]:
        """What is here and was not found, once everything was compared."""
        for each in self._known.values():
            if each.location not in self._seen:
                yield Difference(each.identifier, each.location, "gone there", each.gone_at_ms)

    def finish(self, *, is_complete: bool) -> Iterator[Followed]:
        """Marks what is gone, and what came back.

        Args:
            is_complete: whether everything was found; otherwise nothing is gone.

        Yields:
            What is gone.
        """
        known, seen = self._known.values(), self._seen
        gone = [each for each in known if is_complete and each.location not in seen]
        newly = [each.entry_id for each in gone if each.gone_at_ms is None]
        back = [each.entry_id for each in known if each.location in seen and each.gone_at_ms is not None]
        if newly:
            self._registrations.set_gone(newly, self._clock.now_ms())
        if back:
            self._registrations.set_gone(back, None)
        for each in gone:
            yield Followed("gone", each.identifier, each.entry_id, each.location, each.object_uuid)

    def _here(self, found: DiscoveredTable) -> TableIdentifier | None:
        """The name of the table of the catalog that is at a location, whoever registered it."""
        self._seen.add(found.location)
        if (known := self._known.get(found.location)) is not None:
            return known.identifier
        return next(iter(self._registrations.known(self._call, found.location)), None)

    def _register(
        self, identifier: TableIdentifier, found: DiscoveredTable, *, read: bool
    ) -> TableRegistration:
        registration = self._registrations.of(found.format)
        self._namespaces.ensure(self._call, identifier.namespace)
        return registration.register(
            self._call,
            identifier.namespace,
            identifier.name,
            found.location,
            connector_id=self._row.id,
            read=read,
        )
