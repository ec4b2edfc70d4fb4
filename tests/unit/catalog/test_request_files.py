from __future__ import annotations

import pytest

from floecat.catalog.request_files import RequestFiles
from floecat.errors import BadRequestError
from floecat.fileio.options import ObjectStoreOptions

OWN = ObjectStoreOptions(
    endpoint="http://own:9000", access_key_id="own", secret_access_key="own-secret", path_style_access=True
)


def test_properties_that_do_not_concern_storage_open_nothing() -> None:
    assert RequestFiles(enabled=False).open(OWN, {"owner": "me", "comment": "s3"}) is None


def test_storage_properties_are_refused_when_turned_off() -> None:
    with pytest.raises(BadRequestError, match=r"floecat\.gateway\.register-storage-properties"):
        RequestFiles(enabled=False).open(OWN, {"s3.region": "eu-west-1"})


def test_an_unknown_storage_property_is_named() -> None:
    with pytest.raises(BadRequestError, match=r"Unknown storage property: hadoop\.x"):
        RequestFiles(enabled=True).open(OWN, {"hadoop.x": "1", "s3.region": "r"})


def test_an_endpoint_never_gets_the_keys_of_the_catalog() -> None:
    with pytest.raises(BadRequestError, match=r"s3\.endpoint needs s3\.access-key-id"):
        RequestFiles(enabled=True).open(OWN, {"s3.endpoint": "http://elsewhere:9000"})


def test_a_key_without_its_secret_takes_no_secret_from_the_catalog() -> None:
    with pytest.raises(BadRequestError):
        RequestFiles(enabled=True).open(OWN, {"s3.access-key-id": "theirs"})


def test_a_malformed_flag_is_refused() -> None:
    with pytest.raises(BadRequestError, match="must be true or false"):
        RequestFiles(enabled=True).open(OWN, {"s3.path-style-access": "perhaps"})


def test_complete_access_opens_storage() -> None:
    given = {
        "s3.endpoint": "http://elsewhere:9000",
        "s3.access-key-id": "theirs",
        "s3.secret-access-key": "their-secret",
        "client.region": "eu-west-1",
    }
    assert RequestFiles(enabled=True).open(OWN, given) is not None
