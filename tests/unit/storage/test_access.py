from __future__ import annotations

import pickle

import pytest

from floecat.fileio.buckets import ObjectStoreOptions
from floecat.storage.access import StorageAccess, s3_client_config, s3_store


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (None, "https://s3.eu-west-1.amazonaws.com", True),
        (None, "https://s3.cn-north-1.amazonaws.com.cn", True),
        (None, "https://amazonaws.com.example.org", False),
        ("http://minio:9000", "http://MINIO:9000/", True),
        ("http://minio:9000", "http://minio:9001", False),
        ("http://minio:9000", "http://other:9000", False),
        ("http://minio", "https://minio:443", True),
        ("http://localhost:9000", "http://127.0.0.1:9000", True),
        ("http://[::1]:9000", "http://localhost:9000", True),
        ("http://proxy/one", "http://proxy/two", False),
    ],
)
def test_an_endpoint_identifies_the_service(first: str | None, second: str, same: bool) -> None:
    stores = [
        s3_store(ObjectStoreOptions(endpoint=endpoint, path_style_access=True))
        for endpoint in (first, second)
    ]
    assert (stores[0] == stores[1]) is same


def test_keys_and_regions_do_not_tell_services_apart() -> None:
    one = ObjectStoreOptions(region="a", access_key_id="x", secret_access_key="y")
    assert s3_store(one) == s3_store(ObjectStoreOptions(region="b"))


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_the_environment_names_the_endpoint_too(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "http://minio:9000")
    assert s3_store(ObjectStoreOptions()) == s3_store(ObjectStoreOptions(endpoint="http://minio:9000"))


def test_clients_are_told_where_storage_is_and_never_the_keys() -> None:
    options = ObjectStoreOptions(
        region="r", endpoint="http://e", access_key_id="k", secret_access_key="s", session_token="t"
    )
    assert s3_client_config(options) == {
        "s3.endpoint": "http://e",
        "s3.region": "r",
        "client.region": "r",
        "s3.path-style-access": "false",
    }
    assert s3_client_config(ObjectStoreOptions(path_style_access=True)) == {"s3.path-style-access": "true"}


def test_the_opener_can_be_pickled() -> None:
    opened = pickle.loads(pickle.dumps(StorageAccess.of(ObjectStoreOptions(region="r")).opener))()
    assert not opened.exists("/nowhere/at/all")
