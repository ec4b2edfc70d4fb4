from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from joserfc.jwk import ECKey

from floecat.auth.issuer_documents import IssuerDocuments
from floecat.auth.issuer_keys import IssuerKeys
from floecat.errors import SettingsError, UnavailableError


class Stopwatch:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def stopwatch() -> Stopwatch:
    return Stopwatch()


@pytest.fixture
def make_keys(stopwatch) -> Callable[..., IssuerKeys]:
    documents = IssuerDocuments(timeout_s=120, most_bytes=1 << 20)
    return lambda **options: IssuerKeys(documents, monotonic_s=stopwatch, **options)


@pytest.fixture
def keys(issuer, rsa_key, make_keys) -> IssuerKeys:
    issuer.publish(rsa_key)
    return make_keys(jwks_url=issuer.jwks_url)


@pytest.fixture(scope="module")
def ec_key() -> ECKey:
    return ECKey.generate_key("P-256", {"kid": "ec-1"})


def test_a_key_set_is_fetched_once(issuer, keys):
    assert not keys.known("rsa-1")
    assert issuer.fetches == []
    assert [key.kid for key in keys.find("rsa-1")] == ["rsa-1"]
    assert keys.find("rsa-1") == keys.known("rsa-1")
    keys.check()
    assert issuer.fetches == ["/keys"]


def test_the_discovery_document_names_the_key_set_and_where_tokens_are(issuer, rsa_key, make_keys, stopwatch):
    issuer.publish(rsa_key)
    keys = make_keys(issuer=issuer.url)
    assert keys.token_url is None
    assert keys.find("rsa-1")
    assert keys.token_url == f"{issuer.url}/token"
    stopwatch.now_s += 301
    assert keys.find("rsa-1")
    assert issuer.fetches == ["/.well-known/openid-configuration", "/keys"] * 2


def test_the_discovery_document_of_another_issuer_is_refused(issuer, rsa_key, make_keys, stopwatch, caplog):
    issuer.publish(rsa_key)
    with pytest.raises(SettingsError, match=rf"issuer is '{issuer.url}/', .* of the issuer '{issuer.url}'"):
        make_keys(issuer=f"{issuer.url}/").check()
    keys = make_keys(issuer=issuer.url)
    keys.check()
    issuer.name = "https://another.example"
    stopwatch.now_s += 301
    assert keys.find("rsa-1")  # that were known before
    assert "the issuer 'https://another.example'" in caplog.text
    issuer.fetches.clear()
    with pytest.raises(UnavailableError, match="are missing"):
        make_keys(issuer=issuer.url).find("rsa-1")
    assert "/keys" not in issuer.fetches


@pytest.mark.parametrize(
    "change",
    [{"jwks_uri": "file:///etc/passwd"}, {"jwks_uri": ""}, {"token_endpoint": "javascript:alert(1)"}],
)
def test_addresses_that_a_discovery_document_may_not_name(issuer, rsa_key, make_keys, change, caplog):
    issuer.publish(rsa_key)
    issuer.discovery |= change
    keys = make_keys(issuer=issuer.url)
    with pytest.raises(UnavailableError):
        keys.check()
    assert keys.token_url is None
    assert f"discovery document {issuer.url}/.well-known/openid-configuration" in caplog.text
    assert f"{next(iter(change.values()))!r} is no http or https URL" in caplog.text


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"issuer": 5}'])
def test_what_is_no_discovery_document(issuer, rsa_key, make_keys, body):
    issuer.publish(rsa_key)
    issuer.bodies["/.well-known/openid-configuration"] = body
    with pytest.raises(UnavailableError):
        make_keys(issuer=issuer.url).check()


def test_an_unknown_kid_means_rotation(issuer, rsa_key, ec_key, keys, stopwatch):
    assert keys.find("rsa-1")
    issuer.publish(ec_key)
    stopwatch.now_s += 31
    assert [key.kid for key in keys.find("ec-1")] == ["ec-1"]
    assert keys.find("rsa-1") == []


def test_an_unknown_kid_is_refused_for_good_once_a_newer_set_lacks_it(issuer, keys, stopwatch):
    keys.find("rsa-1")
    stopwatch.now_s += 10
    with pytest.raises(UnavailableError, match="asked for its keys again") as unknown:
        keys.find("new")
    assert unknown.value.retry_after_s == 20
    stopwatch.now_s += 20
    assert keys.find("new") == []
    stopwatch.now_s += 1
    assert keys.find("new") == []
    assert len(issuer.fetches) == 2


def test_unknown_kids_cannot_flood_the_issuer_nor_fill_the_memory(issuer, rsa_key, ec_key, keys, stopwatch):
    keys.find("rsa-1")
    for number in range(5000):
        stopwatch.now_s += 0.005
        with pytest.raises(UnavailableError):
            keys.find(f"forged-{number}")
    assert len(issuer.fetches) == 1
    assert len(keys._first_asked_s) == 1000
    issuer.publish(rsa_key, ec_key)
    stopwatch.now_s += 5
    assert keys.find("ec-1")  # beside them


def test_a_key_that_could_not_be_looked_for_is_not_refused(issuer, rsa_key, ec_key, keys, stopwatch):
    keys.find("rsa-1")
    issuer.broken = True
    issuer.publish(rsa_key, ec_key)
    stopwatch.now_s += 31
    for _ in range(3):
        with pytest.raises(UnavailableError) as unknown:
            keys.find("ec-1")
        assert unknown.value.retry_after_s <= 30
        assert keys.find("rsa-1")
        stopwatch.now_s += 31
    issuer.broken = False
    assert keys.find("ec-1")


def test_withdrawn_keys_stop_working_in_time(issuer, rsa_key, ec_key, make_keys, stopwatch):
    issuer.publish(rsa_key, ec_key)
    keys = make_keys(jwks_url=issuer.jwks_url, refresh_s=60)
    assert keys.find("rsa-1")
    issuer.publish(ec_key)
    stopwatch.now_s += 59
    assert keys.find("rsa-1")
    stopwatch.now_s += 1
    assert keys.find("rsa-1") == []


def test_an_old_set_serves_on_while_the_issuer_is_away(issuer, keys, stopwatch, caplog):
    keys.find("rsa-1")
    issuer.broken = True
    stopwatch.now_s += 3601
    assert keys.find("rsa-1")
    assert f"The key set {issuer.jwks_url} of the token issuer cannot be read: the answer has" in caplog.text


def test_without_any_key_the_answer_is_unavailable_and_soon_tried_again(issuer, keys, stopwatch):
    issuer.broken = True
    for ask in (lambda: keys.find("rsa-1"), keys.check, lambda: keys.find(None)):
        with pytest.raises(UnavailableError, match="missing") as missing:
            ask()
        assert missing.value.retry_after_s == 5
    assert len(issuer.fetches) == 1
    issuer.broken = False
    stopwatch.now_s += 6
    assert keys.find("rsa-1")


def test_a_probe_beside_the_first_fetch_is_unavailable(issuer, keys):
    issuer.answers.clear()
    with ThreadPoolExecutor(1) as thread:
        try:
            fetching = thread.submit(keys.check)
            assert issuer.asked.wait(120)
            with pytest.raises(UnavailableError, match="are missing") as refused:
                keys.check()
        finally:
            issuer.answers.set()
        fetching.result(120)
    assert refused.value.retry_after_s == 1


def test_one_thread_waits_for_an_issuer_that_is_slow(issuer, keys, stopwatch):
    keys.find("rsa-1")
    stopwatch.now_s += 301
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


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://host/keys", "keys.json", "http://", "http://[", ""]
)
def test_only_http_urls_are_taken(make_keys, url):
    for option in ("jwks_url", "issuer"):
        with pytest.raises(SettingsError):
            make_keys(**{option: url})


def test_the_log_names_no_more_than_the_address(issuer, keys, caplog):
    caplog.set_level(logging.DEBUG)
    issuer.bodies["/keys"] = b'{"keys": "hush"}'
    with pytest.raises(UnavailableError):
        keys.check()
    assert "no JSON Web Key Set" in caplog.text
    assert "hush" not in caplog.text
