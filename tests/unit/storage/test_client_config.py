from __future__ import annotations

from typing import Any

import pytest

from floecat.fileio.options import AdlsOptions, GcsOptions, ObjectStoreOptions
from floecat.storage.client_config import ClientConfig

AZURITE = AdlsOptions(endpoint="http://azurite:10000/", account_key="the-secret")


@pytest.mark.parametrize(
    ("options", "location", "told"),
    [
        (
            {
                "region": "r",
                "endpoint": "http://e",
                "access_key_id": "the-secret",
                "secret_access_key": "the-secret",
                "session_token": "the-secret",
            },
            "s3://b/t",
            {
                "s3.endpoint": "http://e",
                "s3.region": "r",
                "client.region": "r",
                "s3.path-style-access": "false",
            },
        ),
        ({"path_style_access": True}, "s3a://b/t", {"s3.path-style-access": "true"}),
        ({"region": "r"}, "file:///b/t", {}),
        ({}, "gs://b/t", {}),
        (
            {"gcs": GcsOptions(project_id="p", endpoint="http://e", service_account_key="the-secret")},
            "gs://b/t",
            {"gcs.project-id": "p", "gcs.service.host": "http://e"},
        ),
        (
            {"adls": AdlsOptions(sas_token="the-secret")},
            "abfss://c@lake.dfs.core.windows.net/t",
            {"adls.account-name": "lake"},
        ),
        (
            {},
            "wasbs://c@lake.blob.core.chinacloudapi.cn/t",
            {
                "adls.account-name": "lake",
                "adls.account-host": "lake.blob.core.chinacloudapi.cn",
                "adls.blob-storage-authority": ".blob.core.chinacloudapi.cn",
                "adls.dfs-storage-authority": ".dfs.core.chinacloudapi.cn",
            },
        ),
        (
            {"adls": AZURITE},
            "abfss://c@lake.dfs.core.windows.net/t",
            {
                "adls.account-name": "lake",
                "adls.connection-string.lake.dfs.core.windows.net": "http://azurite:10000/lake",
                "adls.blob-storage-authority": "azurite:10000",
                "adls.blob-storage-scheme": "http",
                "adls.dfs-storage-authority": "azurite:10000",
                "adls.dfs-storage-scheme": "http",
            },
        ),
    ],
)
def test_clients_are_told_where_storage_is_and_never_the_keys(
    options: dict[str, Any], location: str, told: dict[str, str]
) -> None:
    assert ClientConfig(ObjectStoreOptions(**options)).of(location) == told
