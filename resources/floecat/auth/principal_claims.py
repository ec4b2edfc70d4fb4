"""The principal that the claims of a verified token stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from floecat.auth.principals import Principal, qualified
from floecat.auth.token_claims import TokenRefusal, shown, told

__all__ = ["LONGEST_NAME", "NO_NAME", "PrincipalClaims", "claim_at"]

LONGEST_NAME: Final = 512
"""UTF-8 bytes of the name of a principal, which is part of keys in the store."""

NO_NAME: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
"""What no name has in it."""


class PrincipalClaims:
    """Reads principals from the claims of an issuer."""

    def __init__(
        self,
        issuer: str = "",
        *,
        name: str = "sub",
        account: str = "account_id",
        groups: str = "roles",
        account_id: UUID | None = None,
    ) -> None:
        """Sets where to look; a path to a claim is as `claim_at` takes it.

        Args:
            issuer: name of the issuer in the settings.
            name: path to the name of the principal.
            account: path to its account.
            groups: path to its groups.
            account_id: the account of all tokens of the issuer; None where they name it.
        """
        self._issuer = issuer
        self._name = name
        self._account = account
        self._groups = groups
        self._account_id = account_id

    def read(self, claims: dict[str, object]) -> Principal | TokenRefusal:
        """The principal, or the reason why the claims name none."""
        name = claim_at(claims, self._name)
        if not isinstance(name, str) or not name:
            return told("principal", f"The bearer token lacks the claim {self._name!r}")
        if NO_NAME.search(name) or len(name.encode()) > LONGEST_NAME:
            return told(
                "principal",
                f"The claim {self._name!r} of the bearer token is too long or no plain text",
            )
        account_id = self._account_id or self._account_of(claims)
        if isinstance(account_id, TokenRefusal):
            return account_id
        if _leaves_out(claims, self._groups):
            return told(
                "groups",
                f"The bearer token leaves the claim {self._groups!r} out, as the principal is in too many"
                " groups: have the provider name fewer, such as those of this application, or roles of it",
            )
        groups = tuple(qualified(self._issuer, each) for each in _names(claim_at(claims, self._groups)))
        return Principal(qualified(self._issuer, name), account_id, claims, groups, self._issuer)

    def _account_of(self, claims: Mapping[str, object]) -> UUID | TokenRefusal:
        account = claim_at(claims, self._account)
        if account is None:
            return told(
                "account", f"The bearer token lacks the claim {self._account!r}, the UUID of an account"
            )
        try:
            if isinstance(account, str):
                return UUID(account)
        except ValueError:
            pass
        return told(
            "account",
            f"The claim {self._account!r} of the bearer token is not the UUID of an account:"
            f" it is {shown(account)}",
        )


def claim_at(claims: object, path: str) -> object:
    """The claim of a name, or of a path as `realm_access.roles`. Names may have dots in them."""
    if not isinstance(claims, dict):
        return None
    if path in claims:
        return claims[path]
    for dot in (place for place, letter in enumerate(path) if letter == "."):
        if path[:dot] in claims:
            return claim_at(claims[path[:dot]], path[dot + 1 :])
    return None


def _leaves_out(claims: Mapping[str, object], path: str) -> bool:
    """Whether groups are not in the token but elsewhere: Entra's overage, and OpenID Connect Core 5.6.2."""
    elsewhere = claims.get("_claim_names")
    if isinstance(elsewhere, dict) and (path in elsewhere or path.partition(".")[0] in elsewhere):
        return True
    return path == "groups" and "groups" not in claims and str(claims.get("hasgroups")).lower() == "true"


def _names(claim: object) -> tuple[str, ...]:
    """The names of a list. A text is one name, as providers send a single group; they may have blanks."""
    if isinstance(claim, str):
        return (claim,)
    return tuple(each for each in claim if isinstance(each, str)) if isinstance(claim, list) else ()
