"""The services that all requests of a process share."""

from __future__ import annotations

from dataclasses import dataclass

from floecat.auth.authentication import open_authentication
from floecat.auth.principals import Principal
from floecat.memory_budget import MemoryBudget
from floecat.runtime import Kernel
from floecat.settings import Settings
from floecat.working_memory import WorkingMemory
from floecat_rest.process.authentication import Authenticator
from floecat_rest.process.process_metrics import ProcessMetrics
from floecat_rest.process.readiness import Readiness
from floecat_rest.process.request_threads import RequestThreads

__all__ = ["Services"]


@dataclass
class Services:
    """State that all requests of a process share."""

    settings: Settings
    kernel: Kernel | None = None
    """Set when the application has started."""

    process_metrics: ProcessMetrics | None = None
    """Likewise."""

    def __post_init__(self) -> None:
        """Makes what needs only settings.

        Raises:
            SettingsError: `auth-mode=oidc` has no usable source of keys.
        """
        self.memory = MemoryBudget(self.settings.cache.memory)
        limits = self.settings.limits
        self.working_memory = WorkingMemory(
            limits.working_memory_bytes, wait_ms=limits.working_memory_wait_ms
        )
        # of large bodies, one is worked on at a time
        self.turns = WorkingMemory(1, wait_ms=limits.working_memory_wait_ms)
        self.threads = RequestThreads(self.settings)
        authentication = open_authentication(self.settings, self.memory)
        self.authenticator = Authenticator(authentication, self.threads, self._logged_in)
        self.readiness = Readiness(timeout_ms=self.settings.store.timeout_ms)
        # asks the store for gauges
        self.gauges = Readiness(timeout_ms=self.settings.store.timeout_ms)

    def _logged_in(self, principal: Principal) -> None:
        if self.kernel is not None:
            self.kernel.access.log_in(principal)
