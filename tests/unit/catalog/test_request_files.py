from __future__ import annotations

import re

import pytest

from floecat.catalog.request_files import RequestFiles
from floecat.errors import BadRequestError
from floecat.fileio.options import AdlsOptions, GcsOptions, ObjectStoreOptions

OWN = ObjectStoreOptions(
    endpoint="http://own:9000",
    access_key_id="own",
    secret_access_key="own-secret",
    path_style_access=True,
    gcs=GcsOptions(service_account_file="/own.json"),
    adls=AdlsOptions(tenant_id="own", client_id="own", client_secret="own-secret"),
)
FILE = "s3://lake/t/metadata/1.metadata.json"
ON_GOOGLE = "gs://lake/t/metadata/1.metadata.json"
HOST = "theirs.dfs.core.windows.net"
ON_AZURE = f"abfss://lake@{HOST}/t/metadata/1.metadata.json"


def test_properties_that_do_not_concern_storage_open_nothing() -> None:
    assert RequestFiles(enabled=False).open(OWN, FILE, {"owner": "me", "comment": "s3"}) is None


def test_storage_properties_are_refused_when_turned_off() -> None:
    with pytest.raises(BadRequestError, match=r"floecat\.gateway\.register-storage-properties"):
        RequestFiles(enabled=False).open(OWN, FILE, {"s3.region": "eu-west-1"})


def test_an_unknown_storage_property_is_named() -> None:
    with pytest.raises(BadRequestError, match=r"Unknown storage property: hadoop\.x"):
        RequestFiles(enabled=True).open(OWN, FILE, {"hadoop.x": "1", "s3.region": "r"})


@pytest.mark.parametrize(
    ("location", "given"),
    [
        (FILE, {"s3.endpoint": "http://elsewhere:9000"}),
        (ON_GOOGLE, {"gcs.service.host": "http://elsewhere:9000", "gcs.project-id": "p"}),
        (ON_AZURE, {f"adls.connection-string.{HOST}": "http://elsewhere:9000/theirs"}),
    ],
)
def test_an_endpoint_never_gets_the_keys_of_the_catalog(location: str, given: dict[str, str]) -> None:
    with pytest.raises(BadRequestError, match=f"{re.escape(next(iter(given)))} needs credentials beside it"):
        RequestFiles(enabled=True).open(OWN, location, given)


@pytest.mark.parametrize(
    "given",
    [
        {"adls.client-id": "theirs"},
        {"adls.account-key": "a2V5", "adls.sas-token": "sig=x"},
        {f"adls.connection-string.{HOST}": "http://elsewhere:9000/other", "adls.account-key": "a2V5"},
        {f"adls.connection-string.{HOST}": "elsewhere/theirs", "adls.account-key": "a2V5"},
        {"adls.sas-token.other.dfs.core.windows.net": "sig=x"},
    ],
)
def test_access_to_azure_that_is_incomplete_or_ambiguous_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(BadRequestError):
        RequestFiles(enabled=True).open(OWN, ON_AZURE, given)


def test_a_key_without_its_secret_takes_no_secret_from_the_catalog() -> None:
    with pytest.raises(BadRequestError):
        RequestFiles(enabled=True).open(OWN, FILE, {"s3.access-key-id": "theirs"})


@pytest.mark.parametrize("value", ["", "their key", "their-key\r\nhost: elsewhere", "ключ"])
@pytest.mark.parametrize(
    "name", ["s3.session-token", "gcs.oauth2.token", "adls.tenant-id", "adls.client-secret"]
)
def test_a_value_that_no_request_can_carry_is_refused(name: str, value: str) -> None:
    # an empty one beside an endpoint would have had the machine's own access sent there
    with pytest.raises(BadRequestError, match=f"{re.escape(name)}: it is empty or has invalid characters"):
        RequestFiles(enabled=True).open(OWN, ON_AZURE, {name: value})


def test_a_tenant_is_no_path() -> None:
    given = {"adls.tenant-id": "a/../b", "adls.client-id": "theirs", "adls.client-secret": "theirs"}
    with pytest.raises(BadRequestError, match=r"adls\.tenant-id"):
        RequestFiles(enabled=True).open(OWN, ON_AZURE, given)


def test_a_malformed_flag_is_refused() -> None:
    with pytest.raises(BadRequestError, match="must be true or false"):
        RequestFiles(enabled=True).open(OWN, FILE, {"s3.path-style-access": "perhaps"})


def test_complete_access_opens_storage() -> None:
    given = {
        "s3.endpoint": "http://elsewhere:9000",
        "s3.access-key-id": "theirs",
        "s3.secret-access-key": "their-secret",
        "client.region": "eu-west-1",
    }
    assert RequestFiles(enabled=True).open(OWN, FILE, given) is not None
