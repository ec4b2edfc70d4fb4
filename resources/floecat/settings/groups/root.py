"""All settings of a process, one struct per concern."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from floecat.settings.fields import SettingsGroup
from floecat.settings.groups.gateway import GatewaySettings
from floecat.settings.groups.namespaces import NamespaceSettings
from floecat.settings.groups.pipeline import (
    ConnectorSettings,
    EventSettings,
    PipelineSettings,
    SparkSettings,
)
from floecat.settings.groups.planning import PlanningSettings
from floecat.settings.groups.process import (
    AuthSettings,
    CacheSettings,
    LogSettings,
    OidcSettings,
    SecretSettings,
    StoreSettings,
)
from floecat.settings.groups.purge import PurgeSettings
from floecat.settings.groups.statistics import StatisticsSettings
from floecat.settings.groups.storage import StorageSettings
from floecat.settings.kinds import text
from floecat.settings.limits import LimitSettings

__all__ = ["Settings"]


class Settings(SettingsGroup, frozen=True, kw_only=True):
    """All settings of a process."""

    data_dir: Annotated[str, text()] = ".floecat"
    """Folder of everything that lives on the local disk by default."""

    gateway: GatewaySettings = GatewaySettings()
    """The REST service."""

    namespaces: NamespaceSettings = NamespaceSettings()
    """Names of nested namespaces as one text."""

    store: StoreSettings = StoreSettings()
    """The SQL store."""

    secrets: SecretSettings = SecretSettings()
    """Encryption of the secrets in the store."""

    storage: StorageSettings = StorageSettings()
    """Object storage and the local disk."""

    cache: CacheSettings = CacheSettings()
    """Memory for what never changes."""

    oidc: OidcSettings = OidcSettings()
    """Validation of bearer tokens."""

    auth: AuthSettings = AuthSettings()
    """Rights of principals."""

    limits: LimitSettings = LimitSettings()
    """Bounds on what one request, file or tenant may take."""

    purge: PurgeSettings = PurgeSettings()
    """Deletion of files of dropped tables."""

    events: EventSettings = EventSettings()
    """Events of tables, for other packages."""

    connectors: ConnectorSettings = ConnectorSettings()
    """Connectors, which find tables that are in storage already."""

    planning: PlanningSettings = PlanningSettings()
    """Scan plans."""

    pipeline: PipelineSettings = PipelineSettings()
    """Tables in Dagster."""
    statistics: StatisticsSettings = StatisticsSettings()
    """Statistics of snapshots."""

    spark: SparkSettings = SparkSettings()
    """Spark, on which the pipeline builds what many files have to be opened for."""

    log: LogSettings = LogSettings()
    """Logs."""

    @property
    def data_path(self) -> Path:
        """The data folder, absolute."""
        return Path(self.data_dir).expanduser().absolute()

    @property
    def embedded_store(self) -> Path | None:
        """The file of the SQLite store in the data folder; None if the URL of a store is set."""
        return None if self.store.url else self.data_path / "floecat.db"

    @property
    def store_url(self) -> str:
        """The URL of the store: the one that is set, else SQLite in the data folder."""
        return self.store.url or f"sqlite:///{quote(str(self.embedded_store))}"

    @property
    def warehouse_location(self) -> str:
        """Storage location of the default catalog: the one that is set, else a folder as `file://` URI."""
        return self.gateway.default_warehouse_path or (self.data_path / "warehouse").as_uri()
