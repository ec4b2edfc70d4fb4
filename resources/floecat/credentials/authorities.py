"""Storage authorities: who makes the keys for the files below a prefix.

An authority belongs to an account and makes keys for its catalogs alone. Of several the longest prefix that
holds a location counts. How each kind makes keys is in a module of its own (`KeyMaker`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, Literal, TypeAlias, cast
from uuid import UUID

import msgspec

from floecat.fileio.locations import Location

__all__ = [
    "AZURE_DOMAINS",
    "AdlsMethod",
    "AuthorityKind",
    "GcsMethod",
    "HiddenSecrets",
    "KeyMethod",
    "KeySource",
    "S3Method",
    "Secrets",
    "StorageAuthority",
    "authority_of",
]

AZURE_DOMAINS: Final = frozenset(
    {"core.windows.net", "core.usgovcloudapi.net", "core.chinacloudapi.cn", "fabric.microsoft.com"}
)
"""Azure's own: a token of the service goes to no other host."""

AuthorityKind: TypeAlias = Literal["s3", "gcs", "adls"]

KeySource: TypeAlias = Literal["own", "service", "web-identity"]
"""Whose long-lived keys make the keys for clients: the authority's, the service's, or a token of the service
(`AssumeRoleWithWebIdentity`)."""


class _Method(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", rename="kebab", forbid_unknown_fields=True
):
    SCHEME: ClassVar[str]
    """Scheme of its locations."""

    @property
    def kind(self) -> AuthorityKind:
        """Kind of the authority."""
        return cast("AuthorityKind", self.__struct_config__.tag)


class S3Method(_Method, frozen=True, kw_only=True, tag="s3"):
    """Keys by AssumeRole, at AWS or a service that speaks its protocol."""

    SCHEME = "s3"

    keys_of: KeySource = "own"
    access_key_id: str | None = None
    """Access key of the authority; its secret is `secret-access-key`."""
    role_arn: str | None = None
    """Role that is assumed. Without one no keys are vended, and the authority's own sign requests."""
    external_id: str | None = None
    duration_s: int = 3600
    region: str | None = None
    endpoint: str | None = None
    sts_endpoint: str | None = None
    """URL of the STS. Default: `endpoint`, else that of the region at AWS."""
    path_style_access: bool = False
    tells_endpoint: bool = True
    """Whether clients are sent `s3.endpoint`; ClickHouse takes keys only without."""
    sse_type: str | None = None
    """Encryption by the server, as `s3.sse.type` of clients: `s3` or `kms`."""
    sse_key: str | None = None
    """ARN of the key of `kms`; keys for clients may use it."""
    names_principals: bool = False
    """Whether session name and tags carry the principal, so that keys are made for each one."""

    @property
    def secret(self) -> str | None:
        """Name of what it keeps secret."""
        return "secret-access-key" if self.keys_of == "own" else None


class GcsMethod(_Method, frozen=True, kw_only=True, tag="gcs"):
    """Downscoped tokens (credential access boundaries) of Google Cloud Storage.

    The secret `service-account-key` is the JSON of a service account.
    """

    SCHEME = "gs"

    keys_of: KeySource = "own"
    project_id: str | None = None
    endpoint: str | None = None
    """URL of a compatible service. Default: Google."""
    sts_endpoint: str | None = None
    """URL of the token exchange. Default: Google's."""

    @property
    def secret(self) -> str | None:
        """Name of what it keeps secret."""
        return "service-account-key" if self.keys_of == "own" else None


class AdlsMethod(_Method, frozen=True, kw_only=True, tag="adls"):
    """User-delegation SAS of Azure Data Lake Storage, or a SAS signed with the key of the account.

    Secrets: `client-secret` of a service principal, or `account-key`.
    """

    SCHEME = "abfss"

    keys_of: KeySource = "own"
    tenant_id: str | None = None
    client_id: str | None = None
    duration_s: int = 3600
    hierarchical: bool = True
    """Whether the account has a hierarchical namespace, so that a SAS can be for a directory."""
    endpoint: str | None = None
    """URL of a compatible service that has the account in the path. Default: Azure."""
    login_endpoint: str | None = None
    """URL of the token service. Default: Azure's."""

    @property
    def secret(self) -> str | None:
        """Name of what it keeps secret."""
        if self.keys_of != "own":
            return None
        return "account-key" if self.client_id is None else "client-secret"


KeyMethod: TypeAlias = S3Method | GcsMethod | AdlsMethod


class StorageAuthority(msgspec.Struct, frozen=True):
    """An authority."""

    id: UUID
    account_id: UUID
    name: str
    prefix: Location
    method: KeyMethod
    enabled: bool
    encrypted_secrets: str | None
    """What it keeps secret, by name, encrypted (`AuthoritySecrets`)."""
    version: int
    """Counts its changes: a key that was made by an earlier version is not handed out."""
    created_at_ms: int
    updated_at_ms: int


def authority_of(authorities: Iterable[StorageAuthority], location: Location) -> StorageAuthority | None:
    """The enabled authority with the longest prefix that holds a location."""
    found = [each for each in authorities if each.enabled and each.prefix.contains(location)]
    return max(found, key=lambda each: len(each.prefix.path), default=None)


Secrets: TypeAlias = Mapping[str, str]
"""What an authority keeps secret, in the clear."""


class HiddenSecrets(msgspec.Struct, frozen=True):
    """Base of requests that have secrets: their representation does not show them."""

    def __repr__(self) -> str:
        shown = (name for name in self.__struct_fields__ if name not in ("secrets", "credentials"))
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
