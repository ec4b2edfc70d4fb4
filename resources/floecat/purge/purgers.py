"""The purgers of a process: the built-in ones, and the one that the settings name."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Final, cast

from floecat.clock import Clock
from floecat.entries.formats import is_derived
from floecat.errors import SettingsError
from floecat.purge.deletion.ranges import RangeRunner
from floecat.purge.deletion.table_purge import TablePurge
from floecat.purge.processes import PurgeProcesses
from floecat.purge.requested_purges import purge_requested
from floecat.purge.spi import Purger, PurgerContext, PurgeRequest
from floecat.settings.imports import imported
from floecat.struct_types import prepare_struct_types

__all__ = ["ENTRY_POINTS", "SQL_ASYNC", "SYNCHRONOUS", "Purgers", "ReachableFilesPurger"]

SQL_ASYNC: Final = "sql-async"
"""Workers delete what is reachable."""

SYNCHRONOUS: Final = "synchronous"
"""The request that drops a table deletes what is reachable."""

ENTRY_POINTS: Final = "floecat.purgers"
"""Group of the entry points of purgers."""

_SETTING: Final = "floecat.purge.purger"


class ReachableFilesPurger:
    """Deletes everything that is reachable from the metadata of a table, and that no live table needs."""

    def __init__(
        self,
        name: str,
        purge: TablePurge,
        clock: Clock,
        offer_ms: int = 0,
        processes: PurgeProcesses | None = None,
    ) -> None:
        """Puts it together.

        Args:
            name: what rows call it.
            purge: deletes the files.
            offer_ms: how long the purge of a large table waits for others; 0 for not at all.
            processes: do what `purge` does, while they are on.
        """
        self._name = name
        self._purge = purge
        self._processes = processes
        self._clock = clock
        self._offer_ms = offer_ms

    def initialize(self, properties: Mapping[str, str], context: PurgerContext) -> None:  # noqa: ARG002
        """See `Purger.initialize`; takes no properties."""
        self._context = context

    def purge_table(self, request: PurgeRequest, runner: RangeRunner | None = None) -> None:
        """See `purge_requested`."""
        processes = None if runner is not None or is_derived(request.format) else self._processes
        if processes is not None and processes.is_on:
            processes.purge(request, self._offer_ms)
        else:
            purge_requested(self._purge, request, self._context.storage, self._clock, self._offer_ms, runner)

    def name(self) -> str:
        """`sql-async` or `synchronous`."""
        return self._name

    def close(self) -> None:
        """Holds nothing."""


class Purgers:
    """Finds purgers by the name in a row. Safe to share between threads.

    Attributes:
        selected: name of the purger of new rows.
    """

    def __init__(
        self,
        selected: str,
        properties: Mapping[str, str],
        context: PurgerContext,
        built_in: Sequence[ReachableFilesPurger],
    ) -> None:
        """Imports the purger that is selected; it is initialized with its first use.

        Args:
            selected: `sql-async`, `synchronous`, `package.module:Class`, or the name of an entry point.
            properties: of the selected purger; the built-in ones take none.
            context: what purgers may use.
            built_in: the built-in ones.

        Raises:
            SettingsError: there is no such purger, or it cannot be imported.
        """
        self._properties = properties
        self._context = context
        self._lock = threading.Lock()
        self._initialized: set[str] = set()
        self._purgers: dict[str, Purger] = {purger.name(): purger for purger in built_in}
        if selected not in self._purgers:
            found = _of_another_package(selected)
            selected = found.name()
            if selected in self._purgers:
                raise SettingsError(f"{_SETTING}: the purger calls itself {selected}, as a built-in one")
            self._purgers[selected] = found
        self.selected: Final = selected

    def get(self, name: str) -> Purger:
        """The purger of this name, initialized.

        Raises:
            SettingsError: it is not a built-in one nor the selected one.
        """
        purger = self._purgers.get(name)
        if purger is None:
            raise SettingsError(
                f"The purger {name} is not the one of this process: {_SETTING} is {self.selected}"
            )
        with self._lock:
            if name not in self._initialized:
                purger.initialize(self._properties if name == self.selected else {}, self._context)
                self._initialized.add(name)
        return purger

    def close(self) -> None:
        """Closes the purgers that were used."""
        with self._lock:
            for name in self._initialized:
                self._purgers[name].close()
            self._initialized.clear()


def _of_another_package(selected: str) -> Purger:
    place = selected
    if ":" not in selected:
        found = [point.value for point in entry_points(group=ENTRY_POINTS, name=selected)]
        if not found:
            known = ", ".join((SQL_ASYNC, SYNCHRONOUS))
            raise SettingsError(
                f"{_SETTING}: {selected!r} is not {known}, a package.module:Class, or an entry point of"
                f" {ENTRY_POINTS}"
            )
        place = found[0]
    purger = imported(_SETTING, place)
    for method in ("initialize", "purge_table", "name", "close"):
        if not callable(purger) or not callable(getattr(purger, method, None)):
            raise SettingsError(f"{_SETTING}: {place} is not a purger: it has no {method}()")
    try:
        made = purger()  # type: ignore[operator]
    except Exception as error:
        raise SettingsError(f"{_SETTING}: {place} cannot be made: {type(error).__name__}") from error
    prepare_struct_types()
    return cast("Purger", made)
