"""Access over a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from floecat.access.access_questions import AccessQuestions
from floecat.access.access_service import AccessService
from floecat.access.account_service import AccountService
from floecat.access.authorizers import chosen_authorizer
from floecat.access.built_in_roles import BuiltInRoles
from floecat.access.changes import AccessChanges
from floecat.access.principal_service import PrincipalService
from floecat.access.refusals import Refusals, RefusingAuthorizer
from floecat.access.roles import RoleService
from floecat.access.stored_authorizer import StoredAuthorizer
from floecat.auth.authorizer import AllowAll, Authorizer
from floecat.auth.principals import Principal
from floecat.clock import Clock
from floecat.errors import ForbiddenError
from floecat.memory_budget import MemoryBudget
from floecat.settings import Settings
from floecat.store.database.engine import Store

__all__ = ["AccessServices", "open_access"]


@dataclass(frozen=True, slots=True)
class AccessServices:
    """The authorizer that decides, and the services that change access and answer questions about it.

    Attributes:
        changes: makes changes of access.
        accounts: manages accounts.
        log_in: makes the row of a principal whose token was verified.
    """

    authorizer: Authorizer
    refusals: Refusals
    changes: AccessChanges
    access: AccessService
    roles: RoleService
    built_in_roles: BuiltInRoles
    principals: PrincipalService
    questions: AccessQuestions
    accounts: AccountService
    log_in: Callable[[Principal], None]
    service_operators: str | None
    """Group of tokens whose members manage accounts."""
    is_open: bool
    """Whether everybody may, as in `auth-mode=dev`."""

    def accounts_for(self, principal: Principal) -> AccountService:
        """Accounts, for a principal that may manage them.

        Raises:
            ForbiddenError: it may not, or is disabled.
        """
        if not self.is_open and (
            self.service_operators is None or self.service_operators not in principal.groups
        ):
            raise ForbiddenError(
                f"{principal.name} may not manage accounts: it is not in the group of"
                " floecat.auth.service-operators"
            )
        self.authorizer.allowed(principal, ())
        return self.accounts


def open_access(
    settings: Settings,
    store: Store,
    memory: MemoryBudget,
    clock: Clock,
    authorizer: Authorizer | None = None,
) -> AccessServices:
    """The services. In `auth-mode=dev` everybody may do everything.

    Args:
        authorizer: decides instead of what the settings choose.

    Raises:
        SettingsError: they name none that there is.
    """
    auth = settings.auth
    stored = StoredAuthorizer(store, memory, clock, settings.auth, most_principals=settings.limits.principals)
    is_open = settings.gateway.auth_mode == "dev"
    decides = authorizer or (AllowAll() if is_open else chosen_authorizer(settings, store, stored))
    refusals = Refusals(
        store,
        clock,
        records=auth.record_refusals,
        most_rows=settings.limits.recorded_refusals,
        kept_ms=auth.refusals_retention.ms,
    )
    changes = AccessChanges(
        store,
        clock,
        settings.limits,
        has_operators=auth.operators is not None,
        issuers=auth.issuers.keys(),
    )
    access = AccessService(changes)
    role_service = RoleService(changes, stored, access)
    return AccessServices(
        RefusingAuthorizer(decides, refusals, hides=auth.hide_forbidden),
        refusals,
        changes,
        access,
        role_service,
        BuiltInRoles(access, role_service),
        PrincipalService(changes),
        AccessQuestions(changes, stored),
        AccountService(store, clock),
        stored.log_in,
        auth.service_operators,
        is_open=is_open,
    )
