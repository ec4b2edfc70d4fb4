"""Scan plans."""

from __future__ import annotations

from typing import Annotated

from floecat.settings.fields import SettingsGroup
from floecat.settings.kinds import integer, size, text

__all__ = ["PlanningSettings"]


class PlanningSettings(SettingsGroup, frozen=True, kw_only=True):
    """Planning of scans: in processes of their own, and by workers where it takes long."""

    processes: Annotated[int | None, integer(maximum=256)] = None
    """Processes, at lower priority, in which scans with many bytes of manifests are planned. Each process of
    the service has its own. 0 plans all in the service itself. Default: one less than the machine has cores,
    at least one."""

    memory: Annotated[int | None, size()] = None
    """Decoded manifests that the planning processes of one process of the service keep in memory, together.
    Default: half of the default of `floecat.cache.memory`."""

    disk_cache_folder: Annotated[str | None, text()] = None
    """A folder on local disk where decoded manifests are kept too, so that plans are fast after a restart.
    Processes of one machine may share it, and its files may be deleted at any time. They hold names of data
    files and bounds of their values: the folder is made for its user alone. Default: none are kept."""

    disk_cache_size: Annotated[int, size()] = 1 << 30
    """Size of all files in that folder. Those that were not used for longest are deleted. A decoded manifest
    takes about an eighth of what it takes in memory."""

    in_process_bytes: Annotated[int, size()] = 256 << 10
    """Scans whose manifests have no more bytes are planned in the service itself."""

    most_waiting: Annotated[int, integer(minimum=1)] = 100
    """Plans that may wait for a process. More are answered 503."""

    explain_budget_ms: Annotated[int, integer(minimum=1)] = 60_000
    """Longest time of a plan that is explained (`floecat table plan`, and the management API). One that takes
    longer is answered 503."""

    workers: Annotated[int, integer(maximum=64)] = 2
    """Plans that took longer than `floecat.gateway.plan-sync-budget` and that one process of the service goes
    on with at a time. 0 leaves them to other processes."""

    poll_interval_ms: Annotated[int, integer(minimum=10)] = 1_000
    """Time between two looks of an idle worker for plans that other processes were asked for."""

    lease_ms: Annotated[int, integer(minimum=1_000)] = 15_000
    """Time that a worker owns a plan without renewing. The plan of a worker that died starts again then."""

    max_attempts: Annotated[int, integer(minimum=1)] = 3
    """Tries of a plan before it fails."""
