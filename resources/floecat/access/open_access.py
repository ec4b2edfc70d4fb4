"""Access over a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from floecat.access.access_service import AccessService
from floecat.access.stored_authorizer import StoredAuthorizer
from floecat.auth.authorizer import AllowAll, Authorizer
from floecat.auth.principals import Principal
from floecat.clock import Clock
from floecat.memory_budget import MemoryBudget
from floecat.settings import Settings
from floecat.store.database.engine import Store

__all__ = ["AccessServices", "open_access"]


@dataclass(frozen=True, slots=True)
class AccessServices:
    """The authorizer that decides, and the service that changes access.

    Attributes:
        log_in: makes the row of a principal whose token was verified.
    """

    authorizer: Authorizer
    access: AccessService
    log_in: Callable[[Principal], None]


def open_access(settings: Settings, store: Store, memory: MemoryBudget, clock: Clock) -> AccessServices:
    """The services. In `auth-mode=dev` everybody may do everything."""
    stored = StoredAuthorizer(store, memory, clock, settings.auth, most_principals=settings.limits.principals)
    authorizer = AllowAll() if settings.gateway.auth_mode == "dev" else stored
    return AccessServices(authorizer, AccessService(store, clock, stored), stored.log_in)
