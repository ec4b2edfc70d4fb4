"""Tokens of Google: what is asked for, of whom, and what comes of refusals."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote
from uuid import UUID

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from floecat.credentials.authorities import GcsMethod, StorageAuthority
from floecat.credentials.google_keys import GoogleKeyMaker
from floecat.credentials.keys import AuthorityError, KeyScope
from floecat.credentials.posts import Poster
from floecat.errors import BadRequestError
from floecat.fileio.locations import normalize_location
from floecat.fileio.options import GcsOptions
from tests.services.cloud_services import CloudService

NOW_MS = 1_800_000_000_000
KEY = RSAKey.generate_key(2048, auto_kid=True)
ACCOUNT = json.dumps(
    {
        "type": "service_account",
        "client_email": "lake@project.example",
        "private_key": KEY.as_pem(private=True).decode(),
        "private_key_id": "key-1",
        "token_uri": "http://127.0.0.1:1/not-asked",
    }
)
LISTED = "api.getAttribute('storage.googleapis.com/objectListPrefix', '')"


class Clock:
    def now_ms(self) -> int:
        return NOW_MS


def authority(cloud: CloudService, **method: object) -> StorageAuthority:
    made = GcsMethod(sts_endpoint=cloud.url, **method)  # type: ignore[arg-type]
    return StorageAuthority(
        UUID(int=1), UUID(int=2), "lake", normalize_location("gs://b/wh"), made, True, None, 1, 0, 0
    )


def scope(*locations: str, may_write: bool = False) -> KeyScope:
    return KeyScope(tuple(map(normalize_location, locations)), may_write)


def maker(poster: Poster, **service: str) -> GoogleKeyMaker:
    return GoogleKeyMaker(poster, GcsOptions(**service), Clock())


@pytest.fixture
def answering(cloud: CloudService) -> CloudService:
    cloud.answers["/token"] = 200, {"access_token": "source", "expires_in": 3599}
    cloud.answers["/v1/token"] = 200, {"access_token": "cut", "expires_in": 1800, "token_type": "Bearer"}
    return cloud


def test_a_token_of_the_service_account_is_cut_to_the_folders(
    answering: CloudService, poster: Poster
) -> None:
    keys = maker(poster).make(
        authority(answering),
        {"service-account-key": ACCOUNT},
        scope("gs://b/wh/t1", "gs://c", may_write=True),
    )
    assert keys.config == {
        "gcs.oauth2.token": "cut",
        "gcs.oauth2.token-expires-at": str(NOW_MS + 1_800_000),
    }
    assert keys.expires_at_ms == NOW_MS + 1_800_000
    signed, exchanged = answering.asked
    token = jwt.decode(signed.form["assertion"], KEY)
    assert signed.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert token.header["kid"] == "key-1"
    assert token.claims == {
        "iss": "lake@project.example",
        "scope": "https://www.googleapis.com/auth/cloud-platform",
        "aud": "https://oauth2.googleapis.com/token",
        "iat": NOW_MS // 1000,
        "exp": NOW_MS // 1000 + 3600,
    }
    # google-auth 2.63 sends these fields, and its options are encoded twice, too
    options = json.loads(unquote(exchanged.form["options"]))
    assert {name: value for name, value in exchanged.form.items() if name != "options"} == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "subject_token": "source",
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
    }
    assert options == {
        "accessBoundary": {
            "accessBoundaryRules": [
                {
                    "availableResource": "//storage.googleapis.com/projects/_/buckets/b",
                    "availablePermissions": ["inRole:roles/storage.objectUser"],
                    "availabilityCondition": {
                        "expression": 'resource.name.startsWith("projects/_/buckets/b/objects/wh/t1/") || '
                        f'{LISTED}.startsWith("wh/t1/")'
                    },
                },
                {
                    "availableResource": "//storage.googleapis.com/projects/_/buckets/c",
                    "availablePermissions": ["inRole:roles/storage.objectUser"],
                    "availabilityCondition": {
                        "expression": 'resource.name.startsWith("projects/_/buckets/c/objects/") || '
                        f'{LISTED}.startsWith("")'
                    },
                },
            ]
        }
    }


def test_readers_get_a_role_that_reads(answering: CloudService, poster: Poster) -> None:
    maker(poster).make(authority(answering), {"service-account-key": ACCOUNT}, scope("gs://b/wh/t1"))
    options = json.loads(unquote(answering.asked[1].form["options"]))
    (rule,) = options["accessBoundary"]["accessBoundaryRules"]
    assert rule["availablePermissions"] == ["inRole:roles/storage.objectViewer"]


def test_a_name_cannot_end_the_text_of_a_condition(answering: CloudService, poster: Poster) -> None:
    maker(poster).make(
        authority(answering), {"service-account-key": ACCOUNT}, scope("gs://b/wh/a\") || true || ('é😀*")
    )
    options = json.loads(unquote(answering.asked[1].form["options"]))
    (rule,) = options["accessBoundary"]["accessBoundaryRules"]
    assert (
        '"projects/_/buckets/b/objects/wh/a\\") || true || (\'é😀*/")'
        in rule["availabilityCondition"]["expression"]
    )


@pytest.mark.parametrize(
    "locations", [[f"gs://b{n}/t" for n in range(11)], [f"gs://b/t{n}" for n in range(7)]]
)
def test_what_does_not_fit_is_refused_by_name(
    cloud: CloudService, poster: Poster, locations: list[str]
) -> None:
    with pytest.raises(BadRequestError, match="10 buckets and 6 folders"):
        maker(poster).make(authority(cloud), {"service-account-key": ACCOUNT}, scope(*locations))
    assert not cloud.asked


def test_the_service_has_a_key(answering: CloudService, poster: Poster, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    file.write_text(ACCOUNT)
    for service in ({"service_account_key": ACCOUNT}, {"service_account_file": str(file)}):
        answering.asked.clear()
        maker(poster, **service).make(authority(answering, keys_of="service"), {}, scope("gs://b/wh/t1"))
        assert jwt.decode(answering.asked[0].form["assertion"], KEY).claims["iss"] == "lake@project.example"


def test_the_service_has_a_key_file_of_the_environment(
    answering: CloudService, poster: Poster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with pytest.raises(AuthorityError, match=r"key\.json cannot be read: No such file"):
        maker(poster).make(authority(answering, keys_of="service"), {}, scope("gs://b/wh/t1"))
    file.write_text(ACCOUNT)
    maker(poster).make(authority(answering, keys_of="service"), {}, scope("gs://b/wh/t1"))
    assert [each.path for each in answering.asked] == ["/token", "/v1/token"]


def test_the_service_runs_at_google(
    answering: CloudService, poster: Poster, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/computeMetadata/v1/instance/service-accounts/default/token"
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("GCE_METADATA_HOST", answering.url.removeprefix("http://"))
    answering.answers[path] = 200, {"access_token": "of-the-machine", "expires_in": 300}
    answering.answers["/v1/token"] = 200, {"access_token": "cut"}
    keys = maker(poster).make(authority(answering, keys_of="service"), {}, scope("gs://b/wh/t1"))
    assert keys.expires_at_ms == NOW_MS + 300_000, "as the token that was exchanged"
    assert answering.asked[0].headers["metadata-flavor"] == "Google"
    assert answering.asked[1].form["subject_token"] == "of-the-machine"


def test_the_service_has_a_token(answering: CloudService, poster: Poster) -> None:
    service = maker(poster, token="of-the-service")
    keys = service.make(authority(answering, keys_of="service"), {}, scope("gs://b/wh/t1"))
    assert keys.config["gcs.oauth2.token"] == "cut"
    answering.answers["/v1/token"] = 200, {"access_token": "cut"}
    with pytest.raises(AuthorityError, match="does not say when it ends"):
        service.make(authority(answering, keys_of="service"), {}, scope("gs://b/wh/t1"))


@pytest.mark.parametrize(
    ("path", "answer", "message"),
    [
        (
            "/token",
            (400, {"error": "invalid_grant", "error_description": "Bad"}),
            r"/token refuses \(status 400, invalid_grant, Bad\)",
        ),
        ("/v1/token", (403, "no"), r"/v1/token refuses \(status 403\)"),
        ("/v1/token", (200, {}), "holds no token"),
        ("/v1/token", (200, "[" * 100_000), "holds no token"),
        ("/v1/token", (307, ""), r"refuses \(status 307\)|redirect"),
        ("/v1/token", (200, "a" * (2 << 20)), "larger than"),
    ],
)
def test_a_refusal_names_the_authority(
    answering: CloudService, poster: Poster, path: str, answer: tuple[int, object], message: str
) -> None:
    answering.answers[path] = answer
    answering.answers["/elsewhere"] = 200, {"access_token": "not this", "expires_in": 1}
    with pytest.raises(AuthorityError, match=f"Storage authority lake makes no keys: .*{message}") as caught:
        maker(poster).make(authority(answering), {"service-account-key": ACCOUNT}, scope("gs://b/wh/t1"))
    assert "source" not in str(caught.value)
    assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize(
    "key", ["", "{", "{}", '{"type": "authorized_user"}', ACCOUNT.replace("BEGIN", "START")]
)
def test_what_is_no_key_is_named_and_not_shown(cloud: CloudService, poster: Poster, key: str) -> None:
    with pytest.raises(AuthorityError, match=r"not the JSON of a service account's key$"):
        maker(poster).make(authority(cloud), {"service-account-key": key}, scope("gs://b/wh/t1"))
    assert not cloud.asked


def test_a_service_that_is_away_is_named(poster: Poster) -> None:
    away = CloudService()
    away.url = "http://127.0.0.1:1"
    with pytest.raises(
        AuthorityError, match=r"http://127.0.0.1:1/token does not answer: the connection is refused"
    ):
        maker(poster).make(authority(away), {"service-account-key": ACCOUNT}, scope("gs://b/wh/t1"))
