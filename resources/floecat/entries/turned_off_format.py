"""A table format whose services are not loaded, by a setting."""

from __future__ import annotations

from typing import NoReturn

from floecat.entries.calls import Call
from floecat.errors import UnsupportedOperationError
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.tables import EntryRow

__all__ = ["TurnedOffFormat"]


class TurnedOffFormat:
    """Stands in for the services of a format. Its tables are listed, renamed and dropped, nothing else."""

    derives_metadata = True

    def __init__(self, name: str, setting: str) -> None:
        """Names the format as messages do, and the setting that turns it off."""
        self._name = name
        self._setting = setting

    def refuse(self, *_: object, **__: object) -> NoReturn:
        """Refuses whatever needs the format.

        Raises:
            UnsupportedOperationError: always.
        """
        raise UnsupportedOperationError(f"{self._name} tables are turned off: {self._setting} is false")

    current = list = materialise = register = root = refuse

    def is_current(self, _row: EntryRow, /) -> bool:
        """Never: `current` refuses the load."""
        return False

    def check_writable(self, identifier: TableIdentifier, /) -> None:
        """Refuses every commit.

        Raises:
            UnsupportedOperationError: always.
        """
        raise UnsupportedOperationError(
            f"Table {identifier} is a {self._name} table and is read-only here: write it with {self._name}"
        )

    def known(self, _call: Call, _location: str, /) -> tuple[TableIdentifier, ...]:
        """No table: the service does not know how the format records them."""
        return ()
