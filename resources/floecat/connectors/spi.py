"""The interface of connectors, which find tables in a place outside the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from floecat.connectors.selection import Selection
from floecat.errors import FloecatError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.identifiers.namespace import Namespace
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.catalogs.connector_policies import ConnectorPolicy

__all__ = [
    "CATALOG_ID",
    "ChecksRoot",
    "Connector",
    "ConnectorSource",
    "DiscoveredTable",
    "Discovery",
    "LoadsTables",
    "UnreadablePlace",
    "UpstreamDocument",
]


CATALOG_ID: Final = "floecat.catalog-id"
"""Property by which catalogs of this product tell who they are, in `/v1/config`."""


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
    credentials: Mapping[str, str] = {}
    """How it logs in upstream, decrypted: `scheme` and what that needs. Never part of a message or a log."""
    allowed_hosts: Sequence[str] = ()
    """Hosts that it may connect to, from `floecat.connectors.allowed-hosts`: names, or `*.domain`."""
    ca_file: str | None = None
    """Authorities that it trusts beside those of the system, from `floecat.connectors.ca-file`."""
    token_commands: Mapping[str, str] = {}
    """Commands that print tokens, by name, from `floecat.connectors.token-commands`."""
    catalog_id: str = ""
    """Id of the catalog that has the connector."""
    selection: Selection = Selection(ConnectorPolicy())
    """What is taken: a connector need not look for the rest, and may find it all the same."""
    looks_into: Callable[[str], None] = _not_told
    """A connector calls it with each folder before it looks into it, for the progress of the scan. It raises
    what must end the scan: let that pass."""

    def __repr__(self) -> str:
        return f"ConnectorSource({self.location!r})"

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
    """Root of the table, normalized; of a table of another catalog, its address there."""
    namespace: Namespace = ()
    """Levels below the namespace of the connector."""
    format: str = "delta"
    """`delta`, or `iceberg` for tables and views that the connector loads."""
    kind: Literal["table", "view"] = "table"
    state: str | None = None
    """Names the state of a table of the format `iceberg` where discovery knows it already, as the location of
    its metadata: while it is the one that was read last, the table is not loaded."""


class UpstreamDocument(msgspec.Struct, frozen=True):
    """A table or view as its catalog answers it."""

    metadata_location: str
    """Where the document is, as the other catalog names it."""
    state: str
    """Names the state, as an ETag or the location of the metadata: what `load` is given the next time."""
    document: bytes | None = None
    """The metadata document, as JSON; `None` if it is to be read at its location with the storage of the
    catalog."""


class UnreadablePlace(msgspec.Struct, frozen=True):
    """A part of the place that could not be read."""

    location: str
    error: FloecatError


Discovery: TypeAlias = DiscoveredTable | UnreadablePlace


class Connector(Protocol):
    """Looks for tables. It is created with a `ConnectorSource`, for one scan.

    The class of one whose place is another catalog says `location_is_storage = False`: its location is then
    an address, whose host must be allowed, and no location of storage. One that finds nothing, since its
    tables are here, says `only_captures = True`.
    """

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
class LoadsTables(Protocol):
    """What a connector can do that finds tables of the format `iceberg`."""

    def load(self, table: DiscoveredTable, known_state: str | None, /) -> UpstreamDocument | None:
        """The table as it is now. Called by several threads at once, while `discover` goes on.

        Args:
            table: as `discover` found it.
            known_state: state that was loaded last, or `None`.

        Returns:
            `None` if it is still in that state.

        Raises:
            NoSuchTableError: it was dropped meanwhile.
            FloecatError: it cannot be loaded.
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
