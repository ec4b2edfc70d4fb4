"""Table formats: what differs between tables by whose metadata they are read from.

An Iceberg table is read from its own metadata and takes commits. A table of another format is read from
Iceberg metadata that is derived from that format's own log; it is brought up to date before it is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn, Protocol
from uuid import UUID

from floecat.entries.calls import Call
from floecat.entries.lookup import Entry
from floecat.errors import UnsupportedOperationError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.entries.tables import EntryRow

__all__ = ["IcebergFormat", "TableFormat", "TableFormats", "TurnedOffFormat", "is_derived"]

_ICEBERG: Final = "iceberg"


def is_derived(format_: str) -> bool:
    """Whether tables of a format are written elsewhere: as a Delta log, or by another catalog.

    Their metadata here can be made again and takes no commits, and their files are not the catalog's.
    """
    return format_ != _ICEBERG


class TableFormat(Protocol):
    """A table format: loads its tables, and says whether they may be changed.

    Attributes:
        files_have_partition_columns: whether data files have the columns that they are partitioned by.
    """

    files_have_partition_columns: bool

    def is_current(self, row: EntryRow, /) -> bool:
        """Whether the entry may be answered as it is. Asks neither store nor storage."""
        ...

    def current(self, call: Call, entry: Entry[TableMetadata], /) -> Entry[TableMetadata] | None:
        """The entry as it may be answered, brought up to date first; `None` if it was dropped or renamed.

        Raises:
            FloecatError: it cannot be brought up to date, so nothing is answered.
        """
        ...

    def check_writable(self, row: EntryRow, identifier: TableIdentifier, /) -> None:
        """Refuses a commit to tables or views that are written elsewhere.

        Raises:
            UnsupportedOperationError: tables of this format are read-only in the catalog.
        """
        ...


class IcebergFormat:
    """Tables whose metadata the catalog keeps."""

    files_have_partition_columns = True

    def is_current(self, _row: EntryRow, /) -> bool:
        """Always: the store has the newest metadata."""
        return True

    def current(self, _call: Call, entry: Entry[TableMetadata], /) -> Entry[TableMetadata] | None:
        """The entry itself."""
        return entry

    def check_writable(self, _row: EntryRow, _identifier: TableIdentifier, /) -> None:
        """Iceberg tables take commits."""


class TableFormats:
    """The formats that entries may have."""

    def __init__(self, others: Mapping[str, TableFormat]) -> None:
        """Adds formats to Iceberg, by the name that the rows of entries have in `format`."""
        self._formats: dict[str, TableFormat] = {_ICEBERG: IcebergFormat(), **others}

    def of(self, row: EntryRow) -> TableFormat:
        """The format of an entry.

        Raises:
            UnsupportedOperationError: this service does not read the format.
        """
        found = self._formats.get(row.format)
        if found is None:
            raise UnsupportedOperationError(f"Tables of the format {row.format} are not supported here")
        return found


class TurnedOffFormat:
    """Stands in for the services of a format. Its tables are listed, renamed and dropped, nothing else."""

    files_have_partition_columns = False

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

    def check_writable(self, _row: EntryRow, identifier: TableIdentifier, /) -> None:
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

    def of_connector(self, _connector_id: UUID, /) -> tuple[()]:
        """No table, as `known`."""
        return ()

    def set_gone(self, _entry_ids: Sequence[UUID], _gone_at_ms: int | None, /) -> None:
        """Changes nothing."""
