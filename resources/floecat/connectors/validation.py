"""A trial of a connector: what it reaches, and what its credentials may do there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from floecat.auth.authorizer import Privilege
from floecat.connectors.connector_service import ConnectorService
from floecat.connectors.one_at_a_time import OneAtATime
from floecat.connectors.registrations import TableRegistrations
from floecat.connectors.scanning.discovery import discovered
from floecat.connectors.selection import Selection
from floecat.connectors.spi import (
    ChecksRoot,
    Connector,
    DiscoveredTable,
    Discovery,
    LoadsTables,
    UnreadablePlace,
)
from floecat.credentials.authority_check import TrialStep
from floecat.entries.calls import Call
from floecat.errors import FloecatError, UnprocessableError
from floecat.identifiers.written_names import written

__all__ = ["ConnectorTrial"]

_LONGEST_S: Final = 60.0
_RETRY_AFTER_S: Final = 30


class ConnectorTrial:
    """Asks what a scan would ask, for one table, and changes nothing."""

    def __init__(self, connectors: ConnectorService, registrations: TableRegistrations) -> None:
        self._registrations = registrations
        self._connectors = connectors
        self._turns = OneAtATime(
            "Another connector is being validated: wait for its end", retry_after_s=_RETRY_AFTER_S
        )

    def run(self, call: Call, name: str) -> list[TrialStep]:
        """The steps, up to the first that goes wrong.

        Raises:
            ForbiddenError: the principal may not manage connectors.
            NotFoundError: there is none of this name.
            UnavailableError: the account tries another one now; each keeps a thread.
        """
        row = self._connectors.find(call, name, Privilege.MANAGE_CONNECTORS)
        with self._turns.of(call.catalog.account_id):
            until_s = time.monotonic() + _LONGEST_S
            steps: list[TrialStep] = []
            try:
                opened = self._connectors.open(call, row, lambda _place: _check_time(until_s))
                if not row.policy.takes_metadata:
                    return [TrialStep("captures tables of this catalog, and searches nothing (capture-only)")]
                places = discovered(opened, row.location, Selection(row.policy), lambda: _check_time(until_s))
                steps.extend(_steps(call, opened, places, self._registrations))
            except FloecatError as error:
                steps.append(TrialStep("can be opened", error.message))
            return steps


def _check_time(until_s: float) -> None:
    if time.monotonic() > until_s:
        raise UnprocessableError(f"No table was found within {_LONGEST_S:g} s")


def _steps(
    call: Call, connector: Connector, places: Iterator[Discovery], registrations: TableRegistrations
) -> Iterator[TrialStep]:
    found: list[DiscoveredTable] = []
    locations: list[str] = []

    def load() -> None:
        if isinstance(connector, LoadsTables) and (document := connector.load(found[0], None)):
            locations.append(document.metadata_location)

    if isinstance(connector, ChecksRoot):
        step = _tried("answers, and takes the credentials", connector.check_root)
        yield step
        if step.problem is not None:
            return
    step = _tried("lists tables", lambda: found.extend(_first(places)))
    if step.problem is not None:
        yield step
        return
    if not found:
        yield TrialStep("lists, and finds no table")
        return
    name = written((*found[0].namespace, found[0].name))
    yield TrialStep(f"lists tables, as {name}")
    if isinstance(connector, LoadsTables) and not registrations.takes(found[0].format):
        step = _tried(f"loads {name}", load)
        yield step
        if locations:
            yield _tried(
                "its metadata lies where this catalog may read",
                lambda: call.catalog.allowed.check(locations[0]),
            )


def _first(places: Iterator[Discovery]) -> Iterator[DiscoveredTable]:
    for each in places:
        if isinstance(each, UnreadablePlace):
            raise each.error
        yield each
        return


def _tried(what: str, action: Callable[[], object]) -> TrialStep:
    try:
        action()
    except FloecatError as error:
        return TrialStep(what, error.message)
    return TrialStep(what)
