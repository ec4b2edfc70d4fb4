"""Rules for the claims of a bearer token, and the refusals of tokens that break them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from joserfc.errors import ExpiredTokenError, InvalidClaimError, JoseError, MissingClaimError
from joserfc.jwt import ClaimsOption, JWTClaimsRegistry

from floecat.clock import Clock

__all__ = ["ClaimRules", "TokenRefusal", "shown", "told"]

_LONGEST_SHOWN: Final = 200
_OTHER_KINDS: Final = frozenset({"id", "refresh", "offline", "logout"})
"""Values of the claims `typ` (Keycloak) and `token_use` (Cognito) of tokens that are no access tokens."""
_OF_ID_TOKENS: Final = ("nonce", "at_hash", "c_hash")
"""Claims of OpenID Connect Core 1.0, sections 2 and 3.3.2.11."""


class TokenRefusal(NamedTuple):
    """The reason why a token is refused."""

    kind: str
    """Kind, one of a few words."""

    message: str
    """Message for who holds a token of the issuer, and for the log."""

    for_anyone: str
    """The same without what the settings say."""


class ClaimRules:
    """Judges the claims of tokens, whose signature another one checks."""

    def __init__(
        self,
        issuer: str | None,
        audience: str | Sequence[str] | None,
        leeway_s: int,
        clock: Clock,
        setting: str = "floecat.oidc",
    ) -> None:
        """Sets what is accepted; None accepts any.

        Args:
            setting: key of the settings of the issuer.
        """
        self._clock = clock
        self._setting = setting
        audiences = [audience] if isinstance(audience, str) else [*(audience or ())]
        self._expected = {"iss": ([issuer] if issuer else [], "issuer"), "aud": (audiences, "audience")}
        wanted: dict[str, ClaimsOption] = {"exp": {"essential": True}}
        for claim, (values, _) in self._expected.items():
            if values:
                wanted[claim] = {"essential": True, "values": values}
        self._registry = JWTClaimsRegistry(now=lambda: clock.now_ms() // 1000, leeway=leeway_s, **wanted)

    def refusal(self, header: Mapping[str, object], claims: Mapping[str, object]) -> TokenRefusal | None:
        """The reason why a token with these claims is refused; None if it is not."""
        kind = _kind_of(header, claims)
        if kind is not None:
            return told("kind", f"The bearer token is {kind}; an access token is needed")
        try:
            self._registry.validate(dict(claims))
        except MissingClaimError as error:
            lacks = f"The bearer token lacks the claim '{error.claim}'"
            return TokenRefusal(error.claim, lacks + self._accepted(error.claim), lacks)
        except ExpiredTokenError:
            return told("exp", f"The bearer token has expired: {self._times('exp', claims)}")
        except InvalidClaimError as error:
            return self._invalid(error.claim, claims)
        except JoseError as error:
            return told("claims", f"The bearer token is not valid here ({error.error})")
        return None

    def _invalid(self, claim: str, claims: Mapping[str, object]) -> TokenRefusal:
        came = claims.get(claim)
        if claim in {"nbf", "iat"} and isinstance(came, int | float):
            return told(claim, f"The bearer token is not valid yet: {self._times(claim, claims)}")
        wrong = f"The claim '{claim}' of the bearer token is not accepted: it is {shown(came)}"
        return TokenRefusal(claim, wrong + self._accepted(claim), wrong)

    def _accepted(self, claim: str) -> str:
        values, setting = self._expected.get(claim, ([], ""))
        accepted = " or ".join(map(repr, values))
        return f", and {accepted} is accepted ({self._setting}.{setting})" if values else ""

    def _times(self, claim: str, claims: Mapping[str, object]) -> str:
        now = _time(self._clock.now_ms() // 1000)
        return f"its '{claim}' is {_time(claims.get(claim))}, and it is {now} ({self._setting}.leeway-s)"


def shown(value: object) -> str:
    """A value of a token, for messages; long ones are cut."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def told(kind: str, message: str) -> TokenRefusal:
    """A refusal whose message is for anyone."""
    return TokenRefusal(kind, message, message)


def _kind_of(header: Mapping[str, object], claims: Mapping[str, object]) -> str | None:
    """The kind of a token that says that it is no access token; one that says nothing is taken for one."""
    typ = str(header.get("typ", "")).lower().removeprefix("application/")
    if typ.endswith("+jwt") and typ != "at+jwt":  # RFC 8725 section 3.11, RFC 9068 section 2.1
        return f"of the type {shown(typ)}"
    kinds = {str(claims.get(claim)).lower() for claim in ("typ", "token_use")}
    for kind in kinds & _OTHER_KINDS:
        return "an ID token" if kind == "id" else f"of the kind {kind!r}"
    if (
        typ != "at+jwt"
        and not kinds & {"bearer", "access"}
        and any(claim in claims for claim in _OF_ID_TOKENS)
    ):
        return "an ID token"
    return None


def _time(value: object) -> str:
    try:
        at = datetime.fromtimestamp(float(str(value)), UTC)
    except (ValueError, OverflowError, OSError):
        return shown(value)
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
