from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from floecat.auth.keys import JwksKeys, StaticKey
from floecat.errors import SettingsError, UnavailableError


class Stopwatch:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def stopwatch() -> Stopwatch:
    return Stopwatch()


@pytest.fixture(scope="module")
def ec_key() -> ECKey:
    return ECKey.generate_key("P-256", {"kid": "ec-1"})


def test_a_key_set_is_fetched_once(issuer, rsa_key, stopwatch):
    issuer.publish(rsa_key)
    keys = JwksKeys(issuer.jwks_url, monotonic_s=stopwatch)
    assert [key.kid for key in keys.find("rsa-1")] == ["rsa-1"]
    assert keys.find("rsa-1")
    assert issuer.fetches == ["/keys"]


def test_the_discovery_document_names_the_key_set(issuer, rsa_key):
    issuer.publish(rsa_key)
    assert JwksKeys(issuer=issuer.url + "/").find("rsa-1")
    assert issuer.fetches == ["/.well-known/openid-configuration", "/keys"]


def test_an_unknown_kid_means_rotation(issuer, rsa_key, ec_key, stopwatch):
    issuer.publish(rsa_key)
    keys = JwksKeys(issuer.jwks_url, monotonic_s=stopwatch)
    assert keys.find("rsa-1")
    issuer.publish(ec_key)
    stopwatch.now_s += 31
    assert [key.kid for key in keys.find("ec-1")] == ["ec-1"]
    assert keys.find("rsa-1") == []


def test_unknown_kids_cannot_flood_the_issuer(issuer, rsa_key, stopwatch):
    issuer.publish(rsa_key)
    keys = JwksKeys(issuer.jwks_url, monotonic_s=stopwatch)
    keys.find("rsa-1")
    for number in range(20):
        stopwatch.now_s += 1
        assert keys.find(f"forged-{number}") == []
    assert len(issuer.fetches) == 1


def test_withdrawn_keys_stop_working_after_an_hour(issuer, rsa_key, ec_key, stopwatch):
    issuer.publish(rsa_key, ec_key)
    keys = JwksKeys(issuer.jwks_url, monotonic_s=stopwatch)
    assert keys.find("rsa-1")
    issuer.publish(ec_key)
    stopwatch.now_s += 3601
    assert keys.find("rsa-1") == []


def test_an_old_set_serves_on_while_the_issuer_is_away(issuer, rsa_key, stopwatch):
    issuer.publish(rsa_key)
    keys = JwksKeys(issuer.jwks_url, monotonic_s=stopwatch)
    keys.find("rsa-1")
    issuer.broken = True
    stopwatch.now_s += 3601
    assert keys.find("rsa-1")


def test_without_any_key_the_answer_is_unavailable_and_soon_tried_again(issuer, rsa_key, stopwatch):
    issuer.publish(rsa_key)
    issuer.broken = True
    keys = JwksKeys(issuer.jwks_url, monotonic_s=stopwatch)
    with pytest.raises(UnavailableError):
        keys.find("rsa-1")
    with pytest.raises(UnavailableError):
        keys.find("rsa-1")
    assert len(issuer.fetches) == 1
    issuer.broken = False
    stopwatch.now_s += 6
    assert keys.find("rsa-1")


def test_one_thread_waits_for_an_issuer_that_is_slow(issuer, rsa_key, stopwatch):
    issuer.publish(rsa_key)
    keys = JwksKeys(issuer.jwks_url, timeout_s=120, monotonic_s=stopwatch)
    keys.find("rsa-1")
    stopwatch.now_s += 3601
    issuer.asked.clear()
    issuer.answers.clear()
    with ThreadPoolExecutor(1) as thread:
        try:
            waiting = thread.submit(keys.find, "unknown")
            assert issuer.asked.wait(120)
            assert [key.kid for key in keys.find("rsa-1")] == ["rsa-1"]
            with pytest.raises(UnavailableError, match="being fetched"):
                keys.find("another")
        finally:
            issuer.answers.set()
        assert waiting.result(120) == []


def test_a_slow_issuer_does_not_hold_requests_up(stopwatch):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        keys = JwksKeys(
            f"http://127.0.0.1:{silent.getsockname()[1]}/keys", timeout_s=0.1, monotonic_s=stopwatch
        )
        with pytest.raises(UnavailableError):
            keys.find("any")


def test_shared_secrets_and_encryption_keys_are_left_out(issuer, rsa_key):
    secret = OctKey.generate_key(256, {"kid": "oct-1"})
    issuer.keys = [
        secret.as_dict(private=True),
        rsa_key.as_dict(private=False, use="enc") | {"kid": "enc-1"},
        {"kty": "LWE", "kid": "pq-1"},
        rsa_key.as_dict(private=False),
    ]
    keys = JwksKeys(issuer.jwks_url)
    assert [key.kid for key in keys.find(None)] == ["rsa-1"]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/keys", "keys.json"])
def test_only_http_urls_are_taken(url):
    with pytest.raises(SettingsError):
        JwksKeys(url)


def test_some_source_is_needed():
    with pytest.raises(SettingsError):
        JwksKeys()


@pytest.mark.parametrize(
    "key",
    [RSAKey.generate_key(2048), ECKey.generate_key("P-384"), OKPKey.generate_key("Ed25519")],
    ids=["rsa", "ec", "ed25519"],
)
def test_a_static_key_is_read_with_and_without_its_armor(key):
    pem = key.as_pem(private=False).decode()
    body = "\n".join(pem.strip().splitlines()[1:-1])
    for text in (pem, body):
        (read,) = StaticKey(text).find("whatever")
        assert read.thumbprint() == key.thumbprint()


def test_a_static_key_that_is_none_stops_the_start():
    with pytest.raises(SettingsError, match="public-key"):
        StaticKey("c2VjcmV0")
