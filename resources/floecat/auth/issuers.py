"""The issuers of tokens that the settings name, and their verifiers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from floecat.auth.issuer_documents import IssuerDocuments
from floecat.auth.issuer_keys import IssuerKeys
from floecat.auth.keys import KeySource, StaticKey
from floecat.auth.oidc import TokenVerifier
from floecat.auth.principal_claims import PrincipalClaims
from floecat.auth.principals import Principal
from floecat.clock import Clock
from floecat.errors import SettingsError, UnavailableError
from floecat.memory_budget import MemoryBudget
from floecat.settings import IssuerSettings, Settings
from floecat.settings.limits import LimitSettings

__all__ = ["TokenVerifiers", "issuer_key", "issuers", "open_verifiers"]

_FETCH_TIMEOUT_S: Final = 5.0
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class TokenVerifiers:
    """The verifiers of all issuers: a token belongs to the one that its `iss` names."""

    def __init__(self, verifiers: Mapping[str, TokenVerifier]) -> None:
        """Takes the verifiers by the names of their issuers in the settings: one, or each with an `iss`."""
        self._verifiers = verifiers
        self._first, *others = verifiers.values()
        self._by_issuer = {each.issuer: each for each in verifiers.values()} if others else {}

    def remembered(self, token: str) -> Principal | None:
        """See `TokenVerifier.remembered`."""
        return self._first.remembered(token)

    def verify(self, token: str) -> Principal:
        """See `TokenVerifier.verify`."""
        return self._first.verify(token, self._by_issuer)

    def token_url(self, issuer: str) -> str | None:
        """The URL where an issuer gives out tokens, as far as it is known."""
        return self._verifiers[issuer].keys.token_url

    def check(self) -> None:
        """Asks for keys where there are none.

        Raises:
            SettingsError: an issuer calls itself something other than the setting.
            UnavailableError: there are none of any issuer: what one signs can be verified while another is
                away.
        """
        failed: list[UnavailableError] = []
        for each in self._verifiers.values():
            try:
                each.keys.check()
            except UnavailableError as error:
                failed.append(error)
        if len(failed) == len(self._verifiers):
            raise failed[0]


def issuers(settings: Settings) -> dict[str, IssuerSettings]:
    """The issuers by name; the one of `floecat.oidc` has none.

    Raises:
        SettingsError: a name is malformed, an issuer is there twice, or has no `issuer` among several.
    """
    found: dict[str, IssuerSettings] = {}
    oidc = settings.oidc
    if oidc.issuer or oidc.jwks_url or oidc.public_key:
        found[""] = IssuerSettings(
            **msgspec.structs.asdict(oidc), account_claim=settings.gateway.account_claim
        )
    for name, each in settings.auth.issuers.items():
        if not _NAME.fullmatch(name):
            raise SettingsError(
                f"floecat.auth.issuers: {name!r} is no name of lower-case letters, digits, `-` and `_`"
            )
        found[name] = each
    by_issuer: dict[str | None, str] = {}
    for name, each in found.items():
        if len(found) > 1 and not each.issuer:
            raise SettingsError(f"{issuer_key(name)}.issuer is needed: there are several issuers")
        other = by_issuer.setdefault(each.issuer, name)
        if other != name:
            raise SettingsError(
                f"{issuer_key(other)} and {issuer_key(name)} are the same issuer: {each.issuer}"
            )
    return found


def issuer_key(name: str) -> str:
    """The key of the settings of an issuer."""
    return f"floecat.auth.issuers.{name}" if name else "floecat.oidc"


def open_verifiers(settings: Settings, memory: MemoryBudget, *, clock: Clock | None = None) -> TokenVerifiers:
    """The verifiers that the settings describe.

    Raises:
        SettingsError: see `issuers`, or an issuer has no usable source of keys.
    """
    found = issuers(settings)
    remembered = memory.cache("tokens")
    return TokenVerifiers(
        {
            name: TokenVerifier(
                _open_keys(each, settings.limits, issuer_key(name)),
                remembered,
                issuer=each.issuer,
                audience=each.audience,
                setting=issuer_key(name),
                principals=PrincipalClaims(
                    name,
                    name=each.principal_claim,
                    account=each.account_claim,
                    groups=each.roles_claim,
                    account_id=each.account,
                ),
                leeway_s=each.leeway_s,
                max_nesting=settings.limits.token_nesting,
                clock=clock,
            )
            for name, each in found.items()
        }
    )


def _open_keys(issuer: IssuerSettings, limits: LimitSettings, key: str) -> KeySource:
    if issuer.public_key:
        return StaticKey(issuer.public_key, setting=key)
    documents = IssuerDocuments(
        timeout_s=_FETCH_TIMEOUT_S,
        most_bytes=limits.issuer_document_bytes,
        ca_file=issuer.ca_file,
        bearer_token_file=issuer.bearer_token_file,
        setting=key,
    )
    return IssuerKeys(
        documents,
        jwks_url=issuer.jwks_url,
        issuer=issuer.issuer,
        refresh_s=issuer.keys_refresh_s,
        most_keys=limits.issuer_keys,
        setting=key,
    )
