"""Connectors as front ends see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from floecat.credentials.authorities import HiddenSecrets
from floecat.identifiers.namespace import Namespace
from floecat.store.catalogs.connector_policies import ConnectorPolicy

__all__ = [
    "ConnectorInfo",
    "ConnectorPolicy",
    "ConnectorState",
    "ConnectorUpdate",
    "NewConnector",
    "ScanProgress",
]


class NewConnector(HiddenSecrets, frozen=True):
    """The request for a new connector."""

    name: str
    kind: str
    location: str
    namespace: Namespace = ()
    """Namespace below which its tables go. Default: one with the name of the connector."""
    options: Mapping[str, str] = {}
    enabled: bool = True
    """Whether schedules scan it."""
    interval_ms: int = 600_000
    """Time between two scheduled scans."""
    credentials: Mapping[str, str] = {}
    """How it logs in, as `check_credentials` knows it."""
    policy: Mapping[str, Any] = {}
    """Values of a `ConnectorPolicy`, by their names there in kebab case; all others have their defaults."""


class ConnectorUpdate(HiddenSecrets, frozen=True):
    """Changes of a connector; what is None stays."""

    options: Mapping[str, str] | None = None
    """All of them."""
    credentials: Mapping[str, str] | None = None
    """All of them; none with an empty one."""
    enabled: bool | None = None
    interval_ms: int | None = None
    policy: Mapping[str, Any] | None = None
    """The values of the policy that change, by name; none is set to its default."""


class ScanProgress(msgspec.Struct, frozen=True):
    """The progress of a scan."""

    folders: int = 0
    """Looked into."""
    tables: int = 0
    """Found."""
    registered: int = 0
    """Tables that are new."""
    failed: int = 0
    """Tables that could not be registered, and folders that could not be read."""
    changed: int = 0
    """Tables and views that follow another catalog and got a newer state, or another name."""
    gone: int = 0
    """Tables and views that are not in the other catalog any more."""
    captures: int = 0
    """Tables whose snapshots are captured next."""


class ConnectorInfo(msgspec.Struct, frozen=True):
    """A connector as a front end renders it."""

    name: str
    kind: str
    location: str
    namespace: Namespace
    options: dict[str, str]
    enabled: bool
    interval_ms: int
    next_scan_at_ms: int
    last_scan_at_ms: int | None
    last_error: str | None
    created_at_ms: int
    credentials: dict[str, str] = {}
    """The scheme, and `***` for each further field."""
    policy: ConnectorPolicy = ConnectorPolicy()
    running_scan: ScanProgress | None = None
    """The scheduled scan that is under way; looked up with a single connector."""


class ConnectorState(NamedTuple):
    """How it stands with a connector, of any catalog."""

    account_id: UUID
    catalog: str
    name: str
    enabled: bool
    last_error: str | None
    followed: int
    """Tables and views that follow another catalog."""
    unreadable: int
    """Those of them whose newest state could not be taken."""
    gone: int
    """Those of them that are not there any more."""
