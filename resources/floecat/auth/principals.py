"""Principals: the identities that requests are made by."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import msgspec

__all__ = ["DEVELOPER", "Principal", "issuer_of", "qualified"]

DEVELOPER = "developer"
"""Name of the principal that everybody is in `auth-mode=dev`."""


class Principal(msgspec.Struct, frozen=True):
    """An identity and the account that it belongs to."""

    name: str
    """Name, `qualified` by its issuer: no other principal of the account has it."""
    account_id: UUID
    claims: Mapping[str, object] = {}
    """Claims of the token, verified. Empty in `auth-mode=dev`."""
    groups: tuple[str, ...] = ()
    """Groups that the token names, verified and `qualified`. A role of Floecat may have them as members."""
    issuer: str = ""
    """Name of the issuer of the token in the settings (`floecat.auth.issuers`); empty for `floecat.oidc`."""
    owner_id: UUID | None = None
    """Id of the principal or role where somebody is asked about as an owner, and not by a token."""

    @property
    def clients(self) -> frozenset[str]:
        """The client that the token was given to (claims `azp` and `client_id`), `qualified`."""
        named = (self.claims.get(claim) for claim in ("azp", "client_id"))
        return frozenset(qualified(self.issuer, name) for name in named if isinstance(name, str))


def qualified(issuer: str, name: str) -> str:
    """The name of a principal or group that no other issuer can give: `@ISSUER/NAME`.

    Names of the issuer without a name (`floecat.oidc`) stay as they are, unless they begin with `@`.
    """
    return f"@{issuer}/{name}" if issuer or name.startswith("@") else name


def issuer_of(name: str) -> str:
    """The issuer of a qualified name."""
    return name[1:].partition("/")[0] if name.startswith("@") else ""
