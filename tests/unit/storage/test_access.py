from __future__ import annotations

import pickle

import pytest

from floecat.fileio.options import AdlsOptions, GcsOptions, ObjectStoreOptions
from floecat.storage.access import StorageAccess, stores


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "GOOGLE_BASE_URL"):
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
    found = [
        stores(ObjectStoreOptions(endpoint=endpoint, path_style_access=True)) for endpoint in (first, second)
    ]
    assert (found[0] == found[1]) is same


def test_keys_and_regions_do_not_tell_services_apart() -> None:
    one = ObjectStoreOptions(region="a", access_key_id="x", secret_access_key="y")
    assert stores(one) == stores(ObjectStoreOptions(region="b"))


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_the_environment_names_the_endpoint_too(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "http://minio:9000")
    assert stores(ObjectStoreOptions()) == stores(ObjectStoreOptions(endpoint="http://minio:9000"))


def test_each_cloud_has_an_endpoint_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = "http://emulator:10000"
    google = stores(ObjectStoreOptions(gcs=GcsOptions(endpoint=endpoint)))
    azure = stores(ObjectStoreOptions(adls=AdlsOptions(endpoint=endpoint)))
    assert [google.of(scheme) != "" for scheme in ("s3", "gs", "abfss", "file")] == [
        False,
        True,
        False,
        False,
    ]
    assert [azure.of(scheme) != "" for scheme in ("s3", "gs", "abfss", "file")] == [False, False, True, False]
    at_google = GcsOptions(endpoint="https://storage.googleapis.com", token="t")
    assert stores(ObjectStoreOptions(gcs=at_google)) == stores(ObjectStoreOptions())
    monkeypatch.setenv("GOOGLE_BASE_URL", endpoint)
    assert stores(ObjectStoreOptions()) == google


def test_the_opener_can_be_pickled() -> None:
    opened = pickle.loads(pickle.dumps(StorageAccess.of(ObjectStoreOptions(region="r")).opener))()
    assert not opened.exists("/nowhere/at/all")
