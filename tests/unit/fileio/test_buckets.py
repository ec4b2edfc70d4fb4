from __future__ import annotations

from typing import Any

import pytest

from floecat.errors import StorageUnavailableError
from floecat.fileio.buckets import Buckets
from floecat.fileio.locations import normalize_location
from floecat.fileio.opening import open_fileio
from floecat.fileio.options import AdlsOptions, GcsOptions, ObjectStoreOptions


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


def test_clouds_take_their_own_credentials_and_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "of-the-environment")
    monkeypatch.setenv("AZURE_CREDENTIAL_TYPE", "sas_token")
    buckets = Buckets(
        ObjectStoreOptions(
            gcs=GcsOptions(endpoint="http://gcs:4443", token="t"),
            adls=AdlsOptions(endpoint="http://azurite:10000", account_key="c2VjcmV0"),
        )
    )
    google = dict(buckets.get(normalize_location("gs://bucket/a")).config)
    azure = dict(buckets.get(normalize_location("abfss://c@lake.dfs.core.windows.net/a")).config)
    assert google["base_url"] == "http://gcs:4443"
    assert (azure["endpoint"], azure["credential_type"]) == ("http://azurite:10000/lake", "access_key")


def test_clouds_are_reached_at_their_own_addresses_by_default() -> None:
    buckets = Buckets(ObjectStoreOptions(gcs=GcsOptions(token="t"), adls=AdlsOptions(account_key="c2VjcmV0")))
    china = buckets.get(normalize_location("wasbs://c@lake.blob.core.chinacloudapi.cn/a"))
    assert dict(china.config)["endpoint"] == "https://lake.blob.core.chinacloudapi.cn"
