"""Several issuers of tokens: whose token it is, what its claims say, and what an outage of one stops."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from floecat.auth.issuers import TokenVerifiers, issuers, open_verifiers
from floecat.auth.principal_claims import claim_at
from floecat.auth.principals import Principal, issuer_of, qualified
from floecat.errors import InvalidTokenError, SettingsError, UnavailableError
from floecat.memory_budget import MemoryBudget
from floecat.settings import IssuerSettings, OidcSettings, Settings
from floecat.settings.groups.process import AuthSettings
from floecat.settings.limits import LimitSettings
from floecat.settings.loading import load_settings
from tests.clocks import SetClock
from tests.services.token_issuer import Issuer, token_issuer

ACCOUNT = UUID("5eaa9cd5-7d08-3750-9457-cfe800b0b9d2")
OTHER = UUID("00000000-0000-7000-8000-000000000001")


def opened(
    oidc: OidcSettings | None = None, clock: SetClock | None = None, **named: IssuerSettings
) -> TokenVerifiers:
    settings = Settings(oidc=oidc or OidcSettings(), auth=AuthSettings(issuers=named))
    return open_verifiers(settings, MemoryBudget(), clock=clock)


def public(key: RSAKey) -> str:
    return key.as_pem(private=False).decode()


def sign(key: RSAKey, iss: Any, clock: SetClock, **claims: Any) -> str:
    now_s = clock.ms // 1000
    filled = {"iss": iss, "sub": "ada", "account_id": str(ACCOUNT), "exp": now_s + 300, "aud": "floecat"}
    return jwt.encode({"alg": "RS256"} | ({"kid": key.kid} if key.kid else {}), filled | claims, key)


def eventually(verify: Callable[[], Principal]) -> Principal:
    """What is found once the issuer may be asked again."""
    deadline_s = time.monotonic() + 30
    while True:
        try:
            return verify()
        except UnavailableError:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture(scope="module")
def other_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "other-1"})


def test_the_same_name_of_two_issuers_is_two_principals(
    rsa_key: RSAKey, other_key: RSAKey, clock: SetClock
) -> None:
    verifiers = opened(
        OidcSettings(issuer="https://a", public_key=public(rsa_key)),
        clock,
        corp=IssuerSettings(issuer="https://b", public_key=public(other_key)),
    )
    tokens = [
        sign(rsa_key, "https://a", clock, roles=["ops", "@odd"]),
        sign(other_key, "https://b", clock, roles=["ops"]),
    ]
    for _ in range(2):  # the second time they are remembered
        found = [verifiers.remembered(each) or verifiers.verify(each) for each in tokens]
        assert [(each.name, each.groups, each.issuer) for each in found] == [
            ("ada", ("ops", "@/@odd"), ""),
            ("@corp/ada", ("@corp/ops",), "corp"),
        ]
    # nobody of the one can take the name of somebody of the other
    forged = verifiers.verify(sign(rsa_key, "https://a", clock, sub="@corp/ada"))
    assert forged.name == "@/@corp/ada"
    assert [issuer_of(each) for each in ("ada", "@corp/ada", "@/@corp/ada")] == ["", "corp", ""]
    assert qualified("corp", "a/b@c:d") == "@corp/a/b@c:d"


def test_a_token_is_judged_by_the_issuer_that_it_names(
    rsa_key: RSAKey, other_key: RSAKey, clock: SetClock
) -> None:
    verifiers = opened(
        clock=clock,
        a=IssuerSettings(issuer="https://a", public_key=public(rsa_key), audience=("x", "floecat")),
        b=IssuerSettings(issuer="https://b", public_key=public(other_key), audience="lake", leeway_s=0),
    )
    with pytest.raises(InvalidTokenError, match="not signed by a key of the issuer"):
        verifiers.verify(sign(rsa_key, "https://b", clock, aud="lake"))
    with pytest.raises(InvalidTokenError) as refused:
        verifiers.verify(sign(rsa_key, "https://c", clock))
    assert refused.value.message == "The issuer of the bearer token is not accepted: 'https://c'"
    for iss in (None, 5, ["https://a"]):
        with pytest.raises(InvalidTokenError, match="issuer of the bearer token is not accepted"):
            verifiers.verify(sign(rsa_key, iss, clock))
    assert verifiers.verify(sign(rsa_key, "https://a", clock)).name == "@a/ada"
    with pytest.raises(
        InvalidTokenError, match=r"'y', and 'x' or 'floecat' is accepted \(floecat\.auth\.issuers\.a\.aud"
    ):
        verifiers.verify(sign(rsa_key, "https://a", clock, aud="y"))
    late = clock.ms // 1000 - 10
    assert verifiers.verify(sign(rsa_key, "https://a", clock, exp=late)).name == "@a/ada"
    with pytest.raises(InvalidTokenError, match=r"expired.*floecat\.auth\.issuers\.b\.leeway-s"):
        verifiers.verify(sign(other_key, "https://b", clock, aud="lake", exp=late))


def test_an_outage_or_rotation_of_one_issuer_stops_no_other(
    issuer: Issuer, rsa_key: RSAKey, other_key: RSAKey, clock: SetClock
) -> None:
    with token_issuer() as other:
        issuer.publish(rsa_key)
        other.publish(other_key)
        other.broken = True
        verifiers = opened(
            clock=clock,
            a=IssuerSettings(issuer=issuer.url, keys_refresh_s=1),
            b=IssuerSettings(issuer=other.url, keys_refresh_s=1),
        )
        verifiers.check()  # one of them can be verified
        assert verifiers.verify(sign(rsa_key, issuer.url, clock)).name == "@a/ada"
        with pytest.raises(UnavailableError):
            verifiers.verify(sign(other_key, other.url, clock))
        assert (verifiers.token_url("a"), verifiers.token_url("b")) == (f"{issuer.url}/token", None)
        other.broken = False
        assert eventually(lambda: verifiers.verify(sign(other_key, other.url, clock))).name == "@b/ada"
        new = RSAKey.generate_key(2048, {"kid": "other-2"})
        other.publish(new)
        assert eventually(lambda: verifiers.verify(sign(new, other.url, clock))).name == "@b/ada"
        # the key of one signs nothing of another
        with pytest.raises(InvalidTokenError):
            eventually(lambda: verifiers.verify(sign(other_key, issuer.url, clock)))
        issuer.broken = other.broken = True
        with pytest.raises(UnavailableError):
            opened(a=IssuerSettings(issuer=issuer.url), b=IssuerSettings(issuer=other.url)).check()


def test_bounds_and_algorithms_hold_for_each_issuer(
    issuer: Issuer, rsa_key: RSAKey, other_key: RSAKey, clock: SetClock
) -> None:
    issuer.keys = [rsa_key.as_dict(private=False)] * 3
    settings = Settings(
        auth=AuthSettings(
            issuers={
                "a": IssuerSettings(issuer=issuer.url),
                "b": IssuerSettings(issuer="https://b", public_key=public(other_key)),
            }
        ),
        limits=LimitSettings(issuer_keys=2, token_nesting=8),
    )
    verifiers = open_verifiers(settings, MemoryBudget(), clock=clock)
    with pytest.raises(UnavailableError):
        verifiers.verify(sign(rsa_key, issuer.url, clock))
    deep: Any = 1
    for _ in range(10):
        deep = [deep]
    with pytest.raises(InvalidTokenError, match=r"deeper than 8 levels \(floecat\.limits\.token-nesting\)"):
        verifiers.verify(sign(other_key, "https://b", clock, deep=deep))
    secret = OctKey.generate_key(256)
    claims = {"iss": "https://b", "sub": "ada", "account_id": str(ACCOUNT), "exp": clock.ms // 1000 + 300}
    forged = jwt.encode({"alg": "HS256"}, claims, secret, algorithms=["HS256"])
    with pytest.raises(InvalidTokenError, match="an algorithm that is not accepted"):
        verifiers.verify(forged)


def test_kubernetes_service_accounts(rsa_key: RSAKey, clock: SetClock) -> None:
    cluster = "https://kubernetes.default.svc.cluster.local"
    verifiers = opened(
        clock=clock,
        k8s=IssuerSettings(
            issuer=cluster,
            public_key=public(rsa_key),
            audience="floecat",
            account=OTHER,
            roles_claim="kubernetes.io.namespace",
        ),
    )
    claims = {
        "aud": ["floecat", "https://kubernetes.default.svc"],
        "sub": "system:serviceaccount:jobs:nightly",
        "kubernetes.io": {"namespace": "jobs", "serviceaccount": {"name": "nightly", "uid": "1"}},
    }
    found = verifiers.verify(sign(rsa_key, cluster, clock, **claims))
    assert (found.name, found.account_id) == ("@k8s/system:serviceaccount:jobs:nightly", OTHER)
    assert found.groups == ("@k8s/jobs",)
    with pytest.raises(InvalidTokenError, match="'aud' of the bearer token is not accepted"):
        verifiers.verify(
            sign(rsa_key, cluster, clock, **claims | {"aud": ["https://kubernetes.default.svc"]})
        )


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("realm_access.roles", ["a"]),
        ("https://lake.example/roles", ["b"]),
        ("resource_access.my.client.roles", ["c"]),
        ("realm_access", {"roles": ["a"]}),
        ("realm_access.roles.0", None),
        ("sub.name", None),
        ("none", None),
        ("", None),
        (".", None),
    ],
)
def test_a_claim_is_found_by_its_path(path: str, found: object) -> None:
    claims = {
        "sub": "ada",
        "realm_access": {"roles": ["a"]},
        "https://lake.example/roles": ["b"],
        "resource_access": {"my.client": {"roles": ["c"]}},
    }
    assert claim_at(claims, path) == found


@pytest.mark.parametrize(
    ("roles_claim", "claims"),
    [
        (
            "groups",
            {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://g"}}},
        ),
        ("groups", {"hasgroups": True}),
        ("groups", {"hasgroups": "true"}),
        ("realm.groups", {"_claim_names": {"realm": "src1"}}),
    ],
)
def test_groups_that_are_left_out_are_an_error(
    rsa_key: RSAKey, clock: SetClock, roles_claim: str, claims: dict[str, Any]
) -> None:
    verifiers = opened(
        OidcSettings(issuer="https://a", public_key=public(rsa_key), roles_claim=roles_claim), clock
    )
    with pytest.raises(InvalidTokenError, match=f"leaves the claim '{roles_claim}' out"):
        verifiers.verify(sign(rsa_key, "https://a", clock, **claims))
    # claims of other things may be elsewhere
    elsewhere = {"_claim_names": {"address": "src1"}, "groups": ["a"], "hasgroups": False}
    assert verifiers.verify(sign(rsa_key, "https://a", clock, **elsewhere)).name == "ada"


def test_contradictions_are_named(rsa_key: RSAKey) -> None:
    key = public(rsa_key)
    same = IssuerSettings(issuer="https://a", public_key=key)
    with pytest.raises(
        SettingsError, match=r"issuers\.x and floecat\.auth\.issuers\.y are the same issuer: https://a"
    ):
        opened(x=same, y=same)
    with pytest.raises(SettingsError, match=r"^floecat\.oidc and floecat\.auth\.issuers\.y are the same"):
        opened(OidcSettings(issuer="https://a", public_key=key), y=same)
    with pytest.raises(SettingsError, match=r"^floecat\.oidc\.issuer is needed: there are several"):
        opened(OidcSettings(public_key=key), y=same)
    with pytest.raises(SettingsError, match=r"^floecat\.auth\.issuers\.z\.public-key is not a public key"):
        opened(z=IssuerSettings(issuer="https://z", public_key="x"))
    with pytest.raises(SettingsError, match=r"^floecat\.auth\.issuers\.z: validation of tokens needs"):
        opened(z=IssuerSettings(account=ACCOUNT))
    for audience in ([], 5, ["a", 5]):
        with pytest.raises(SettingsError, match=r"z\.audience: expected text, or a list of texts"):
            load_settings(environ={"FLOECAT_AUTH_ISSUERS": json.dumps({"z": {"audience": audience}})})
    for name in ("A", "a/b", "", "a.b", "é"):
        with pytest.raises(SettingsError, match="is no name of lower-case letters"):
            issuers(Settings(auth=AuthSettings(issuers={name: same})))
