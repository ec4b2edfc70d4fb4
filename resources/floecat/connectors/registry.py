"""The kinds of connectors: built-in ones by a short name, others by `package.module:Class`.

Users of the catalog choose a kind, so only built-in kinds and those that the operator lists are imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from floecat.connectors.spi import Connector
from floecat.errors import BadRequestError, SettingsError
from floecat.settings.imports import check_place, imported
from floecat.struct_types import prepare_struct_types

__all__ = ["BUILT_IN", "ConnectorRegistry"]

_SETTING = "floecat.connectors.kinds"

BUILT_IN = {
    "delta": "floecat.delta.connector:DeltaConnector",
    "iceberg": "floecat.connectors.kinds.iceberg_folders:IcebergFoldersConnector",
    "iceberg-rest": "floecat.connectors.kinds.iceberg_rest:IcebergRestConnector",
    "pyiceberg": "floecat.connectors.kinds.pyiceberg_catalog:PyIcebergConnector",
    "unity": "floecat.connectors.kinds.unity:UnityConnector",
    "catalog": "floecat.connectors.kinds.own_catalog:OwnCatalogConnector",
}
"""Built-in kinds, and the classes behind them."""


class ConnectorRegistry:
    """Finds the class of a kind."""

    def __init__(self, further: Sequence[str] = ()) -> None:
        """Adds kinds, as `package.module:Class`.

        Raises:
            SettingsError: one of them has another form.
        """
        for kind in further:
            check_place(_SETTING, kind)
        self._places = BUILT_IN | {kind: kind for kind in further}

    @property
    def kinds(self) -> tuple[str, ...]:
        """All kinds, built-in ones first."""
        return tuple(self._places)

    def get(self, kind: str) -> type[Connector]:
        """The class of a kind.

        Raises:
            BadRequestError: there is no such kind.
            SettingsError: the operator named it, and it cannot be imported, or is not a connector.
        """
        place = self._places.get(kind)
        if place is None:
            known = ", ".join(self.kinds)
            raise BadRequestError(f"Unknown kind of connector: {kind[:80]!r} (known: {known})")
        found = imported(_SETTING, place)
        if not callable(found) or not callable(getattr(found, "discover", None)):
            raise SettingsError(f"{_SETTING}: {place} is not a connector: it has no discover()")
        prepare_struct_types()
        return cast("type[Connector]", found)
