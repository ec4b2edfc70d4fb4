"""The connector `catalog`: the catalog itself, whose own tables are captured by the connector's policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from floecat.connectors.spi import ConnectorSource, Discovery
from floecat.errors import BadRequestError

__all__ = ["OwnCatalogConnector"]

_LOCATION: Final = "catalog:"


class OwnCatalogConnector:
    """Finds nothing: the tables are here. Its location is `catalog:`, and its mode `capture-only`."""

    location_is_storage: ClassVar = False
    only_captures: ClassVar = True

    def __init__(self, source: ConnectorSource) -> None:
        """Refuses what it has no use for.

        Raises:
            BadRequestError: another location, options or credentials.
        """
        if source.location != _LOCATION:
            raise BadRequestError(
                f"Invalid location: a connector of kind catalog has the location {_LOCATION}"
            )
        if source.options or source.credentials:
            raise BadRequestError("A connector of kind catalog takes no options and no credentials")

    def discover(self) -> Iterator[Discovery]:
        """Yields nothing."""
        yield from ()
