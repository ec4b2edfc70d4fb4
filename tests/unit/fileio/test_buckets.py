from __future__ import annotations

from typing import Any

import pytest

from floecat.errors import SettingsError, StorageUnavailableError
from floecat.fileio.buckets import Buckets, ObjectStoreOptions
from floecat.fileio.locations import normalize_location
from floecat.fileio.opening import open_fileio

SECRETS: dict[str, Any] = {
    "access_key_id": "the-key",
    "secret_access_key": "the-secret",
    "session_token": "the-token",
}


def test_secrets_do_not_show() -> None:
    options = ObjectStoreOptions(**SECRETS, endpoint="http://s3.example.org:9")
    for text in (repr(options), str(options), f"{options}", repr([options])):
        assert "the-key" in text
        assert "the-secret" not in text
        assert "the-token" not in text


@pytest.mark.parametrize(
    "values",
    [
        {"access_key_id": "k"},
        {"secret_access_key": "s"},
        {"session_token": "t"},
        {"connect_timeout_s": 0},
        {"request_timeout_s": -1},
        {"answer_timeout_s": 0},
        {"max_retries": -1},
        {"endpoint": "s3.example.org"},
        {"endpoint": "http://"},
        {"endpoint": "http://s3.example.org:port"},
        {"endpoint": "http://[::1"},
        {"endpoint": "http://127.0.0.1:9"},
        {"endpoint": "http://[::1]:9"},
    ],
)
def test_what_cannot_work_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as raised:
        ObjectStoreOptions(**values)
    assert "'s'" not in raised.value.message


@pytest.mark.parametrize(
    ("options", "endpoint"),
    [
        ({"endpoint": "http://127.0.0.1:9/", "path_style_access": True}, "http://127.0.0.1:9"),
        ({"endpoint": "https://s3.example.org"}, "https://bucket.s3.example.org"),
        ({}, None),
    ],
)
def test_the_bucket_is_in_the_path_or_in_the_host_name(options: dict[str, Any], endpoint: str | None) -> None:
    client = Buckets(ObjectStoreOptions(region="eu-west-1", **options)).get(
        normalize_location("s3://bucket/k")
    )
    config = dict(client.config)
    assert config["region"] == "eu-west-1"
    assert config.get("endpoint") == endpoint
    assert (
        str(config["virtual_hosted_style_request"]).lower() == str("path_style_access" not in options).lower()
    )


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "nonsense", "http://s3.example.org:port"])
def test_an_endpoint_of_the_environment_that_cannot_work_is_refused_with_the_first_use(
    monkeypatch: pytest.MonkeyPatch, variable: str, endpoint: str
) -> None:
    monkeypatch.setenv(variable, endpoint)
    files = open_fileio()
    with pytest.raises(StorageUnavailableError, match="in the environment: An S3 endpoint"):
        files.read("s3://bucket/k")


def test_an_endpoint_of_the_environment_is_used_as_one_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://s3.example.org:9")
    location = normalize_location("s3://bucket/k")
    assert (
        dict(Buckets(ObjectStoreOptions()).get(location).config)["endpoint"]
        == "http://bucket.s3.example.org:9"
    )
    by_path = Buckets(ObjectStoreOptions(path_style_access=True)).get(location)
    assert dict(by_path.config)["endpoint"] == "http://s3.example.org:9"


def test_a_client_is_made_once_for_each_bucket() -> None:
    buckets = Buckets(ObjectStoreOptions())
    one = buckets.get(normalize_location("s3://one/a"))
    assert buckets.get(normalize_location("s3a://one/b")) is one
    assert buckets.get(normalize_location("s3://other/a")) is not one
    assert buckets.get(normalize_location("s3://one/a"), retrying=False) is not one


def test_settings_of_the_environment_that_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", "the-secret that is no JSON")
    with pytest.raises(StorageUnavailableError, match="gs://bucket is not configured right") as raised:
        open_fileio().exists("gs://bucket/key")
    assert "the-secret" not in raised.value.message
