"""Scans, which register the tables that a connector finds, or follow those of another catalog.

A scan never removes a table that it registered: one that vanished from storage is marked, and stays in the
catalog until it is dropped. What follows another catalog goes some time after it is gone there, see
`following`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from uuid import UUID

import msgspec

from floecat.auth.authorizer import Privilege
from floecat.catalog.namespaces import NamespaceService
from floecat.clock import Clock
from floecat.connectors.connector_info import ScanProgress
from floecat.connectors.connector_service import ConnectorService, described_fault
from floecat.connectors.followed_tables import FetchedDocument, Followed, FollowedTables
from floecat.connectors.following import Difference, Following
from floecat.connectors.one_at_a_time import OneAtATime
from floecat.connectors.registrations import TableRegistrations
from floecat.connectors.scan_reports import ConnectorScanReport, FailedTable
from floecat.connectors.scanning.captures import AskForCaptures, ScanCaptures
from floecat.connectors.scanning.discovery import FoundTable, discovered, load_ahead
from floecat.connectors.scanning.registering import Registering
from floecat.connectors.selection import Selection
from floecat.connectors.spi import Connector, DiscoveredTable, LoadsTables, UnreadablePlace
from floecat.entries.calls import Call
from floecat.errors import (
    BadRequestError,
    FloecatError,
    ForbiddenError,
    NotAuthorizedError,
    NotFoundError,
    SettingsError,
    StoreUnavailableError,
    UnprocessableError,
)
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.kinds import Backoff
from floecat.jobs.running_job import JobCancelledError, WorkerStoppedError
from floecat.settings.limits import LimitSettings
from floecat.store.catalogs import connectors
from floecat.store.catalogs.connectors import ConnectorRow
from floecat.store.database.engine import Store
from floecat.store.jobs.leases import LeaseLostError
from floecat.working_memory import part_of_work

__all__ = ["ConnectorScans"]

_log = logging.getLogger(__name__)

_MAX_ERROR_LENGTH = 1000
_DUE_AT_ONCE = 100
_RETRY_AFTER_S = 60
_PRINCIPAL = "connector"
_LEASE_MS = 60_000
_MAX_ATTEMPTS = 8
_BACKOFF = Backoff(base_ms=500, max_ms=30_000)
_POLL_S = 0.1
_LASTING = (
    BadRequestError,
    ForbiddenError,
    NotAuthorizedError,
    NotFoundError,
    SettingsError,
    UnprocessableError,
)
"""Errors of a scan that another try would meet again: a login that is refused, a bound that is reached."""
_RETENTION_MS = 7 * 86_400_000


class ConnectorScans:
    """Runs connectors. Their jobs are in `scan_jobs`.

    Attributes:
        turns: each account has one at a time that somebody asked for.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        services: ConnectorService,
        namespaces: NamespaceService,
        registrations: TableRegistrations,
        followed: FollowedTables,
        ask_for_captures: AskForCaptures,
        *,
        reading_s: float,
        limits: LimitSettings,
    ) -> None:
        """Puts the service together.

        Args:
            store: where connectors are kept.
            services: opens connectors.
            namespaces: creates the namespaces of the tables.
            registrations: register tables.
            followed: makes the entries of tables of other catalogs.
            ask_for_captures: has tables captured.
            reading_s: for how long a scan has new tables read; those that it finds later are only registered,
                and read with their first load or by the pipeline.
            limits: on folders and tables of a scan.
        """
        self._store = store
        self._clock = clock
        self._services = services
        self._namespaces = namespaces
        self._registrations = registrations
        self._followed = followed
        self._ask_for_captures = ask_for_captures
        self._reading_s = reading_s
        self._limits = limits
        self.turns = OneAtATime(
            "Another scan of a connector is under way: wait for its end, or leave it to the schedule",
            retry_after_s=_RETRY_AFTER_S,
        )

    def scan(
        self, call: Call, name: str, told: Callable[[ScanProgress], None] = lambda _progress: None
    ) -> ConnectorScanReport:
        """Scans now, whether or not a scheduled scan is due.

        Args:
            name: of the connector.
            told: called with each folder and each table.

        Raises:
            ForbiddenError: the principal may not scan connectors. A table that it may not register is among
                those that failed.
            NotFoundError: there is no such connector.
            UnavailableError: the account has such a scan under way; each keeps a thread.
            StoreUnavailableError: the store does not answer.
        """
        row = self._services.find(call, name, Privilege.MANAGE_CONNECTORS)
        with self.turns.of(call.catalog.account_id):
            return self.run(msgspec.structs.replace(call, request=None), row, told)

    def compare(
        self, call: Call, name: str, told: Callable[[ScanProgress], None] = lambda _progress: None
    ) -> Sequence[Difference]:
        """What differs between the catalog and the place that a connector searches; changes nothing.

        Args:
            name: of the connector.
            told: called with each place and each table.

        Raises:
            ForbiddenError: the principal may not scan connectors.
            NotFoundError: there is no such connector.
            BadRequestError: it only captures.
            UnavailableError: the account has a scan under way.
            FloecatError: a part of the place cannot be read.
        """
        row = self._services.find(call, name, Privilege.MANAGE_CONNECTORS)
        if not row.policy.takes_metadata:
            raise BadRequestError(f"Connector {name} only captures: there is nothing to compare")
        report, began_s = _report(call, row), time.monotonic()
        found: list[Difference] = []

        def tell() -> None:
            told(report.progress)

        with self.turns.of(call.catalog.account_id):
            connector = self._services.open(call, row, self._looks_into(report, began_s, tell))
            registering = Registering(self._registrations, self._namespaces, self._clock, call, row)
            following = _following(self._followed, call, row, connector)
            check = partial(self._check_step, began_s, tell)
            for each in self._found(row, connector, following, check, of_scan=False):
                if isinstance(each, UnreadablePlace):
                    raise each.error
                table = each.table
                identifier = TableIdentifier((*row.namespace, *table.namespace), table.name)
                if following is not None and self._is_followed(table):
                    with part_of_work():
                        difference = following.compare(table, identifier, each.loaded)
                else:
                    difference = registering.compare(table, identifier)
                if difference is not None:
                    found.append(difference)
                    report.counts(difference.identifier, difference.address)
                self._check_size(report)
        for missing in chain(registering.missing(), () if following is None else following.missing()):
            found.append(missing)
            report.counts(missing.identifier, missing.address)
            self._check_size(report)
        return found

    def run(
        self,
        call: Call,
        row: ConnectorRow,
        told: Callable[[ScanProgress], None],
        job_id: UUID | None = None,
    ) -> ConnectorScanReport:
        """Scans a connector.

        Args:
            call: who scans.
            told: called with each place and each table.
            job_id: the job of the scan.

        Raises:
            StoreUnavailableError: the store does not answer.
            LeaseLostError, JobCancelledError, WorkerStoppedError: as `told` raises them.
        """
        report = _report(call, row)
        report.job_id = job_id
        captures = ScanCaptures(self._store, self._ask_for_captures, row, job_id)

        def tell() -> None:
            captures.now_and_then()
            report.captures = captures.asked
            told(report.progress)

        try:
            self._search(call, row, report, tell)
        except (StoreUnavailableError, LeaseLostError, JobCancelledError, WorkerStoppedError):
            raise
        except FloecatError as error:
            report.error = error
        except Exception as error:  # noqa: BLE001 - a third-party connector must not end a schedule
            _log.error("the scan of connector %s failed: %s", row.name, described_fault(error))
            report.error = _internal(error)
        # what came here before an error is captured, too
        captures.request(tell)
        tell()
        self._note(row, report.summary)
        return report

    def _search(
        self, call: Call, row: ConnectorRow, report: ConnectorScanReport, tell: Callable[[], None]
    ) -> None:
        began_s = time.monotonic()
        deadline = began_s + self._reading_s
        connector = self._services.open(call, row, self._looks_into(report, began_s, tell))
        if not row.policy.takes_metadata:
            return
        registering = Registering(self._registrations, self._namespaces, self._clock, call, row)
        following = _following(self._followed, call, row, connector)
        check = partial(self._check_step, began_s, tell)
        for found in self._found(row, connector, following, check, of_scan=True):
            with part_of_work():
                read = time.monotonic() < deadline
                self._take(row, found, report, registering, following, read=read)
            self._check_size(report)
        # what could not be read may still be there
        is_complete = all(failure.identifier is not None for failure in report.failed)
        followed = () if following is None else following.finish(is_complete=is_complete)
        for each in chain(registering.finish(is_complete=is_complete), followed):
            if isinstance(each, Followed):
                report.follows(each)
            else:
                report.fails(each)
            tell()
            self._check_time(began_s)
            self._check_size(report)

    def _found(
        self,
        row: ConnectorRow,
        connector: Connector,
        following: Following | None,
        check: Callable[[], None],
        *,
        of_scan: bool,
    ) -> Iterator[FoundTable[FetchedDocument | None] | UnreadablePlace]:
        """What a connector finds, loaded ahead; `of_scan` says whether for `take`, or for `compare`."""

        def needs(table: DiscoveredTable) -> bool:
            if following is None or not self._is_followed(table):
                return False
            return following.needs(table) if of_scan else following.differs(table)

        def load(table: DiscoveredTable) -> FetchedDocument | None:
            return None if following is None else following.load(table)

        places = discovered(connector, row.location, Selection(row.policy), check)
        for number, found in enumerate(
            load_ahead(places, load, needs, row.policy.max_parallel, check), start=1
        ):
            self._check(number, "connector_tables", "tables")
            yield found

    def _is_followed(self, table: DiscoveredTable) -> bool:
        return not self._registrations.takes(table.format)

    def _looks_into(
        self, report: ConnectorScanReport, began_s: float, tell: Callable[[], None]
    ) -> Callable[[str], None]:
        def looks_into(_location: str) -> None:
            report.folders += 1
            self._check(report.folders, "connector_folders", "folders")
            self._check_time(began_s)
            tell()

        return looks_into

    def _check_step(self, began_s: float, tell: Callable[[], None]) -> None:
        tell()
        self._check_time(began_s)

    def _check_time(self, began_s: float) -> None:
        longest = self._limits.connector_scan_time
        if time.monotonic() - began_s > longest.seconds:
            setting = "floecat.limits.connector-scan-time"
            raise UnprocessableError(f"The scan took longer than {longest} ({setting}), and ended there")

    def _check_size(self, report: ConnectorScanReport) -> None:
        self._check(report.size_bytes, "connector_report_bytes", "bytes of names, places and problems")

    def _check(self, number: int, bound: str, what: str) -> None:
        most: int = getattr(self._limits, bound)
        if number > most:
            setting = f"floecat.limits.{bound.replace('_', '-')}"
            raise UnprocessableError(f"The scan found more than {most} {what} ({setting}), and ended there")

    def _take(
        self,
        row: ConnectorRow,
        found: FoundTable[FetchedDocument | None] | UnreadablePlace,
        report: ConnectorScanReport,
        registering: Registering,
        following: Following | None,
        *,
        read: bool,
    ) -> None:
        location, identifier = row.location, None
        try:
            if isinstance(found, UnreadablePlace):
                location = str(found.location)
                raise found.error
            table = found.table
            location = table.location
            identifier = TableIdentifier((*row.namespace, *table.namespace), table.name)
            if following is not None and self._is_followed(table):
                followed = following.take(table, identifier, found.loaded)
                if followed is not None:
                    report.follows(followed)
                return
            registering.take(table, identifier, report, read=read)
        except StoreUnavailableError:
            raise
        except FloecatError as error:
            report.fails(FailedTable(location, error, identifier))
        except Exception as error:  # noqa: BLE001 - one bad table must not stop the others
            _log.error(
                "connector %s: what it found at %s could not be registered: %s",
                row.name,
                location,
                described_fault(error),
            )
            report.fails(FailedTable(location, _internal(error), identifier))

    def _note(self, row: ConnectorRow, error: str | None) -> None:
        shown = None if error is None else error[:_MAX_ERROR_LENGTH]
        self._store.run(lambda conn: connectors.finish_scan(conn, row.id, self._clock.now_ms(), shown))


def _report(call: Call, row: ConnectorRow) -> ConnectorScanReport:
    catalog = call.catalog
    return ConnectorScanReport(
        row.name, catalog.name, catalog.schema_separator, account_id=catalog.account_id
    )


def _following(
    followed: FollowedTables, call: Call, row: ConnectorRow, connector: Connector
) -> Following | None:
    return Following(followed, call, row, connector) if isinstance(connector, LoadsTables) else None


def _internal(error: Exception) -> FloecatError:
    return FloecatError(f"internal error: {type(error).__name__}")
