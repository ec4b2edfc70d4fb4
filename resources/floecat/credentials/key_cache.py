"""Keys that were made, until two thirds of their life are over.

One request makes them while others of the same scope wait, and one renews them while others get those that
are still good. An authority makes a few at once: one that is slow holds few threads, and for a while after it
did not answer, requests fail at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import BoundedSemaphore, Lock
from typing import Final, NamedTuple
from uuid import UUID

from floecat.clock import Clock
from floecat.credentials.authorities import AuthorityKind, Secrets, StorageAuthority
from floecat.credentials.keys import AuthorityError, KeyMaker, KeyScope, StorageKeys
from floecat.memory_budget import LruCache

__all__ = ["CurrentKeys", "KeyCache"]

_log: Final = logging.getLogger(__name__)

_LAST_MS: Final = 60_000
"""Keys that cannot be renewed are handed out until they have this left."""
_RETRY_MS: Final = 30_000
_FAILED_MS: Final = 2_000
_KEY_BYTES: Final = 1 << 10

_Key = tuple[UUID, int, KeyScope]


class CurrentKeys(NamedTuple):
    """Keys with the times that count, by the clock of this process."""

    keys: StorageKeys
    made_at_ms: int
    renew_at_ms: int


class KeyCache:
    """Makes keys and keeps them. Thread-safe."""

    def __init__(
        self,
        makers: Mapping[AuthorityKind, KeyMaker],
        secrets: Callable[[StorageAuthority], Secrets],
        kept: LruCache[CurrentKeys],
        clock: Clock,
        *,
        calls_at_once: int,
        timeout_s: float,
    ) -> None:
        """Wires the cache.

        Args:
            makers: by kind of authority.
            secrets: reads what an authority keeps secret.
            kept: where keys are kept.
            calls_at_once: keys that one authority makes at a time.
            timeout_s: how long a request waits for its turn.
        """
        self.makers: Final = makers
        self._secrets = secrets
        self._kept = kept
        self._clock = clock
        self._calls_at_once = calls_at_once
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._renewing: set[_Key] = set()
        self._turns: dict[UUID, BoundedSemaphore] = {}
        self._failed: dict[UUID, tuple[int, int, tuple[str, str]]] = {}
        """Version, time and reason of the last failure of each authority."""

    def in_memory(self, authority: StorageAuthority, scope: KeyScope) -> CurrentKeys | None:
        """Keys that need no call; None if they have to be made or renewed."""
        key = (authority.id, authority.version, scope)
        kept = self._kept.get(key)
        if kept is None:
            return None
        now_ms = self._clock.now_ms()
        return (
            kept if now_ms < kept.renew_at_ms or (_is_good(kept, now_ms) and key in self._renewing) else None
        )

    def get(self, authority: StorageAuthority, scope: KeyScope) -> CurrentKeys:
        """Keys of an authority.

        Raises:
            AuthorityError: none can be had now.
            BadRequestError: the scope cannot be expressed.
        """
        key = (authority.id, authority.version, scope)
        kept = self._kept.get(key)
        if kept is not None and _is_good(kept, self._clock.now_ms()):
            return self._renewed(key, authority, kept)
        return self._kept.get_or_make(
            key,
            lambda: self._make(authority, scope),
            _size_of,
            is_good=lambda found: _is_good(found, self._clock.now_ms()),
        )

    def _renewed(self, key: _Key, authority: StorageAuthority, kept: CurrentKeys) -> CurrentKeys:
        """Keys that are good, or new ones, if it is time and no other request makes these."""
        with self._lock:
            if self._clock.now_ms() < kept.renew_at_ms or key in self._renewing:
                return kept
            self._renewing.add(key)
        try:
            made = self._make(authority, key[2])
        except AuthorityError as error:
            _log.warning("%s; keys of before are handed out until they end", error.message)
            made = kept._replace(renew_at_ms=self._clock.now_ms() + _RETRY_MS)
        finally:
            self._renewing.discard(key)
        self._kept.put(key, made, _size_of(made))
        return made

    def _make(self, authority: StorageAuthority, scope: KeyScope) -> CurrentKeys:
        maker = self.makers.get(authority.method.kind)
        if maker is None:
            raise AuthorityError(authority, "this kind makes no keys yet")
        self._check_failed(authority)
        with self._lock:
            turns = self._turns.setdefault(authority.id, BoundedSemaphore(self._calls_at_once))
        if not turns.acquire(timeout=self._timeout_s):
            raise AuthorityError(authority, f"it had no turn for these within {self._timeout_s:g} s")
        try:
            self._check_failed(authority)  # while this one waited
            keys = maker.make(authority, self._secrets(authority), scope)
        except AuthorityError as error:
            self._failed[authority.id] = authority.version, self._clock.now_ms(), error.said
            raise
        finally:
            turns.release()
        now_ms = self._clock.now_ms()
        life_ms = keys.expires_at_ms - now_ms
        if life_ms <= _LAST_MS:
            raise AuthorityError(
                authority,
                f"its keys would end in {life_ms // 1000} s; the clock of this machine may differ",
            )
        return CurrentKeys(keys, now_ms, now_ms + life_ms * 2 // 3)

    def _check_failed(self, authority: StorageAuthority) -> None:
        version, at_ms, said = self._failed.get(authority.id, (-1, 0, ("", "")))
        if version == authority.version and self._clock.now_ms() - at_ms < _FAILED_MS:
            raise AuthorityError(authority, *said)


def _is_good(kept: CurrentKeys, now_ms: int) -> bool:
    return now_ms < kept.keys.expires_at_ms - _LAST_MS


def _size_of(kept: CurrentKeys) -> int:
    return _KEY_BYTES + sum(map(len, kept.keys.config.values()))
