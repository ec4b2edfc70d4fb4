"""Validation of bearer tokens: JSON Web Tokens that an OpenID Connect issuer signed."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

from joserfc import jwt
from joserfc.errors import ExpiredTokenError, JoseError, UnsupportedAlgorithmError
from joserfc.jws import JWSRegistry, extract_compact
from joserfc.jwt import ClaimsOption, JWTClaimsRegistry

from floecat.auth.keys import JwksKeys, KeySource, StaticKey
from floecat.auth.principals import Principal
from floecat.clock import Clock, SystemClock
from floecat.errors import IllegalArgumentError, NotAuthorizedError
from floecat.iceberg.values.json_checks import check_json, is_nested_deeper
from floecat.memory_budget import LruCache, MemoryBudget
from floecat.settings import OidcSettings

__all__ = ["ALGORITHMS", "TokenVerifier", "open_verifier"]

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""Accepted `alg`: signatures by a private key of the issuer. Never `none`, never a shared secret."""

_PRINCIPAL_BYTES = 1024
_CLAIMS_FACTOR = 3
_REMEMBERED_FOR_MS = 60_000
_LONGEST_NAME = 512
"""UTF-8 bytes of the name of a principal, which is part of keys in the store."""
_NO_NAME = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


class TokenVerifier:
    """Turns a bearer token into a principal, or refuses it.

    A verified token is remembered by its hash for at most a minute and never beyond its expiry, since a
    client sends the same token with each of many requests.
    """

    def __init__(
        self,
        keys: KeySource,
        memory: MemoryBudget,
        *,
        issuer: str | None = None,
        audience: str | None = None,
        account_claim: str = "account_id",
        principal_claim: str = "sub",
        leeway_s: int = 30,
        max_nesting: int = 64,
        clock: Clock | None = None,
    ) -> None:
        """Configure what a token must hold.

        Args:
            keys: the keys of the issuer.
            memory: for tokens that were verified.
            issuer: accepted `iss`; any if None.
            audience: accepted `aud`; any if None.
            account_claim: claim with the id of the account, a UUID.
            principal_claim: claim with the name of the principal.
            leeway_s: clock difference that is tolerated for `exp`, `nbf` and `iat`.
            max_nesting: levels of arrays and objects that a token may have.
            clock: the time.
        """
        self._keys = keys
        self._max_nesting = max_nesting
        self._account_claim = account_claim
        self._principal_claim = principal_claim
        self._leeway_s = leeway_s
        self._clock = clock or SystemClock()
        self._claims = _claims_registry(issuer, audience, leeway_s, self._clock)
        self._remembered: LruCache[_Verified] = memory.cache("tokens")

    def remembered(self, token: str) -> Principal | None:
        """The principal of a token that was verified a short while ago. Costs microseconds, does no I/O."""
        digest = _digest(token)
        verified = self._remembered.get(digest)
        if verified is None:
            return None
        if verified.until_ms <= self._clock.now_ms():
            self._remembered.drop(digest)
            return None
        return verified.principal

    def verify(self, token: str) -> Principal:
        """Check signature, issuer, audience and times of a token. May fetch the keys of the issuer.

        Raises:
            NotAuthorizedError: the token is malformed, forged, expired, or issued for another audience.
            UnavailableError: the keys of the issuer cannot be had now.
        """
        claims = self._decode(token)
        try:
            self._claims.validate(claims)
        except ExpiredTokenError:
            raise NotAuthorizedError("The bearer token has expired") from None
        except JoseError as error:
            raise NotAuthorizedError(f"The bearer token is not valid here ({error.error})") from None
        principal = self._principal(claims)
        self._remember(token, principal, claims["exp"])
        return principal

    def _decode(self, token: str) -> dict[str, object]:
        try:
            if any(is_nested_deeper(part, self._max_nesting) for part in _json_parts(token)):
                raise NotAuthorizedError(
                    f"The bearer token is nested deeper than {self._max_nesting} levels"
                    " (floecat.limits.token-nesting)"
                )
            header = extract_compact(token.encode("ascii"), registry=_REGISTRY).headers()
            _REGISTRY.get_alg(str(header.get("alg")))
        except UnsupportedAlgorithmError:
            raise NotAuthorizedError(
                "The bearer token is signed by an algorithm that is not accepted"
            ) from None
        except (JoseError, ValueError, TypeError):
            raise NotAuthorizedError("The bearer token is malformed") from None
        key_id = header.get("kid")
        for key in self._keys.find(key_id if isinstance(key_id, str) else None):
            try:
                claims = jwt.decode(token, key, registry=_REGISTRY).claims
            except (JoseError, ValueError, TypeError):
                # Without a `kid` any key of the issuer may be the right one, of whatever kind.
                continue
            _check_keys(token)
            return claims
        raise NotAuthorizedError("The bearer token is not signed by a key of the issuer")

    def _principal(self, claims: dict[str, object]) -> Principal:
        name, account = claims.get(self._principal_claim), claims.get(self._account_claim)
        if not isinstance(name, str) or not name:
            raise NotAuthorizedError(f"The bearer token lacks the claim {self._principal_claim!r}")
        if _NO_NAME.search(name) or len(name.encode()) > _LONGEST_NAME:
            raise NotAuthorizedError(
                f"The claim {self._principal_claim!r} of the bearer token is too long or no plain text"
            )
        try:
            account_id = UUID(account) if isinstance(account, str) else None
        except ValueError:
            account_id = None
        if account_id is None:
            raise NotAuthorizedError(
                f"The claim {self._account_claim!r} of the bearer token is not the UUID of an account"
            )
        return Principal(name, account_id, claims, _roles(claims.get("roles")))

    def _remember(self, token: str, principal: Principal, expires_at_s: object) -> None:
        if not isinstance(expires_at_s, int | float):
            return
        now_ms = self._clock.now_ms()
        until_ms = int(min(now_ms + _REMEMBERED_FOR_MS, (expires_at_s + self._leeway_s) * 1000))
        # the claims take several times the bytes that they have in the token
        size = _PRINCIPAL_BYTES + _CLAIMS_FACTOR * len(token)
        self._remembered.put(_digest(token), _Verified(principal, until_ms), size)


def open_verifier(
    settings: OidcSettings,
    memory: MemoryBudget,
    *,
    account_claim: str,
    max_nesting: int = 64,
    clock: Clock | None = None,
) -> TokenVerifier:
    """The verifier that the settings describe.

    Raises:
        SettingsError: no usable source of keys is set.
    """
    keys: KeySource = (
        StaticKey(settings.public_key)
        if settings.public_key
        else JwksKeys(settings.jwks_url, issuer=settings.issuer)
    )
    return TokenVerifier(
        keys,
        memory,
        issuer=settings.issuer,
        audience=settings.audience,
        account_claim=account_claim,
        principal_claim=settings.principal_claim,
        leeway_s=settings.leeway_s,
        max_nesting=max_nesting,
        clock=clock,
    )


def _roles(claim: object) -> tuple[str, ...]:
    """The roles of a list of names; a claim of another form names none, which gives no right."""
    return tuple(role for role in claim if isinstance(role, str)) if isinstance(claim, list) else ()


class _Verified(NamedTuple):
    principal: Principal
    until_ms: int


class _Registry(JWSRegistry):
    """Takes the algorithms of `ALGORITHMS` and no others."""

    def get_alg(self, name: str) -> Any:
        """The algorithm; the library's own look-up warns of EdDSA, whose curve the key fixes here."""
        if name not in ALGORITHMS:
            raise UnsupportedAlgorithmError
        return self.algorithms[name]


_REGISTRY: Final = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


def _claims_registry(
    issuer: str | None, audience: str | None, leeway_s: int, clock: Clock
) -> JWTClaimsRegistry:
    wanted: dict[str, ClaimsOption] = {"exp": {"essential": True}}
    if issuer:
        wanted["iss"] = {"essential": True, "value": issuer}
    if audience:
        wanted["aud"] = {"essential": True, "value": audience}
    return JWTClaimsRegistry(now=lambda: clock.now_ms() // 1000, leeway=leeway_s, **wanted)


def _json_parts(token: str) -> Iterator[bytes]:
    """Header and payload; what is not base64 is left for the library to refuse."""
    for part in token.split(".")[:2]:
        yield urlsafe_b64decode(part.encode("ascii") + b"=" * (-len(part) % 4))


def _check_keys(token: str) -> None:
    """Refuses a token that has a name twice (RFC 7515 section 4, RFC 7519 section 4)."""
    try:
        for part in _json_parts(token):
            check_json(part)
    except IllegalArgumentError as error:
        raise NotAuthorizedError(f"The bearer token is malformed: {error.message}") from None


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
