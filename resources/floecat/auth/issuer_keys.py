"""The keys that an issuer publishes, fetched when needed and kept."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from math import ceil
from typing import Final, NamedTuple

import msgspec

from floecat.auth.issuer_documents import DocumentError, IssuerDocuments, check_address
from floecat.auth.keys import PublicKey, read_key_set
from floecat.errors import SettingsError, UnavailableError

__all__ = ["IssuerKeys"]

_REFETCH_AFTER_S: Final = 30.0
_RETRY_WITHOUT_KEYS_AFTER_S: Final = 5.0
_WAIT_S: Final = 5.0
_MOST_ASKED: Final = 1000

_log = logging.getLogger(__name__)


class IssuerKeys:
    """The key set of an issuer.

    An unknown `kid` means that the issuer rotated its keys: the set is fetched again, though not more often
    than every 30 seconds, so that forged tokens cannot make this service flood the issuer. A `kid` is refused
    for good once it is missing in a set that was fetched after it was first asked for; until then it is
    answered 503, for the client to try again. One thread waits for the issuer; others go on with the keys
    that are known.

    A set that is `refresh_s` old is fetched again too, so that withdrawn keys stop working; if the issuer is
    away then, the old set serves on.
    """

    def __init__(
        self,
        documents: IssuerDocuments,
        *,
        jwks_url: str | None = None,
        issuer: str | None = None,
        refresh_s: float = 300,
        most_keys: int = 100,
        setting: str = "floecat.oidc",
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Name the key set; nothing is fetched yet.

        Args:
            documents: reads the documents of the issuer.
            jwks_url: the address of the set.
            issuer: whose discovery document names that address, if it is not given.
            refresh_s: for how long a set is taken for the newest.
            most_keys: of a set.
            setting: key of the settings of the issuer.
            monotonic_s: a clock, for tests.

        Raises:
            SettingsError: neither is given, or not an http(s) URL.
        """
        for url in [jwks_url] if jwks_url else [issuer]:
            if not url:
                raise SettingsError(
                    f"{setting}: validation of tokens needs the URL of a key set, an issuer or a public key"
                )
            try:
                check_address(url)
            except DocumentError as error:
                raise SettingsError(f"{setting}: the key set of the token issuer: {error}") from None
        self.token_url: str | None = None
        self._documents = documents
        self._jwks_url = jwks_url
        self._issuer = str(issuer)
        self._setting = setting
        self._refresh_s = refresh_s
        self._refetch_s = min(_REFETCH_AFTER_S, refresh_s)
        self._most_keys = most_keys
        self._monotonic_s = monotonic_s
        self._fetching = threading.Lock()
        self._set = _FetchedSet((), float("-inf"))
        self._tried_at_s = float("-inf")
        self._first_asked_s: dict[int, float] = {}

    def known(self, key_id: str | None) -> Sequence[PublicKey]:
        """See `KeySource.known`."""
        return self._set.find(key_id)

    def find(self, key_id: str | None) -> Sequence[PublicKey]:
        """See `KeySource.find`."""
        known = self._set
        found = known.find(key_id)
        now_s = self._monotonic_s()
        if found and now_s - known.asked_at_s < self._refresh_s:
            return found
        first_asked_s = now_s if found else self._first_asked(key_id, now_s)
        if self._fetching.acquire(timeout=0 if known.keys else _WAIT_S):
            try:
                if self._pause_s() <= 0:
                    self._fetch()
            except SettingsError as error:
                _log.error("%s", error.message)
            finally:
                self._fetching.release()
        elif not found:
            raise UnavailableError("The keys of the token issuer are being fetched", retry_after_s=1)
        known = self._set
        if not known.keys:
            raise self._missing()
        found = known.find(key_id)
        if found or first_asked_s <= known.asked_at_s:
            return found
        raise UnavailableError(
            "The bearer token names a key that is not known yet; the issuer is asked for its keys again soon",
            retry_after_s=self._retry_after_s(),
        )

    def check(self) -> None:
        """See `KeySource.check`."""
        if self._set.keys:
            return
        if self._fetching.acquire(blocking=False):
            try:
                if self._pause_s() <= 0:
                    self._fetch()
            finally:
                self._fetching.release()
        if not self._set.keys:
            raise self._missing()

    def _missing(self) -> UnavailableError:
        return UnavailableError(
            "The keys of the token issuer are missing, so no token can be verified; the log says why",
            retry_after_s=self._retry_after_s(),
        )

    def _first_asked(self, key_id: str | None, now_s: float) -> float:
        """The time when a key was first asked for; forgotten once many others were, and then set anew."""
        asked = self._first_asked_s
        first_s = asked.setdefault(hash(key_id), now_s)
        while len(asked) > _MOST_ASKED:
            try:
                asked.pop(next(iter(asked)), None)
            except (StopIteration, RuntimeError):
                break  # another thread changes it, and forgets as well
        return first_s

    def _pause_s(self) -> float:
        """The time until the issuer is asked again."""
        pause_s = self._refetch_s if self._set.keys else min(self._refetch_s, _RETRY_WITHOUT_KEYS_AFTER_S)
        return self._tried_at_s + pause_s - self._monotonic_s()

    def _retry_after_s(self) -> int:
        # before the first fetch has ended there is no pause, but the time since the beginning
        return ceil(max(1.0, self._pause_s()))

    def _fetch(self) -> None:
        asked_at_s = self._monotonic_s()
        url = self._jwks_url
        try:
            url = url or self._discover()
            document = self._documents.read(url)
            self._set = _FetchedSet(tuple(read_key_set(document, most_keys=self._most_keys)), asked_at_s)
        except (DocumentError, ValueError) as error:
            what = f"The key set {url}" if url else f"The discovery document {self._discovery_url}"
            _log.warning("%s of the token issuer cannot be read: %s", what, error)
        finally:
            # not the time when it was begun: who waited meanwhile would wait for another try
            self._tried_at_s = self._monotonic_s()

    @property
    def _discovery_url(self) -> str:
        return f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"

    def _discover(self) -> str:
        """The address of the key set (OpenID Connect Discovery 1.0, section 4).

        Raises:
            SettingsError: the document is that of another issuer (section 4.3).
            DocumentError: there is no document, or it names no usable address.
        """
        try:
            found = msgspec.json.decode(self._documents.read(self._discovery_url), type=_Discovery)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise DocumentError("it is no discovery document of OpenID Connect") from None
        if found.issuer != self._issuer:
            raise SettingsError(
                f"{self._setting}.issuer is {self._issuer!r}, and {self._discovery_url} is that of the "
                f"issuer {found.issuer[:200]!r}: the two must be the same, to the letter"
            )
        check_address(found.jwks_uri, of=self._issuer)
        if found.token_endpoint is not None:
            check_address(found.token_endpoint, of=self._issuer)
        self.token_url = found.token_endpoint
        return found.jwks_uri


class _FetchedSet(NamedTuple):
    keys: Sequence[PublicKey]
    asked_at_s: float
    """Time when the issuer was asked for it."""

    def find(self, key_id: str | None) -> Sequence[PublicKey]:
        if key_id is None:
            return self.keys
        return [key for key in self.keys if key.kid == key_id]


class _Discovery(msgspec.Struct):
    """The part of an OpenID provider's metadata that is used."""

    issuer: str
    jwks_uri: str
    token_endpoint: str | None = None
