"""Settings of every process: a store, memory, logs, keys of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from uuid import UUID

from floecat.settings.fields import SettingsGroup, named_groups
from floecat.settings.kinds import (
    Duration,
    boolean,
    choice,
    duration,
    identifier,
    integer,
    size,
    text,
    text_list,
    text_or_texts,
)

__all__ = [
    "AuthSettings",
    "CacheSettings",
    "IssuerSettings",
    "LogSettings",
    "OidcSettings",
    "OpaSettings",
    "SecretSettings",
    "StoreSettings",
]

_MIB = 1 << 20


class StoreSettings(SettingsGroup, frozen=True, kw_only=True):
    """The SQL store."""

    url: Annotated[str | None, text(secret=True)] = None
    """SQLAlchemy URL, as `postgresql+psycopg://user@host/database`. Default: SQLite in the data folder."""

    pool_size: Annotated[int, integer(minimum=1, maximum=1000)] = 40
    """Most connections of a process. Fewer than `gateway.threads` makes requests wait for each other."""

    timeout_ms: Annotated[int, integer(minimum=1)] = 10_000
    """Longest time of a statement or a connection before the answer is 503."""


class SecretSettings(SettingsGroup, frozen=True, kw_only=True):
    """Keys that encrypt the secrets in the store (AES-256-GCM)."""

    keys: Annotated[tuple[str, ...], text_list(secret=True)] = ()
    """Keys of 32 random bytes, in base64: the first encrypts, all decrypt. Default: a key that is made in the
    file `secrets.key` of the data folder; with `floecat.store.url` there is no default, and the service does
    not start without."""


class CacheSettings(SettingsGroup, frozen=True, kw_only=True):
    """Memory of each process."""

    memory: Annotated[int | None, size()] = None
    """Bytes of all caches of a process together, in place of `metadata-bytes`. By default a quarter of the
    memory of the machine or its control group (cgroup), at most 1 GiB."""


class OidcSettings(SettingsGroup, frozen=True, kw_only=True):
    """Validation of bearer tokens in `auth-mode=oidc`."""

    issuer: Annotated[str | None, text()] = None
    """Accepted issuer (`iss`). Its discovery document names the keys if neither of the next two is set."""

    jwks_url: Annotated[str | None, text()] = None
    """URL of the keys of the issuer."""

    public_key: Annotated[str | None, text()] = None
    """The one key of the issuer, in PEM."""

    audience: Annotated[str | tuple[str, ...] | None, text_or_texts()] = None
    """Accepted audience (`aud`), or several. Default: any."""

    keys_refresh_s: Annotated[int, integer(minimum=1, maximum=86_400)] = 300
    """Time that the keys of the issuer are kept, in seconds. So long a withdrawn key is accepted, and longer
    only while the issuer does not answer. New keys are fetched when a token names them."""

    ca_file: Annotated[str | None, text()] = None
    """File in PEM with certificates of authorities that the issuer's certificate may be of, beside those of
    the system (which `SSL_CERT_FILE` replaces)."""

    principal_claim: Annotated[str, text()] = "sub"
    """Claim that names the principal; a nested one is a path, as `user.name`."""

    roles_claim: Annotated[str, text()] = "roles"
    """Claim that names the groups of the principal: a list of names, or one name; as `realm_access.roles`."""

    leeway_s: Annotated[int, integer(maximum=3_600)] = 30
    """Clock difference to the issuer that is tolerated, in seconds."""


class OpaSettings(SettingsGroup, frozen=True, kw_only=True):
    """The Open Policy Agent, with `floecat.auth.authorizer = "opa"`."""

    url: Annotated[str | None, text()] = None
    """URL of the decision, as `http://localhost:8181/v1/data/floecat/allowed`; `docs/opa.md` says what
    is sent."""

    token: Annotated[str | None, text(secret=True)] = None
    """Bearer token that is sent."""

    timeout_ms: Annotated[int, integer(minimum=1, maximum=60_000)] = 2_000
    """Time for an answer, in milliseconds. Without one the request is refused with 503."""

    max_answer_bytes: Annotated[int, size()] = _MIB
    """Most bytes of an answer."""


class IssuerSettings(OidcSettings, frozen=True, kw_only=True):
    """Validation of the bearer tokens of one of several issuers."""

    account_claim: Annotated[str, text()] = "account_id"
    """Claim of the token that names the account."""

    account: Annotated[UUID | None, identifier()] = None
    """Account of all tokens of the issuer, where they cannot name one."""

    bearer_token_file: Annotated[str | None, text()] = None
    """File with a token that is sent to the issuer when its keys are fetched, by TLS alone. It is read each
    time."""


class AuthSettings(SettingsGroup, frozen=True, kw_only=True):
    """Rights of principals."""

    authorizer: Annotated[str, text()] = "allow-all"
    """`allow-all`: who has a valid token may do everything in its account. `grants`: what roles, grants and
    owners say. `opa`: what the service at `floecat.auth.opa.url` says. Or the name of an entry point of the
    group `floecat.authorizers`. In `auth-mode=dev` everybody may do everything."""

    opa: OpaSettings = OpaSettings()

    trusted_engines: Annotated[tuple[str, ...], text_list()] = ()
    """Engines whose word is taken for the views through which they read (`referenced-by`): names of
    principals, or of the clients of their tokens (claims `azp` and `client_id`)."""

    hide_forbidden: Annotated[bool, boolean()] = False
    """What a principal may not know of is answered 404, as if it were missing, and not 403."""

    record_refusals: Annotated[bool, boolean()] = False
    """Refusals are recorded in the store, for `floecat access history --refusals`."""

    refusals_retention: Annotated[Duration, duration()] = Duration(2_592_000_000)
    """Time that recorded refusals are kept."""

    issuers: Annotated[Mapping[str, IssuerSettings], named_groups(IssuerSettings)] = {}
    """Further issuers by a name of lower-case letters, digits, `-` and `_`, beside that of `floecat.oidc`.
    Names of their principals and groups are written `@ISSUER/NAME`. With several issuers, each must have an
    `issuer`: a token is given to the one that its `iss` names."""

    operators: Annotated[str | None, text()] = None
    """Group of tokens whose members may do everything in their account, whatever is granted. One of an issuer
    of `floecat.auth.issuers` is written `@ISSUER/GROUP`, as everywhere."""

    service_operators: Annotated[str | None, text()] = None
    """Group of tokens whose members manage accounts, and see nothing that is in those of others."""

    create_principals: Annotated[bool, boolean()] = True
    """The first login of a principal makes its row, in an account that is there."""


class LogSettings(SettingsGroup, frozen=True, kw_only=True):
    """Logs, on standard error."""

    level: Annotated[str, choice("debug", "info", "warning", "error")] = "info"
    """Least level that is written."""

    json: Annotated[bool, boolean()] = False
    """Logs of one JSON object a line instead of text."""

    file_bytes: Annotated[int, size()] = 16 * _MIB
    """A file in the folder `log` of `floecat up` that is larger becomes `NAME.1`, and a new one begins."""

    kept_files: Annotated[int, integer(minimum=1, maximum=100)] = 3
    """Older files that are kept beside each log, `NAME.1` being the newest."""
