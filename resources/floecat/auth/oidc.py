"""Validation of bearer tokens: JSON Web Tokens that an OpenID Connect issuer signed."""

from __future__ import annotations

import json
import logging
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from joserfc import jwt
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jws import JWSRegistry, extract_compact

from floecat.auth.keys import KeySource
from floecat.auth.principal_claims import PrincipalClaims
from floecat.auth.principals import Principal
from floecat.auth.token_claims import ClaimRules, TokenRefusal, shown
from floecat.clock import Clock, SystemClock
from floecat.errors import IllegalArgumentError, InvalidTokenError
from floecat.iceberg.values.json_checks import check_json, is_nested_deeper
from floecat.memory_budget import LruCache, MemoryBudget

__all__ = ["ALGORITHMS", "TokenVerifier"]

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""Accepted `alg`: signatures by a private key of the issuer. Never `none`, never a shared secret."""

_LOG_EVERY_MS = 60_000
_PRINCIPAL_BYTES = 1024
_CLAIMS_FACTOR = 3
_REMEMBERED_FOR_MS = 60_000
_log = logging.getLogger(__name__)


class TokenVerifier:
    """Turns a bearer token into a principal, or refuses it.

    A verified token is remembered by its hash for at most a minute and never beyond its expiry, since a
    client sends the same token with each of many requests.
    """

    def __init__(
        self,
        keys: KeySource,
        remembered: LruCache[Any] | MemoryBudget,
        *,
        issuer: str | None = None,
        audience: str | Sequence[str] | None = None,
        setting: str = "floecat.oidc",
        principals: PrincipalClaims | None = None,
        leeway_s: int = 30,
        max_nesting: int = 64,
        clock: Clock | None = None,
    ) -> None:
        """Configure what a token must hold.

        Args:
            keys: the keys of the issuer.
            remembered: tokens that were verified, of all issuers; or the memory for them.
            issuer: accepted `iss`; any if None.
            audience: accepted `aud`; any if None.
            setting: the settings of the issuer, for messages.
            principals: reads the principal from the claims.
            leeway_s: clock difference that is tolerated for `exp`, `nbf` and `iat`.
            max_nesting: levels of arrays and objects that a token may have.
        """
        self._keys = keys
        self._max_nesting = max_nesting
        self._principals = principals or PrincipalClaims()
        self._leeway_s = leeway_s
        self._clock = clock or SystemClock()
        self._rules = ClaimRules(issuer, audience, leeway_s, self._clock, setting)
        self._logged_at_ms: dict[str, int] = {}
        if isinstance(remembered, MemoryBudget):
            remembered = remembered.cache("tokens")
        self._remembered: LruCache[_Verified] = remembered
        self.issuer = issuer

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

    @property
    def keys(self) -> KeySource:
        """The keys of the issuer."""
        return self._keys

    def verify(
        self, token: str, by_issuer: Mapping[str | None, TokenVerifier] = MappingProxyType({})
    ) -> Principal:
        """Checks signature, issuer, audience and times of a token. May fetch the keys of the issuer.

        Args:
            token: as it was sent.
            by_issuer: the verifiers of all issuers, if there are several: the one of the token checks it.

        What the claims alone rule out is refused before keys are fetched for it, and is told what the
        settings say only if the issuer did sign it.

        Raises:
            InvalidTokenError: the token is malformed, forged, expired, or issued for another audience.
            UnavailableError: the keys of the issuer cannot be had now.
        """
        header, claims = self._parse(token)
        if not by_issuer:
            return self._verified(token, header, claims)
        issuer = claims.get("iss")
        named = by_issuer.get(issuer) if isinstance(issuer, str) else None
        if named is None:
            raise self._refused("iss", f"The issuer of the bearer token is not accepted: {shown(issuer)}")
        return named._verified(token, header, claims)

    def _verified(self, token: str, header: dict[str, object], claims: dict[str, object]) -> Principal:
        key_id = header.get("kid")
        key_id = key_id if isinstance(key_id, str) else None
        refusal = self._rules.refusal(header, claims)
        if refusal is not None and not self._keys.known(key_id):
            self._log_refusal(refusal.kind, refusal.message)
            raise InvalidTokenError(refusal.for_anyone)
        self._check_signature(token, key_id)
        if refusal is not None:
            raise self._refused(refusal.kind, refusal.message)
        principal = self._principals.read(claims)
        if isinstance(principal, TokenRefusal):
            raise self._refused(principal.kind, principal.message)
        self._remember(token, principal, claims["exp"])
        return principal

    def _parse(self, token: str) -> tuple[dict[str, object], dict[str, object]]:
        """Header and claims, neither of them verified."""
        try:
            parts = list(_json_parts(token))
            if any(is_nested_deeper(part, self._max_nesting) for part in parts):
                raise self._refused(
                    "nesting",
                    f"The bearer token is nested deeper than {self._max_nesting} levels"
                    " (floecat.limits.token-nesting)",
                )
            signed = extract_compact(token.encode("ascii"), registry=_REGISTRY)
            header = signed.headers()
            _REGISTRY.get_alg(str(header.get("alg")))
            claims = json.loads(signed.payload or b"", parse_constant=_refuse_constant)
            if not isinstance(claims, dict):
                raise TypeError("no object")
            for part in parts:
                check_json(part)  # names twice: RFC 7515 section 4, RFC 7519 section 4
        except UnsupportedAlgorithmError:
            raise self._refused(
                "alg", "The bearer token is signed by an algorithm that is not accepted"
            ) from None
        except IllegalArgumentError as error:
            raise self._refused("json", f"The bearer token is malformed: {error.message}") from None
        except (JoseError, ValueError, TypeError, RecursionError):
            raise self._refused("malformed", "The bearer token is malformed") from None
        return header, claims

    def _check_signature(self, token: str, key_id: str | None) -> None:
        keys = self._keys.find(key_id)
        for key in keys:
            try:
                jwt.decode(token, key, registry=_REGISTRY)
            except (JoseError, ValueError, TypeError):
                # Without a `kid` any key of the issuer may be the right one, of whatever kind.
                continue
            return
        if keys:
            raise self._refused("signature", "The bearer token is not signed by a key of the issuer")
        raise self._refused("kid", f"The issuer has no key {shown(key_id)}, which the bearer token names")

    def _refused(self, kind: str, message: str) -> InvalidTokenError:
        self._log_refusal(kind, message)
        return InvalidTokenError(message)

    def _log_refusal(self, kind: str, message: str) -> None:
        """Tells operators once a minute of each kind; anybody can send as many tokens as he likes."""
        now_ms = self._clock.now_ms()
        if now_ms - self._logged_at_ms.get(kind, -_LOG_EVERY_MS) >= _LOG_EVERY_MS:
            self._logged_at_ms[kind] = now_ms
            _log.warning("A request was refused: %s", message)

    def _remember(self, token: str, principal: Principal, expires_at_s: object) -> None:
        if not isinstance(expires_at_s, int | float):
            return
        now_ms = self._clock.now_ms()
        until_ms = int(min(now_ms + _REMEMBERED_FOR_MS, (expires_at_s + self._leeway_s) * 1000))
        # the claims take several times the bytes that they have in the token
        size = _PRINCIPAL_BYTES + _CLAIMS_FACTOR * len(token)
        self._remembered.put(_digest(token), _Verified(principal, until_ms), size)


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


def _json_parts(token: str) -> Iterator[bytes]:
    """Header and payload; what is not base64 is left for the library to refuse."""
    for part in token.split(".")[:2]:
        yield urlsafe_b64decode(part.encode("ascii") + b"=" * (-len(part) % 4))


def _refuse_constant(_name: str) -> object:
    raise ValueError("JSON has no such numbers")


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
