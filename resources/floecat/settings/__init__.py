"""Settings of every process: frozen structs, one per concern.

A value comes from the command line, else the environment, else the file, else the default beside the field.
``floecat.gateway.plan-task-ttl`` in the file is ``FLOECAT_GATEWAY_PLAN_TASK_TTL`` in the environment and
``settings.gateway.plan_task_ttl`` in code.
"""

from __future__ import annotations

from floecat.settings.groups import (
    AwsSettings,
    BackoffSettings,
    CacheSettings,
    CommitSettings,
    ConnectorSettings,
    DeltaCompatSettings,
    EventSettings,
    GatewaySettings,
    LogSettings,
    OidcSettings,
    PlanningSettings,
    PurgeSettings,
    S3Settings,
    Settings,
    SparkSettings,
    StorageSettings,
    StoreSettings,
)
from floecat.settings.kinds import Duration
from floecat.settings.loading import load_settings
from floecat.settings.reference import SettingDescription, describe, dump

__all__ = [
    "AwsSettings",
    "BackoffSettings",
    "CacheSettings",
    "CommitSettings",
    "ConnectorSettings",
    "DeltaCompatSettings",
    "Duration",
    "EventSettings",
    "GatewaySettings",
    "LogSettings",
    "OidcSettings",
    "PlanningSettings",
    "PurgeSettings",
    "S3Settings",
    "SettingDescription",
    "Settings",
    "SparkSettings",
    "StorageSettings",
    "StoreSettings",
    "describe",
    "dump",
    "load_settings",
]
