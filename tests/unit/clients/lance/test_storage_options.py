from __future__ import annotations

import pytest

from floecat.clients.lance.storage_options import storage_options
from floecat.clients.lance.wire import LoadTableResult, StorageCredential, decode

TABLE = b'{"metadata": {"location": "s3://lake/a/t", "properties": {"owner": "me"}}}'
KEYS = {"s3.access-key-id": "id", "s3.secret-access-key": "key", "s3.session-token": "session"}
IN_LANCE = {"aws_access_key_id": "id", "aws_secret_access_key": "key", "aws_session_token": "session"}


def loaded(config: dict[str, str] | None = None, *credentials: StorageCredential) -> LoadTableResult:
    table = decode(TABLE, LoadTableResult)
    table.config, table.storage_credentials = config, list(credentials) or None
    return table


def test_properties_are_options_where_nothing_is_vended():
    found = storage_options(loaded(), {"aws_region": "eu", "owner": "me"})
    assert found == {"aws_region": "eu", "owner": "me"}


def test_where_the_storage_is_comes_with_the_properties():
    config = {
        "s3.endpoint": "http://127.0.0.1:8333",
        "s3.region": "eu",
        "s3.path-style-access": "true",
        "x": "y",
    }
    assert storage_options(loaded(config), {"owner": "me"}) == {
        "aws_endpoint": "http://127.0.0.1:8333",
        "aws_region": "eu",
        "allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
        "owner": "me",
    }


def test_a_property_does_not_replace_what_the_catalog_says():
    found = storage_options(
        loaded({"s3.endpoint": "https://s3.example"}), {"aws_endpoint": "https://evil.example"}
    )
    assert found == {"aws_endpoint": "https://s3.example"}


def test_the_region_of_s3_is_the_one_that_counts():
    config = {"s3.region": "eu", "client.region": "us"}
    assert storage_options(loaded(config), {}) == {"aws_region": "eu"}


def test_credentials_of_the_longest_prefix_replace_the_properties():
    found = storage_options(
        loaded(
            {"s3.region": "eu"},
            StorageCredential("s3://lake", {"s3.access-key-id": "wide", "s3.secret-access-key": "wide"}),
            StorageCredential("s3://lake/a/t", {**KEYS, "s3.session-token-expires-at-ms": "1700000000000"}),
            StorageCredential("s3://lake/a/t/deeper/than/this", {"s3.secret-access-key": "deep"}),
        ),
        {"owner": "me"},
    )
    assert found == {**IN_LANCE, "aws_region": "eu", "expires_at_millis": "1700000000000"}


def test_credentials_in_the_config_count_too():
    assert storage_options(loaded(KEYS), {"owner": "me"}) == IN_LANCE


def test_credentials_of_another_place_are_not_used():
    elsewhere = StorageCredential("s3://other", KEYS)
    assert storage_options(loaded(None, elsewhere), {"owner": "me"}) == {"owner": "me"}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"gcs.oauth2.token": "t", "gcs.oauth2.token-expires-at": "5"},
            {"google_storage_token": "t", "expires_at_millis": "5"},
        ),
        (
            {
                "adls.sas-token.lake.dfs.core.windows.net": "t",
                "adls.sas-token-expires-at-ms.lake.dfs.core.windows.net": "5",
            },
            {
                "azure_storage_sas_token": "t",
                "azure_storage_account_name": "lake",
                "expires_at_millis": "5",
            },
        ),
    ],
)
def test_other_clouds(config: dict[str, str], expected: dict[str, str]):
    assert storage_options(loaded(config), {"owner": "me"}) == expected
