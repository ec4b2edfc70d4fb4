"""The interface of connectors, which find tables in a place outside the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from floecat.errors import FloecatError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.identifiers.namespace import Namespace
from floecat.storage.catalog_storage import CatalogStorage

__all__ = [
    "ChecksRoot",
    "Connector",
    "ConnectorSource",
    "DiscoveredTable",
    "Discovery",
    "UnreadablePlace",
]


def _not_told(_location: str) -> None:
    pass


class ConnectorSource(msgspec.Struct, frozen=True):
    """The place that a connector searches, with the options and the storage for it."""

    location: str
    """Root of the place, normalized."""
    options: Mapping[str, str]
    """Options of its kind."""
    storage: CatalogStorage
    """Storage of the catalog."""
    looks_into: Callable[[str], None] = _not_told
    """A connector calls it with each folder before it looks into it, for the progress of the scan. It raises
    what must end the scan: let that pass."""

    @property
    def allowed(self) -> AllowedLocations:
        """The locations outside which nothing is looked at."""
        return self.storage.allowed

    @property
    def files(self) -> FileIO:
        """The storage that holds the place."""
        return self.storage.files(self.location)


class DiscoveredTable(msgspec.Struct, frozen=True):
    """A table that exists, whether or not the catalog has it."""

    name: str
    location: str
    """Root of the table, normalized."""
    namespace: Namespace = ()
    """Levels below the namespace of the connector."""
    format: str = "delta"


class UnreadablePlace(msgspec.Struct, frozen=True):
    """A part of the place that could not be read."""

    location: str
    error: FloecatError


Discovery: TypeAlias = DiscoveredTable | UnreadablePlace


class Connector(Protocol):
    """Looks for tables. It is created with a `ConnectorSource`, for one scan."""

    def __init__(self, source: ConnectorSource) -> None:
        """Takes where to look; sends nothing yet.

        Raises:
            BadRequestError: an option is unknown or has a value of the wrong kind.
        """
        ...

    def discover(self) -> Iterator[Discovery]:
        """Yields every table of the place once, as it is found, and the parts that could not be read.

        Raises:
            StorageUnavailableError: storage fails altogether.
        """
        ...


@runtime_checkable
class ChecksRoot(Protocol):
    """An optional check of the root alone, when a connector is created."""

    def check_root(self) -> None:
        """Checks that there is anything to search.

        Raises:
            FloecatError: there is not, or it cannot be read.
        """
        ...
