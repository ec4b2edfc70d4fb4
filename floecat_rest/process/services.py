"""The services that all requests of a process share."""

from __future__ import annotations

from dataclasses import dataclass

from floecat.memory_budget import MemoryBudget
from floecat.runtime import Kernel
from floecat.settings import Settings
from floecat.working_memory import WorkingMemory
from floecat_rest.process.authentication import Authenticator
from floecat_rest.process.process_metrics import ProcessMetrics
from floecat_rest.process.readiness import Readiness
from floecat_rest.process.threads import RequestThreads

__all__ = ["Services"]


@dataclass
class Services:
    """State that all requests of a process share."""

    settings: Settings
    kernel: Kernel | None = None
    """Set when the application has started."""

    readiness: Readiness | None = None
    """Likewise."""

    gauges: Readiness | None = None
    """Likewise. Asks the store for gauges."""

    process_metrics: ProcessMetrics | None = None
    """Likewise."""

    threads: RequestThreads | None = None
    """Likewise."""

    authenticator: Authenticator | None = None
    """Set by the application."""

    def __post_init__(self) -> None:
        """Make what needs only settings."""
        self.memory = MemoryBudget(self.settings.cache.memory)
        limits = self.settings.limits
        self.working_memory = WorkingMemory(
            limits.working_memory_bytes, wait_ms=limits.working_memory_wait_ms
        )
