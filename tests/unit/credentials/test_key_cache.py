from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import msgspec
import pytest

from floecat.credentials.authorities import S3Method, StorageAuthority
from floecat.credentials.key_cache import KeyCache
from floecat.credentials.keys import AuthorityError, KeyScope, StorageKeys
from floecat.fileio.locations import normalize_location
from floecat.memory_budget import LruCache
from tests.clocks import SetClock

LIFE_MS = 3_600_000
AUTHORITY = StorageAuthority(
    UUID(int=1),
    UUID(int=2),
    "lake",
    normalize_location("s3://b"),
    S3Method(role_arn="arn:aws:iam::0:role/r"),
    True,
    None,
    1,
    0,
    0,
)
SCOPES = [KeyScope((normalize_location(f"s3://b/t{number}"),), False) for number in range(10)]


class Maker:
    """Makes keys that live an hour by the clock, unless it is told to fail or to wait."""

    def __init__(self, clock):
        self.clock = clock
        self.calls = Counter()
        self.reason = None
        self.called = threading.Event()
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()

    def make(self, authority, secrets, scope):
        with self.lock:
            self.calls[scope] += 1
            token = str(sum(self.calls.values()))
            self.called.set()
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        assert self.goes_on.wait(60)
        with self.lock:
            self.at_once -= 1
        if self.reason is not None:
            raise AuthorityError(authority, self.reason)
        expires_at_ms = self.clock.now_ms() + LIFE_MS
        return StorageKeys({"token": token}, expires_at_ms)


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def maker(clock):
    return Maker(clock)


@pytest.fixture
def keys(clock, maker):
    return KeyCache({"s3": maker}, lambda _: {}, LruCache(1 << 20), clock, calls_at_once=3, timeout_s=30)


def test_a_thousand_at_once_make_one_call_a_scope(keys, maker):
    maker.goes_on.clear()
    with ThreadPoolExecutor(32) as threads:
        found = [threads.submit(keys.get, AUTHORITY, SCOPES[n % 10]) for n in range(1000)]
        threading.Timer(0.2, maker.goes_on.set).start()
        assert len({each.result().keys.config["token"] for each in found}) == 10
    assert maker.calls == dict.fromkeys(SCOPES, 1)
    assert maker.most_at_once <= 3


def test_one_request_renews_at_two_thirds_while_others_get_the_old_ones(keys, maker, clock):
    first = keys.get(AUTHORITY, SCOPES[0])
    clock.ms += LIFE_MS * 2 // 3 - 1
    assert keys.in_memory(AUTHORITY, SCOPES[0]) == first
    clock.ms += 1
    assert keys.in_memory(AUTHORITY, SCOPES[0]) is None
    maker.goes_on.clear()
    maker.called.clear()
    with ThreadPoolExecutor(1) as threads:
        renewing = threads.submit(keys.get, AUTHORITY, SCOPES[0])
        assert maker.called.wait(60)
        assert keys.get(AUTHORITY, SCOPES[0]) == keys.in_memory(AUTHORITY, SCOPES[0]) == first
        maker.goes_on.set()
        assert renewing.result() == keys.get(AUTHORITY, SCOPES[0]) != first
    assert maker.calls[SCOPES[0]] == 2


def test_where_it_cannot_renew_the_old_ones_serve_until_they_end(keys, maker, clock):
    first = keys.get(AUTHORITY, SCOPES[0])
    maker.reason = "it is away"
    clock.ms += LIFE_MS * 2 // 3
    for _ in range(3):
        assert keys.get(AUTHORITY, SCOPES[0]).keys == first.keys
    assert maker.calls[SCOPES[0]] == 2  # not with each request
    clock.ms += LIFE_MS // 3 - 60_000
    with pytest.raises(AuthorityError, match="lake makes no keys: it is away"):
        keys.get(AUTHORITY, SCOPES[0])


def test_a_failure_is_that_of_the_next_requests_for_a_while(keys, maker, clock):
    maker.reason = "it is away"
    for scope in SCOPES:
        with pytest.raises(AuthorityError, match="it is away"):
            keys.get(AUTHORITY, scope)
    assert sum(maker.calls.values()) == 1
    maker.reason = None
    changed = msgspec.structs.replace(AUTHORITY, version=2)
    assert keys.get(changed, SCOPES[0])  # for which it says nothing
    clock.ms += 2_000
    assert keys.get(AUTHORITY, SCOPES[0])


def test_keys_of_an_earlier_version_are_not_handed_out(keys, maker):
    keys.get(AUTHORITY, SCOPES[0])
    changed = msgspec.structs.replace(AUTHORITY, version=2)
    assert keys.in_memory(changed, SCOPES[0]) is None
    keys.get(changed, SCOPES[0])
    assert maker.calls[SCOPES[0]] == 2


def test_keys_that_end_at_once_are_refused(keys, maker, clock):
    clock.ms += LIFE_MS

    class Behind:
        def make(self, authority, secrets, scope):
            return StorageKeys({}, clock.now_ms() - LIFE_MS)

    behind = KeyCache({"s3": Behind()}, lambda _: {}, LruCache(1), clock, calls_at_once=1, timeout_s=1)
    with pytest.raises(AuthorityError, match="the clock of this machine may differ"):
        behind.get(AUTHORITY, SCOPES[0])


def test_no_secret_in_what_is_shown(keys):
    assert "token" not in repr(keys.get(AUTHORITY, SCOPES[0]))
