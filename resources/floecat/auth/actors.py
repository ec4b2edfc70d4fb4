"""Those who act: a principal with the authorizer that decides what it may do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from floecat.auth.authorizer import Authorizer, Check, FoundSecurable, check_allowed
from floecat.auth.principals import Principal
from floecat.errors import FloecatError

if TYPE_CHECKING:
    from floecat.store.database.engine import Connection

__all__ = ["Actor"]


class Actor(msgspec.Struct, frozen=True):
    """Who does something in its account, outside of any catalog."""

    principal: Principal
    authorizer: Authorizer

    @property
    def account_id(self) -> UUID:
        """The account of the principal."""
        return self.principal.account_id

    def check(
        self, *checks: Check, found: FoundSecurable | None = None, also: Sequence[Check] = ()
    ) -> Sequence[bool]:
        """Refuses what the principal may not do, in one question to the authorizer.

        Args:
            checks: the privileges.
            found: what they are about, if it was looked up.
            also: what else is asked.

        Returns:
            Whether the principal has each of `also`.

        Raises:
            ForbiddenError: a privilege is missing.
        """
        return check_allowed(self.authorizer, self.principal, checks, found, also)

    def refusal(self, check: Check) -> FloecatError:
        """The error for a privilege that the principal does not have."""
        return self.authorizer.refusal(self.principal, check)

    def allowed(self, checks: Sequence[Check]) -> Sequence[bool]:
        """Whether the principal has each of the privileges."""
        return self.authorizer.allowed(self.principal, checks)

    def owns(self, conn: Connection, owner_id: UUID | None) -> bool:
        """Whether the principal is an owner, a member of it, or may do everything; nobody owns for None."""
        return owner_id is not None and self.authorizer.owns(conn, self.principal, owner_id)

    def owner(self, conn: Connection) -> UUID | None:
        """The owner of what the principal creates, in the transaction that creates it."""
        return self.authorizer.owner(conn, self.principal)
