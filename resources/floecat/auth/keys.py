"""The public keys that an issuer signs with."""

from __future__ import annotations

import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from floecat.errors import SettingsError, UnavailableError

__all__ = ["JwksKeys", "KeySource", "PublicKey", "StaticKey"]

PublicKey: TypeAlias = RSAKey | ECKey | OKPKey

_FETCH_TIMEOUT_S = 5.0
_LARGEST_DOCUMENT_BYTES = 1 << 20
_FRESH_FOR_S = 3600.0
_REFETCH_AFTER_S = 30.0
_RETRY_WITHOUT_KEYS_AFTER_S = 5.0

_log = logging.getLogger(__name__)


class KeySource(Protocol):
    """Where a verifier gets its keys from."""

    def find(self, key_id: str | None) -> Sequence[PublicKey]:
        """The keys that a token with this `kid` may be signed with; all of them if it has none.

        Raises:
            UnavailableError: the keys cannot be had now.
        """
        ...


class StaticKey:
    """The one key that the settings name. It verifies whatever `kid` a token has."""

    def __init__(self, pem: str) -> None:
        """Read the key.

        Args:
            pem: a public key in PEM, or its base64 body alone.

        Raises:
            SettingsError: it is no RSA, EC or Ed25519 public key.
        """
        armored = (
            pem if "-----BEGIN" in pem else f"-----BEGIN PUBLIC KEY-----\n{pem}\n-----END PUBLIC KEY-----"
        )
        self._keys = (_read_pem(armored),)

    def find(self, key_id: str | None) -> Sequence[PublicKey]:  # noqa: ARG002
        """The key."""
        return self._keys


class JwksKeys:
    """The key set that an issuer publishes, fetched when needed and kept.

    An unknown `kid` means that the issuer rotated its keys: the set is fetched again, though not more often
    than every 30 seconds, so that forged tokens cannot make this service flood the issuer. Meanwhile other
    tokens of unknown keys are answered 503, for the client to try again. A set that is an
    hour old is fetched again too, so that withdrawn keys stop working; if the issuer is away then, the old
    set serves on.
    """

    def __init__(
        self,
        jwks_url: str | None = None,
        *,
        issuer: str | None = None,
        timeout_s: float = _FETCH_TIMEOUT_S,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Name the key set; nothing is fetched yet.

        Args:
            jwks_url: the address of the set.
            issuer: whose discovery document names that address, if it is not given.
            timeout_s: how long the issuer may take.
            monotonic_s: a clock, for tests.

        Raises:
            SettingsError: neither is given, or not an http(s) URL.
        """
        if not (jwks_url or issuer):
            raise SettingsError("Validation of tokens needs the URL of a key set, an issuer or a public key")
        for url in filter(None, (jwks_url, issuer if not jwks_url else None)):
            if urlsplit(url).scheme not in {"http", "https"}:
                raise SettingsError(f"Not an http or https URL: {url!r}")
        self._jwks_url = jwks_url
        self._issuer = issuer
        self._timeout_s = timeout_s
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._keys: Sequence[PublicKey] = ()
        self._tried_at_s = float("-inf")
        self._fetched_at_s = float("-inf")

    def find(self, key_id: str | None) -> Sequence[PublicKey]:
        """See `KeySource.find`."""
        found = self._matching(key_id)
        if found and self._monotonic_s() - self._fetched_at_s < _FRESH_FOR_S:
            return found
        # one thread waits for the issuer: others may have tokens of known keys to verify
        if self._lock.acquire(blocking=not self._keys):
            try:
                self._refresh()
            finally:
                self._lock.release()
        elif not found:
            raise UnavailableError("The keys of the token issuer are being fetched", retry_after_s=1)
        if not self._keys:
            raise UnavailableError("The keys of the token issuer are not available", retry_after_s=5)
        return self._matching(key_id)

    def _matching(self, key_id: str | None) -> Sequence[PublicKey]:
        if key_id is None:
            return self._keys
        return [key for key in self._keys if key.kid == key_id]

    def _refresh(self) -> None:
        now_s = self._monotonic_s()
        if now_s - self._tried_at_s < (_REFETCH_AFTER_S if self._keys else _RETRY_WITHOUT_KEYS_AFTER_S):
            return
        try:
            self._keys = _read_key_set(self._fetch(self._find_url()))
            self._fetched_at_s = now_s
        except (OSError, ValueError, JoseError, msgspec.MsgspecError) as error:
            _log.warning("The key set of the token issuer cannot be read: %s", type(error).__name__)
        finally:
            # not the time when it was begun: who waited meanwhile would wait for another try
            self._tried_at_s = self._monotonic_s()

    def _find_url(self) -> str:
        if self._jwks_url is None:
            well_known = f"{str(self._issuer).rstrip('/')}/.well-known/openid-configuration"
            self._jwks_url = msgspec.json.decode(self._fetch(well_known), type=_Discovery).jwks_uri
        return self._jwks_url

    def _fetch(self, url: str) -> bytes:
        if urlsplit(url).scheme not in {"http", "https"}:
            raise ValueError("not an http or https URL")
        with urllib.request.urlopen(url, timeout=self._timeout_s) as answer:  # noqa: S310
            document: bytes = answer.read(_LARGEST_DOCUMENT_BYTES + 1)
        if len(document) > _LARGEST_DOCUMENT_BYTES:
            raise ValueError("document too large")
        return document


class _Discovery(msgspec.Struct):
    """The part of an OpenID provider's metadata that is used."""

    jwks_uri: str


class _KeySet(msgspec.Struct):
    """A JSON Web Key Set (RFC 7517 section 5)."""

    keys: list[dict[str, object]]


def _read_key_set(document: bytes) -> list[PublicKey]:
    keys: list[PublicKey] = []
    for entry in msgspec.json.decode(document, type=_KeySet).keys:
        if entry.get("use", "sig") != "sig":
            continue
        try:
            key = JWKRegistry.import_key(entry)  # type: ignore[arg-type]
        except (JoseError, ValueError):
            # A set may hold kinds of key that are not known here (RFC 7517 section 5); the others serve.
            continue
        if isinstance(key, RSAKey | ECKey | OKPKey):
            keys.append(key)
    if not keys:
        raise ValueError("no usable key")
    return keys


def _read_pem(pem: str) -> PublicKey:
    for kind in (RSAKey, ECKey, OKPKey):
        try:
            key = kind.import_key(pem)
        except (JoseError, ValueError, TypeError, AttributeError):
            continue
        return key
    raise SettingsError("floecat.oidc.public-key is not a public key in PEM (RSA, EC or Ed25519)")
