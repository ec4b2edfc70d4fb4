"""Settings of every process: frozen structs, one per concern.

A value comes from the command line, else the environment, else the file, else the default beside the field.
``floecat.gateway.plan-task-ttl`` in the file is ``FLOECAT_GATEWAY_PLAN_TASK_TTL`` in the environment and
``settings.gateway.plan_task_ttl`` in code.
"""

from __future__ import annotations

from floecat.settings.groups.commits import BackoffSettings, CommitSettings
from floecat.settings.groups.delta import DeltaCompatSettings
from floecat.settings.groups.gateway import GatewaySettings
from floecat.settings.groups.pipeline import (
    ConnectorSettings,
    EventSettings,
    PipelineSettings,
    SparkSettings,
)
from floecat.settings.groups.planning import PlanningSettings
from floecat.settings.groups.process import (
    CacheSettings,
    IssuerSettings,
    LogSettings,
    OidcSettings,
    SecretSettings,
    StoreSettings,
)
from floecat.settings.groups.purge import PurgeSettings
from floecat.settings.groups.root import Settings
from floecat.settings.groups.statistics import StatisticsSettings
from floecat.settings.groups.storage import (
    AdlsSettings,
    AuthoritySettings,
    AwsSettings,
    CatalogAccessSettings,
    GcsSettings,
    S3Settings,
    StorageSettings,
)
from floecat.settings.kinds import Duration
from floecat.settings.loading import load_settings
from floecat.settings.reference import SettingDescription, describe, dump

__all__ = [
    "AdlsSettings",
    "AuthoritySettings",
    "AwsSettings",
    "BackoffSettings",
    "CacheSettings",
    "CatalogAccessSettings",
    "CommitSettings",
    "ConnectorSettings",
    "DeltaCompatSettings",
    "Duration",
    "EventSettings",
    "GatewaySettings",
    "GcsSettings",
    "IssuerSettings",
    "LogSettings",
    "OidcSettings",
    "PipelineSettings",
    "PlanningSettings",
    "PurgeSettings",
    "S3Settings",
    "SecretSettings",
    "SettingDescription",
    "Settings",
    "SparkSettings",
    "StatisticsSettings",
    "StorageSettings",
    "StoreSettings",
    "describe",
    "dump",
    "load_settings",
]
