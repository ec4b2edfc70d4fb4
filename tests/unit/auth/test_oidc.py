from __future__ import annotations

import hmac
import json
import time
from base64 import urlsafe_b64encode
from uuid import UUID

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from floecat.auth.keys import JwksKeys, StaticKey
from floecat.auth.oidc import ALGORITHMS, TokenVerifier, open_verifier
from floecat.errors import NotAuthorizedError, UnavailableError
from floecat.memory_budget import MemoryBudget
from floecat.settings import OidcSettings

ACCOUNT = UUID("5eaa9cd5-7d08-3750-9457-cfe800b0b9d2")
ISSUER = "https://issuer.example/realms/floecat"


class SetClock:
    def __init__(self) -> None:
        self.ms = time.time_ns() // 1_000_000

    def now_ms(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def claims(clock):
    now_s = clock.ms // 1000
    return {
        "iss": ISSUER,
        "aud": ["other", "floecat"],
        "sub": "alice",
        "account_id": str(ACCOUNT),
        "iat": now_s,
        "nbf": now_s,
        "exp": now_s + 300,
    }


@pytest.fixture
def verifier(rsa_key, clock):
    pem = rsa_key.as_pem(private=False).decode()
    return TokenVerifier(
        StaticKey(pem), MemoryBudget(), issuer=ISSUER, audience="floecat", leeway_s=30, clock=clock
    )


def sign(claims, key, algorithm="RS256", **header):
    return jwt.encode({"alg": algorithm} | header, claims, key, algorithms=[algorithm])


def encoded(data):
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def test_a_good_token_names_the_principal(verifier, claims, rsa_key):
    principal = verifier.verify(sign(claims, rsa_key))
    assert (principal.name, principal.account_id) == ("alice", ACCOUNT)
    assert principal.claims["aud"] == ["other", "floecat"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exp": -31}, "has expired"),
        ({"exp": None}, "missing_claim"),
        ({"exp": "soon"}, "not valid here"),
        ({"nbf": 31}, "not valid here"),
        ({"iat": 31}, "not valid here"),
        ({"aud": "other"}, "not valid here"),
        ({"aud": None}, "missing_claim"),
        ({"iss": "https://evil.example"}, "not valid here"),
        ({"iss": None}, "missing_claim"),
        ({"sub": None}, "'sub'"),
        ({"sub": 5}, "not valid here"),
        ({"sub": "a\0"}, "'sub' of the bearer token is too long or no plain text"),
        ({"sub": "a\n"}, "'sub' of the bearer token is too long or no plain text"),
        ({"sub": "é" * 257}, "'sub' of the bearer token is too long or no plain text"),
        ({"account_id": None}, "'account_id'"),
        ({"account_id": "acme"}, "'account_id'"),
    ],
)
def test_a_claim_that_is_wrong_or_missing_is_refused(verifier, claims, rsa_key, clock, change, message):
    now_s = clock.ms // 1000
    for name, value in change.items():
        claims[name] = now_s + value if isinstance(value, int) and name != "sub" else value
        if value is None:
            del claims[name]
    with pytest.raises(NotAuthorizedError, match=message):
        verifier.verify(sign(claims, rsa_key))


def test_the_clocks_may_differ_by_the_leeway(verifier, claims, rsa_key, clock):
    now_s = clock.ms // 1000
    assert verifier.verify(sign(claims | {"exp": now_s - 29, "nbf": now_s + 29}, rsa_key)).name == "alice"


def test_an_unsigned_token_is_refused(verifier, claims, rsa_key):
    _, payload, _ = sign(claims, rsa_key).split(".")
    header = encoded(b'{"alg":"none"}')
    for signature in ("", "x"):
        with pytest.raises(NotAuthorizedError, match="algorithm"):
            verifier.verify(f"{header}.{payload}.{signature}")


def test_the_public_key_does_not_serve_as_a_shared_secret(verifier, claims, rsa_key):
    _, payload, _ = sign(claims, rsa_key).split(".")
    header = encoded(b'{"alg":"HS256"}')
    signed = f"{header}.{payload}"
    digest = hmac.digest(rsa_key.as_pem(private=False), signed.encode(), "sha256")
    with pytest.raises(NotAuthorizedError, match="algorithm"):
        verifier.verify(f"{signed}.{encoded(digest)}")


def test_a_token_of_somebody_elses_key_is_refused(verifier, claims):
    with pytest.raises(NotAuthorizedError, match="not signed by"):
        verifier.verify(sign(claims, RSAKey.generate_key(2048), kid="rsa-1"))


def test_a_changed_payload_is_refused(verifier, claims, rsa_key):
    header, _, signature = sign(claims, rsa_key).split(".")
    _, other, _ = sign(claims | {"sub": "root"}, rsa_key).split(".")
    with pytest.raises(NotAuthorizedError):
        verifier.verify(f"{header}.{other}.{signature}")


@pytest.mark.parametrize("token", ["None", "x", "a.b", "a.b.c", "....", "é.é.é", "." * 5000, "a" * 200_000])
def test_what_is_no_token_is_refused(verifier, token):
    with pytest.raises(NotAuthorizedError, match="malformed"):
        verifier.verify(token)


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_deep_nesting_in_a_token_is_refused(verifier, claims, rsa_key):
    assert verifier.verify(sign(claims | {"x": nested(63)}, rsa_key)).name == "alice"
    with pytest.raises(NotAuthorizedError, match=r"64 levels \(floecat\.limits\.token-nesting\)"):
        verifier.verify(sign(claims | {"x": nested(64)}, rsa_key))
    _, payload, signature = sign(claims, rsa_key).split(".")
    header = encoded(b'{"alg":"RS256","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    with pytest.raises(NotAuthorizedError, match="nested deeper"):
        verifier.verify(f"{header}.{payload}.{signature}")


def test_a_token_with_a_name_twice_is_refused(verifier, claims, rsa_key):
    payload = json.dumps(claims | {"sub": "alice"})
    for twice in (payload.replace('"sub"', '"sub": "bob", "sub"'), payload[:-1] + ', "x": {"y": 1, "y": 2}}'):
        token = jws.serialize_compact({"alg": "RS256"}, twice, rsa_key)
        with pytest.raises(NotAuthorizedError, match="a key more than once"):
            verifier.verify(token)
    assert verifier.verify(jws.serialize_compact({"alg": "RS256"}, payload, rsa_key)).name == "alice"


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("RS512", RSAKey.generate_key(2048)),
        ("PS256", RSAKey.generate_key(2048)),
        ("ES256", ECKey.generate_key("P-256")),
        ("ES384", ECKey.generate_key("P-384")),
        ("Ed25519", OKPKey.generate_key("Ed25519")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_signatures_of_every_kind_are_taken(claims, clock, algorithm, key):
    assert algorithm in ALGORITHMS
    verifier = TokenVerifier(StaticKey(key.as_pem(private=False).decode()), MemoryBudget(), clock=clock)
    assert verifier.verify(sign(claims, key, algorithm)).name == "alice"


def test_the_older_name_of_ed25519_is_taken(claims, clock):
    key = OKPKey.generate_key("Ed25519")
    with pytest.warns(UserWarning, match="EdDSA"):
        token = sign(claims, key, "EdDSA")
    assert (
        TokenVerifier(StaticKey(key.as_pem(private=False).decode()), MemoryBudget(), clock=clock)
        .verify(token)
        .name
        == "alice"
    )


def test_without_a_kid_every_key_of_the_issuer_is_tried(issuer, claims, clock, rsa_key):
    keys = [ECKey.generate_key("P-256", {"kid": "ec"}), RSAKey.generate_key(2048, {"kid": "old"}), rsa_key]
    issuer.publish(*keys)
    verifier = TokenVerifier(JwksKeys(issuer.jwks_url), MemoryBudget(), clock=clock)
    assert verifier.verify(sign(claims, rsa_key)).name == "alice"


def test_rotation_works_without_a_restart(issuer, claims, clock, rsa_key):
    now_s = [0.0]
    issuer.publish(rsa_key)
    verifier = TokenVerifier(
        JwksKeys(issuer.jwks_url, monotonic_s=lambda: now_s[0]), MemoryBudget(), clock=clock
    )
    verifier.verify(sign(claims, rsa_key, kid="rsa-1"))
    new = ECKey.generate_key("P-256", {"kid": "ec-2"})
    issuer.publish(rsa_key, new)
    now_s[0] = 31.0
    assert verifier.verify(sign(claims, new, "ES256", kid="ec-2")).name == "alice"


def test_an_issuer_that_is_away_does_not_make_tokens_wrong(issuer, claims, rsa_key):
    issuer.broken = True
    with pytest.raises(UnavailableError):
        TokenVerifier(JwksKeys(issuer.jwks_url), MemoryBudget()).verify(sign(claims, rsa_key))


def test_a_verified_token_is_remembered_for_a_minute(verifier, claims, rsa_key, clock):
    token = sign(claims, rsa_key)
    assert verifier.remembered(token) is None
    principal = verifier.verify(token)
    assert verifier.remembered(token) is principal
    clock.ms += 60_001
    assert verifier.remembered(token) is None


def test_a_remembered_token_ends_with_its_expiry(verifier, claims, rsa_key, clock):
    token = sign(claims | {"exp": clock.ms // 1000 + 5}, rsa_key)
    verifier.verify(token)
    clock.ms += 36_000
    assert verifier.remembered(token) is None


def test_a_refused_token_is_not_remembered(verifier, claims, rsa_key, clock):
    token = sign(claims | {"exp": clock.ms // 1000 - 100}, rsa_key)
    with pytest.raises(NotAuthorizedError):
        verifier.verify(token)
    assert verifier.remembered(token) is None


def test_messages_do_not_repeat_the_token(verifier, claims, rsa_key):
    token = sign(claims | {"aud": "secret-audience"}, rsa_key)
    with pytest.raises(NotAuthorizedError) as refused:
        verifier.verify(token)
    assert "secret-audience" not in refused.value.message
    assert token not in refused.value.message


def test_the_settings_choose_claims_and_keys(claims, rsa_key):
    settings = OidcSettings(
        public_key=rsa_key.as_pem(private=False).decode(), principal_claim="preferred_username"
    )
    verifier = open_verifier(settings, MemoryBudget(), account_claim="tenant")
    token = sign(claims | {"tenant": str(ACCOUNT), "preferred_username": "bob"}, rsa_key)
    assert verifier.verify(token).name == "bob"
