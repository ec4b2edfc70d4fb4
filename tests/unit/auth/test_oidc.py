from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode
from uuid import UUID

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from floecat.auth.issuer_documents import IssuerDocuments
from floecat.auth.issuer_keys import IssuerKeys
from floecat.auth.issuers import open_verifiers
from floecat.auth.keys import StaticKey
from floecat.auth.oidc import ALGORITHMS, TokenVerifier
from floecat.errors import InvalidTokenError, NotAuthorizedError, UnavailableError
from floecat.memory_budget import MemoryBudget
from floecat.settings import GatewaySettings, OidcSettings, Settings
from tests.clocks import SetClock

ACCOUNT = UUID("5eaa9cd5-7d08-3750-9457-cfe800b0b9d2")
ISSUER = "https://issuer.example/realms/floecat"


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


def keys_of(issuer, **options):
    documents = IssuerDocuments(timeout_s=30, most_bytes=1 << 20)
    return IssuerKeys(documents, jwks_url=issuer.jwks_url, **options)


def encoded(data):
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def test_a_good_token_names_the_principal(verifier, claims, rsa_key):
    principal = verifier.verify(sign(claims, rsa_key))
    assert (principal.name, principal.account_id) == ("alice", ACCOUNT)
    assert principal.claims["aud"] == ["other", "floecat"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exp": -31}, r"has expired: its 'exp' is 20..-.*Z, and it is 20.*Z \(floecat.oidc.leeway-s\)"),
        ({"exp": None}, "lacks the claim 'exp'"),
        ({"exp": "soon"}, "'exp' of the bearer token is not accepted: it is 'soon'"),
        ({"nbf": 31}, "not valid yet: its 'nbf' is"),
        ({"nbf": 10**300}, "not valid yet: its 'nbf' is 1000"),
        ({"iat": 31}, "not valid yet: its 'iat' is"),
        ({"aud": "other"}, r"it is 'other', and 'floecat' is accepted \(floecat\.oidc\.audience\)"),
        ({"aud": ["a", "b"]}, r"it is \['a', 'b'\], and 'floecat' is accepted"),
        ({"aud": None}, "lacks the claim 'aud', and 'floecat' is accepted"),
        ({"iss": "https://evil.example"}, f"it is 'https://evil.example', and '{ISSUER}' is accepted"),
        ({"iss": f"{ISSUER}/"}, f"it is '{ISSUER}/', and '{ISSUER}' is accepted"),
        ({"iss": None}, "lacks the claim 'iss', and"),
        ({"sub": None}, "lacks the claim 'sub'"),
        ({"sub": 5}, "'sub' of the bearer token is not accepted: it is 5"),
        ({"sub": "a\0"}, "'sub' of the bearer token is too long or no plain text"),
        ({"sub": "a\n"}, "'sub' of the bearer token is too long or no plain text"),
        ({"sub": "é" * 257}, "'sub' of the bearer token is too long or no plain text"),
        ({"account_id": None}, "lacks the claim 'account_id', the UUID of an account"),
        (
            {"account_id": "acme"},
            "'account_id' of the bearer token is not the UUID of an account: it is 'acme'",
        ),
        ({"account_id": [str(ACCOUNT)]}, "is not the UUID of an account"),
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
    verifier = TokenVerifier(keys_of(issuer), MemoryBudget(), clock=clock)
    assert verifier.verify(sign(claims, rsa_key)).name == "alice"


def test_rotation_works_without_a_restart(issuer, claims, clock, rsa_key):
    now_s = [0.0]
    issuer.publish(rsa_key)
    verifier = TokenVerifier(keys_of(issuer, monotonic_s=lambda: now_s[0]), MemoryBudget(), clock=clock)
    verifier.verify(sign(claims, rsa_key, kid="rsa-1"))
    new = ECKey.generate_key("P-256", {"kid": "ec-2"})
    issuer.publish(rsa_key, new)
    now_s[0] = 31.0
    assert verifier.verify(sign(claims, new, "ES256", kid="ec-2")).name == "alice"


def test_an_issuer_that_is_away_does_not_make_tokens_wrong(issuer, claims, rsa_key):
    issuer.broken = True
    with pytest.raises(UnavailableError):
        TokenVerifier(keys_of(issuer), MemoryBudget()).verify(sign(claims, rsa_key))


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


@pytest.mark.parametrize(
    ("header", "change", "message"),
    [
        ({}, {"typ": "ID"}, "is an ID token"),
        ({}, {"nonce": "n"}, "is an ID token"),
        ({}, {"at_hash": "h"}, "is an ID token"),
        ({"typ": "JWT"}, {"token_use": "id"}, "is an ID token"),
        ({}, {"typ": "Refresh"}, "is of the kind 'refresh'"),
        ({"typ": "logout+jwt"}, {}, r"is of the type 'logout\+jwt'"),
    ],
)
def test_tokens_of_other_kinds_are_refused(claims, rsa_key, clock, header, change, message):
    """Whatever they say of their audience."""
    keys = StaticKey(rsa_key.as_pem(private=False).decode())
    for audience in (None, "floecat"):
        verifier = TokenVerifier(keys, MemoryBudget(), audience=audience, clock=clock)
        with pytest.raises(InvalidTokenError, match=f"{message}; an access token is needed"):
            verifier.verify(sign(claims | change, rsa_key, **header))


@pytest.mark.parametrize(
    ("header", "change"),
    [
        ({"typ": "JWT"}, {"typ": "Bearer", "nonce": "n"}),
        ({"typ": "at+jwt"}, {"nonce": "n"}),
        ({"typ": "application/at+jwt"}, {}),
        ({}, {"token_use": "access"}),
        ({}, {"typ": ["ID"]}),
    ],
)
def test_access_tokens_are_taken_for_such(verifier, claims, rsa_key, header, change):
    assert verifier.verify(sign(claims | change, rsa_key, **header)).name == "alice"


def test_what_is_no_token_of_the_issuer_learns_nothing_and_fetches_nothing(issuer, claims, clock, caplog):
    verifier = TokenVerifier(keys_of(issuer), MemoryBudget(), issuer=ISSUER, audience="lake", clock=clock)
    other = RSAKey.generate_key(2048)
    for change in (
        {"iss": "https://other.example"},
        {"exp": 5},
        {"nonce": "n"},
        {"aud": "other"},
        {"iss": None},
    ):
        forged = {name: value for name, value in (claims | change).items() if value is not None}
        with pytest.raises(InvalidTokenError) as refused:
            verifier.verify(sign(forged, other, kid="k"))
        assert ISSUER not in refused.value.message
        assert "lake" not in refused.value.message
    assert issuer.fetches == []
    assert f"it is 'https://other.example', and '{ISSUER}' is accepted" in caplog.text


def test_an_unknown_key_is_looked_for_and_then_refused(issuer, claims, clock, rsa_key):
    now_s = [0.0]
    issuer.publish(rsa_key)
    verifier = TokenVerifier(keys_of(issuer, monotonic_s=lambda: now_s[0]), MemoryBudget(), clock=clock)
    verifier.verify(sign(claims, rsa_key, kid="rsa-1"))
    now_s[0] = 1.0
    token = sign(claims, RSAKey.generate_key(2048), kid="k" * 300)
    with pytest.raises(UnavailableError):
        verifier.verify(token)
    now_s[0] = 31.0
    with pytest.raises(InvalidTokenError, match=r"The issuer has no key 'k{199}…, which"):
        verifier.verify(token)


def test_each_reason_is_logged_once_a_minute(verifier, claims, rsa_key, clock, caplog):
    def refuse(**change):
        with pytest.raises(InvalidTokenError):
            verifier.verify(sign(claims | change, rsa_key))

    for _ in range(3):
        refuse(aud="one")
        refuse(aud="two")
        refuse(account_id="acme")
    assert [record.message[:50] for record in caplog.records] == [
        "A request was refused: The claim 'aud' of the bear",
        "A request was refused: The claim 'account_id' of t",
    ]
    clock.ms += 60_000
    refuse(aud="three")
    assert "'three'" in caplog.records[-1].message


def test_messages_do_not_repeat_the_token(verifier, claims, rsa_key, caplog):
    token = sign(claims | {"aud": "a" * 1000}, rsa_key)
    with pytest.raises(NotAuthorizedError) as refused:
        verifier.verify(token)
    for text in (refused.value.message, caplog.text):
        assert not any(part in text for part in token.split("."))
        assert "a" * 300 not in text


@pytest.mark.parametrize(
    "payload",
    [
        b'{"exp": NaN}',
        b'{"exp": Infinity}',
        b"[]",
        b"5",
        b"null",
        b'"x"',
        b"",
        b"\xff",
        b'{"exp": 1%s}' % (b"0" * 5000),
    ],
)
def test_payloads_that_are_no_claims(verifier, rsa_key, payload):
    with pytest.raises(InvalidTokenError, match="malformed"):
        verifier.verify(jws.serialize_compact({"alg": "RS256"}, payload, rsa_key))


def test_critical_headers_that_are_not_known_are_refused(verifier, claims, rsa_key):
    """RFC 7515 section 4.1.11: here `exp` would be in the header."""
    _, payload, _ = sign(claims, rsa_key).split(".")
    forged = encoded(json.dumps({"alg": "RS256", "crit": ["exp"], "exp": 5}).encode())
    key = rsa_key.private_key
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    signature = encoded(key.sign(f"{forged}.{payload}".encode(), PKCS1v15(), SHA256()))
    with pytest.raises(InvalidTokenError):
        verifier.verify(f"{forged}.{payload}.{signature}")


def test_the_settings_choose_claims_and_keys(claims, rsa_key):
    settings = OidcSettings(
        public_key=rsa_key.as_pem(private=False).decode(), principal_claim="preferred_username"
    )
    gateway = GatewaySettings(account_claim="tenant")
    verifier = open_verifiers(Settings(oidc=settings, gateway=gateway), MemoryBudget())
    token = sign(claims | {"tenant": str(ACCOUNT), "preferred_username": "bob"}, rsa_key)
    assert verifier.verify(token).name == "bob"
