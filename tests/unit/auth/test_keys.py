from __future__ import annotations

import json

import pytest
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from floecat.auth.keys import StaticKey, read_key_set
from floecat.errors import SettingsError


def key_set(*entries):
    return json.dumps({"keys": entries}).encode()


def read(*entries):
    return [key.kid for key in read_key_set(key_set(*entries), most_keys=100)]


def test_shared_secrets_and_encryption_keys_are_left_out(rsa_key):
    public = rsa_key.as_dict(private=False)
    secret = OctKey.generate_key(256, {"kid": "oct-1"})
    assert read(
        secret.as_dict(private=True),
        public | {"kid": "enc-1", "use": "enc"},
        {"kty": "LWE", "kid": "pq-1"},
        {},
        {"kty": "RSA", "n": 5, "e": None},
        {"kty": ["RSA"]},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        public,
    ) == ["rsa-1"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"", "no JSON Web Key Set"),
        (b"\xff", "no JSON Web Key Set"),
        (b"[]", "no JSON Web Key Set"),
        (b'{"keys": [5]}', "no JSON Web Key Set"),
        (key_set(), "no public key"),
        (b'{"keys": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper than 16 levels"),
        (key_set(*[{}] * 101), r"101 keys, more than floecat\.limits\.issuer-keys \(100\)"),
    ],
)
def test_what_is_no_key_set_is_refused(document, message):
    with pytest.raises(ValueError, match=message):
        read_key_set(document, most_keys=100)


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
