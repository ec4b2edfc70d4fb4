"""Access over a store."""

from __future__ import annotations

from dataclasses import dataclass

from floecat.access.access_service import AccessService
from floecat.access.stored_authorizer import StoredAuthorizer
from floecat.auth.authorizer import AllowAll, Authorizer
from floecat.clock import Clock
from floecat.memory_budget import MemoryBudget
from floecat.settings import Settings
from floecat.store.database.engine import Store

__all__ = ["AccessServices", "open_access"]


@dataclass(frozen=True, slots=True)
class AccessServices:
    """The authorizer that decides, and the service that changes access."""

    authorizer: Authorizer
    access: AccessService


def open_access(settings: Settings, store: Store, memory: MemoryBudget, clock: Clock) -> AccessServices:
    """The services. In `auth-mode=dev` everybody may do everything."""
    stored = StoredAuthorizer(store, memory, clock, settings.auth.operators)
    decides = settings.auth.authorizer == "grants" and settings.gateway.auth_mode != "dev"
    return AccessServices(stored if decides else AllowAll(), AccessService(store, clock, stored))
