"""The public keys that an issuer signs with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from floecat.errors import SettingsError
from floecat.iceberg.values.json_checks import is_nested_deeper

__all__ = ["KeySource", "PublicKey", "StaticKey", "read_key_set"]

PublicKey: TypeAlias = RSAKey | ECKey | OKPKey

_MOST_NESTING = 16


class KeySource(Protocol):
    """The source of a verifier's keys."""

    @property
    def token_url(self) -> str | None:
        """The URL where the issuer gives out tokens, as far as it is known."""
        ...

    def known(self, key_id: str | None) -> Sequence[PublicKey]:
        """The keys that `find` finds without asking the issuer."""
        ...

    def find(self, key_id: str | None) -> Sequence[PublicKey]:
        """The keys that a token with this `kid` may be signed with; all of them if it has none.

        Raises:
            UnavailableError: it cannot be told now.
        """
        ...

    def check(self) -> None:
        """Asks the issuer for keys, if there are none and it was not asked a moment ago.

        Raises:
            SettingsError: the issuer calls itself something other than the setting.
            UnavailableError: there are none.
        """
        ...


class StaticKey:
    """The one key that the settings name. It verifies whatever `kid` a token has."""

    def __init__(self, pem: str, *, setting: str = "floecat.oidc") -> None:
        """Reads the key.

        Args:
            pem: a public key in PEM, or its base64 body alone.
            setting: key of the settings of the issuer.

        Raises:
            SettingsError: it is no RSA, EC or Ed25519 public key.
        """
        armored = (
            pem if "-----BEGIN" in pem else f"-----BEGIN PUBLIC KEY-----\n{pem}\n-----END PUBLIC KEY-----"
        )
        self._keys = (_read_pem(armored, setting),)
        self.token_url = None

    def known(self, key_id: str | None) -> Sequence[PublicKey]:  # noqa: ARG002
        """The key."""
        return self._keys

    find = known

    def check(self) -> None:
        """Does nothing: there is a key."""


def read_key_set(document: bytes, *, most_keys: int) -> list[PublicKey]:
    """The public keys for signatures in a JSON Web Key Set (RFC 7517 section 5).

    Raises:
        ValueError: it is none, or holds no such key, or too many; the message says which, and quotes nothing.
    """
    if is_nested_deeper(document, _MOST_NESTING):
        raise ValueError(f"it is nested deeper than {_MOST_NESTING} levels")
    try:
        entries = msgspec.json.decode(document, type=_KeySet).keys
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ValueError("it is no JSON Web Key Set") from None
    if len(entries) > most_keys:
        raise ValueError(f"it holds {len(entries)} keys, more than floecat.limits.issuer-keys ({most_keys})")
    keys = [key for entry in entries if (key := _read_entry(entry)) is not None]
    if not keys:
        raise ValueError("it holds no public key for signatures")
    return keys


class _KeySet(msgspec.Struct):
    keys: list[dict[str, object]]


def _read_entry(entry: dict[str, object]) -> PublicKey | None:
    """A key; None for kinds that are not known here, which a set may hold (RFC 7517 section 5)."""
    if entry.get("use", "sig") != "sig":
        return None
    try:
        key = JWKRegistry.import_key(entry)  # type: ignore[arg-type]
    except (JoseError, ValueError, TypeError, AttributeError, KeyError):
        return None
    return key if isinstance(key, RSAKey | ECKey | OKPKey) else None


def _read_pem(pem: str, setting: str) -> PublicKey:
    for kind in (RSAKey, ECKey, OKPKey):
        try:
            key = kind.import_key(pem)
        except (JoseError, ValueError, TypeError, AttributeError):
            continue
        return key
    raise SettingsError(f"{setting}.public-key is not a public key in PEM (RSA, EC or Ed25519)")
