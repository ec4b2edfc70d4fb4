"""Shared access signatures of Azure: what they say, and what is asked for, of whom."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import parse_qs
from uuid import UUID

import pytest

from floecat.credentials.authorities import AdlsMethod, StorageAuthority
from floecat.credentials.azure_keys import AzureKeyMaker
from floecat.credentials.keys import AuthorityError, KeyScope
from floecat.credentials.posts import Poster
from floecat.errors import BadRequestError
from floecat.fileio.locations import normalize_location
from floecat.fileio.options import AdlsOptions
from tests.services.cloud_services import CloudService

HOST = "lakehouse.dfs.core.windows.net"
CONTAINER = f"abfss://data@{HOST}"
# 2026-11-30T10:00:00Z
NOW_MS = 1_796_032_800_000
KEY = base64.b64encode(b"a" * 32).decode()
DELEGATED = f"""<?xml version="1.0" encoding="utf-8"?><UserDelegationKey><SignedOid>oid-1</SignedOid>\
<SignedTid>tid-1</SignedTid><SignedStart>2026-11-30T10:00:00Z</SignedStart>\
<SignedExpiry>2026-11-30T11:00:00Z</SignedExpiry><SignedService>b</SignedService>\
<SignedVersion>2020-12-06</SignedVersion><Value>{KEY}</Value></UserDelegationKey>"""


class Clock:
    def now_ms(self) -> int:
        return NOW_MS


def authority(**method: object) -> StorageAuthority:
    made = AdlsMethod(**method)  # type: ignore[arg-type]
    return StorageAuthority(
        UUID(int=1), UUID(int=2), "lake", normalize_location(CONTAINER), made, True, None, 1, 0, 0
    )


def scope(*locations: str, may_write: bool = False) -> KeyScope:
    return KeyScope(tuple(map(normalize_location, locations)), may_write)


def maker(poster: Poster, **service: str) -> AzureKeyMaker:
    return AzureKeyMaker(poster, AdlsOptions(**service), Clock())


# The signatures are those of `BlobSharedAccessSignature` of azure-storage-blob 12.24 for the same values.
@pytest.mark.parametrize(
    ("may_write", "location", "signature"),
    [
        (False, CONTAINER, "OV35LA4+wX8HWNfwmwUJFmc4P5YXDo3QRbvvi6WqbmQ="),
        (False, f"{CONTAINER}/wh/t 1/é", "ejttEu69SklCxjpbNQNaWDyvmiDRx+q1X54vzUWss+4="),
        (True, CONTAINER, "65rgMVZvjJTnJI05L78Gu1YgXU3GnohpxZVygs3Viqs="),
        (True, f"{CONTAINER}/wh/t 1/é", "6fQDgWm0es9KOMZY1ofXlbJZk9/yDB0wu5y+VnO+XhA="),
    ],
)
def test_a_signature_with_the_key_of_the_account(
    poster: Poster, may_write: bool, location: str, signature: str
) -> None:
    for made, secrets, service in (
        (authority(), {"account-key": KEY}, {}),
        (authority(keys_of="service"), {}, {"account_key": KEY}),
    ):
        keys = maker(poster, **service).make(made, secrets, scope(location, may_write=may_write))
        folder = {"sr": ["d"], "sdd": ["3"]} if location != CONTAINER else {"sr": ["c"]}
        assert parse_qs(keys.config["adls.sas-token"], strict_parsing=True) == {
            "sp": ["racwdl" if may_write else "rl"],
            "se": ["2026-11-30T11:00:00Z"],
            "spr": ["https"],
            "sv": ["2020-12-06"],
            "sig": [signature],
            **folder,
        }


@pytest.mark.parametrize(
    ("may_write", "location", "signature"),
    [
        (False, CONTAINER, "7srfZy/2qp0B6gqDJ1CA8GRGApDqcarkP+MTB/J61yk="),
        (False, f"{CONTAINER}/wh/t 1/é", "0dI7iLkIFVCB0VcFL6vJytK25JvTs3Rah6sutIRGYkQ="),
        (True, CONTAINER, "C3ssMcbKH12J8uEr7Qj3KzWWuDtJpffy/TgPQ/4aniY="),
        (True, f"{CONTAINER}/wh/t 1/é", "K6apZ3IoaSCHsx0W0m+VQNsVFObiXxqAJJoiEonwZNw="),
    ],
)
def test_a_signature_by_user_delegation(
    cloud: CloudService, poster: Poster, may_write: bool, location: str, signature: str
) -> None:
    cloud.answers["/ten%2Fant/oauth2/v2.0/token"] = 200, {"access_token": "of-the-principal"}
    cloud.answers["/lakehouse/"] = 200, DELEGATED
    made = authority(tenant_id="ten/ant", client_id="app", login_endpoint=f"{cloud.url}/", endpoint=cloud.url)
    keys = maker(poster).make(made, {"client-secret": "hush & more"}, scope(location, may_write=may_write))
    login, delegation = cloud.asked
    assert login.form == {
        "grant_type": "client_credentials",
        "client_id": "app",
        "client_secret": "hush & more",
        "scope": "https://storage.azure.com/.default",
    }
    assert delegation.method == "POST"
    assert delegation.query == {"restype": ["service"], "comp": ["userdelegationkey"]}
    assert delegation.headers["authorization"] == "Bearer of-the-principal"
    assert delegation.headers["x-ms-version"] == "2020-12-06"
    # a clock that is ahead asks for no key of the future
    assert delegation.body == (
        "<KeyInfo><Start>2026-11-30T09:45:00Z</Start><Expiry>2026-11-30T11:00:00Z</Expiry></KeyInfo>"
    )
    found = parse_qs(keys.config["adls.sas-token"], strict_parsing=True)
    assert (found.pop("skoid"), found.pop("sktid"), found.pop("sks"), found.pop("skv")) == (
        ["oid-1"],
        ["tid-1"],
        ["b"],
        ["2020-12-06"],
    )
    assert (found.pop("skt"), found.pop("ske")) == (["2026-11-30T10:00:00Z"], ["2026-11-30T11:00:00Z"])
    # the endpoint has no TLS, and the signature lets that in
    assert (found["spr"], found["sig"]) == (["https,http"], [signature])


def test_every_client_finds_its_name_of_the_key(poster: Poster) -> None:
    keys = maker(poster).make(authority(duration_s=900), {"account-key": KEY}, scope(f"{CONTAINER}/t1"))
    sas = keys.config["adls.sas-token"]
    until = str(NOW_MS + 900_000)
    assert keys.expires_at_ms == NOW_MS + 900_000
    assert keys.config == {
        "adls.sas-token": sas,
        f"adls.sas-token.{HOST}": sas,
        f"adls.sas-token-expires-at-ms.{HOST}": until,
        "adls.sas-token.lakehouse": sas,
        "adls.sas-token-expires-at-ms.lakehouse": until,
    }


def test_without_a_hierarchy_a_key_opens_the_container(poster: Poster) -> None:
    made = authority(hierarchical=False)
    keys = maker(poster).make(made, {"account-key": KEY}, scope(f"{CONTAINER}/t1", f"{CONTAINER}/t2"))
    assert "sr=c&" in keys.config["adls.sas-token"]
    assert "sdd" not in keys.config["adls.sas-token"]


@pytest.mark.parametrize(
    ("hierarchical", "other"), [(True, f"{CONTAINER}/t2"), (False, f"abfss://other@{HOST}/t1")]
)
def test_a_key_is_for_one_directory_or_container(poster: Poster, hierarchical: bool, other: str) -> None:
    with pytest.raises(BadRequestError, match="opens one directory or container"):
        maker(poster).make(
            authority(hierarchical=hierarchical), {"account-key": KEY}, scope(f"{CONTAINER}/t1", other)
        )


PROOFS = {
    "client_secret": {"client_secret": "hush"},
    "file": {
        "client_assertion": "signed",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    },
}


@pytest.mark.parametrize("source", ["settings", "client_secret", "file"])
def test_the_service_is_a_principal(
    cloud: CloudService, poster: Poster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    for name in ("AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    cloud.answers["/tenant/oauth2/v2.0/token"] = 200, {"access_token": "of-the-service"}
    cloud.answers["/lakehouse/"] = 200, DELEGATED
    service = {}
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", cloud.url)
    if source == "settings":
        service = {"tenant_id": "tenant", "client_id": "app", "client_secret": "hush"}
    else:
        monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
        monkeypatch.setenv("AZURE_CLIENT_ID", "app")
        file = tmp_path / "token"
        file.write_text("signed\n")
        name = "AZURE_CLIENT_SECRET" if source == "client_secret" else "AZURE_FEDERATED_TOKEN_FILE"
        monkeypatch.setenv(name, "hush" if source == "client_secret" else str(file))
    made = authority(keys_of="service", endpoint=cloud.url)
    keys = maker(poster, **service).make(made, {}, scope(f"{CONTAINER}/t1"))
    assert "skoid=oid-1" in keys.config["adls.sas-token"]
    assert PROOFS.get(source, PROOFS["client_secret"]).items() <= cloud.asked[0].form.items()
    assert cloud.asked[1].headers["authorization"] == "Bearer of-the-service"


def test_the_service_runs_at_azure(
    cloud: CloudService, poster: Poster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", cloud.url)
    monkeypatch.setenv("AZURE_CLIENT_ID", "of-the-user")
    cloud.answers["/metadata/identity/oauth2/token"] = 200, {"access_token": "m", "expires_in": "86399"}
    cloud.answers["/lakehouse/"] = 200, DELEGATED
    maker(poster).make(authority(keys_of="service", endpoint=cloud.url), {}, scope(f"{CONTAINER}/t1"))
    asked = cloud.asked[0]
    assert (asked.method, asked.headers["metadata"]) == ("GET", "true")
    assert asked.query == {
        "api-version": ["2018-02-01"],
        "resource": ["https://storage.azure.com/"],
        "client_id": ["of-the-user"],
    }


def test_what_the_service_has_may_make_no_keys(poster: Poster) -> None:
    with pytest.raises(AuthorityError, match="a shared access signature, which makes no keys"):
        maker(poster, sas_token="sv=1").make(authority(keys_of="service"), {}, scope(f"{CONTAINER}/t1"))


def test_a_token_goes_to_no_other_host_than_azure(cloud: CloudService, poster: Poster) -> None:
    cloud.answers["/tenant/oauth2/v2.0/token"] = 200, {"access_token": "of-the-principal"}
    made = authority(tenant_id="tenant", client_id="app", login_endpoint=cloud.url)
    foreign = scope("abfss://data@lakehouse.dfs.storage.example/t1")
    with pytest.raises(AuthorityError, match=r"storage\.example is no domain of Azure"):
        maker(poster).make(made, {"client-secret": "hush"}, foreign)
    assert not cloud.asked


@pytest.mark.parametrize(
    ("path", "answer", "message"),
    [
        (
            "/tenant/oauth2/v2.0/token",
            (401, {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid"}),
            r"refuses \(status 401, invalid_client, AADSTS7000215: Invalid\)",
        ),
        ("/tenant/oauth2/v2.0/token", (200, {"access_token": 1}), "holds no token"),
        (
            "/lakehouse/",
            (403, "<Error><Code>AuthorizationPermissionMismatch</Code><Message>This</Message></Error>"),
            r"refuses \(status 403, AuthorizationPermissionMismatch\)",
        ),
        ("/lakehouse/", (200, "<UserDelegationKey/>"), "holds no user delegation key"),
        ("/lakehouse/", (200, DELEGATED.replace(KEY, "?")), "not Base64"),
    ],
)
def test_a_refusal_names_the_authority(
    cloud: CloudService, poster: Poster, path: str, answer: tuple[int, object], message: str
) -> None:
    cloud.answers["/tenant/oauth2/v2.0/token"] = 200, {"access_token": "of-the-principal"}
    cloud.answers["/lakehouse/"] = 200, DELEGATED
    cloud.answers[path] = answer
    made = authority(tenant_id="tenant", client_id="app", login_endpoint=cloud.url, endpoint=cloud.url)
    with pytest.raises(AuthorityError, match=f"Storage authority lake makes no keys: .*{message}") as caught:
        maker(poster).make(made, {"client-secret": "hush"}, scope(f"{CONTAINER}/t1"))
    assert "hush" not in str(caught.value)
    assert "of-the-principal" not in str(caught.value)
