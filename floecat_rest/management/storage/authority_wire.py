"""Bodies of the routes about storage authorities; the command line prints the same JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from floecat.credentials.authorities import HiddenSecrets, KeyMethod, StorageAuthority
from floecat.credentials.authority_rules import MASK
from floecat.credentials.authority_service import AuthorityUpdate, NewAuthority

__all__ = [
    "AuthorityResponse",
    "CreateAuthorityRequest",
    "ListAuthoritiesResponse",
    "UpdateAuthorityRequest",
]


class CreateAuthorityRequest(HiddenSecrets, frozen=True, forbid_unknown_fields=True):
    """A new storage authority."""

    name: str
    prefix: str
    """Location below which it makes keys, as `s3://lake/tables`; of several the longest counts."""
    method: KeyMethod
    secrets: dict[str, str] = {}
    """What no answer shows: `secret-access-key` of S3, `service-account-key` of Google, `client-secret` or
    `account-key` of Azure."""
    enabled: bool = True

    def to_kernel(self) -> NewAuthority:
        """The kernel's form."""
        return NewAuthority(self.name, self.prefix, self.method, self.secrets, self.enabled)


class UpdateAuthorityRequest(HiddenSecrets, frozen=True, forbid_unknown_fields=True):
    """Changes of a storage authority; what is left out stays."""

    name: str | None = None
    prefix: str | None = None
    method: KeyMethod | None = None
    """The whole of it."""
    secrets: dict[str, str] = {}
    enabled: bool | None = None

    def to_kernel(self) -> AuthorityUpdate:
        """The kernel's form."""
        return AuthorityUpdate(self.name, self.prefix, self.method, self.secrets, self.enabled)


class AuthorityResponse(msgspec.Struct, rename="kebab"):
    """A storage authority."""

    name: str
    prefix: str
    method: KeyMethod
    secrets: Mapping[str, str]
    """What it keeps secret, as `***`."""
    enabled: bool
    version: int
    """Counts its changes."""
    created_at_ms: int
    updated_at_ms: int

    @classmethod
    def of(cls, found: StorageAuthority) -> AuthorityResponse:
        """Renders an authority."""
        return cls(
            found.name,
            str(found.prefix),
            found.method,
            {} if found.method.secret is None else {found.method.secret: MASK},
            found.enabled,
            found.version,
            found.created_at_ms,
            found.updated_at_ms,
        )


class ListAuthoritiesResponse(msgspec.Struct, rename="kebab"):
    """Storage authorities, by name."""

    authorities: Sequence[AuthorityResponse]
    next_page_token: str | None
