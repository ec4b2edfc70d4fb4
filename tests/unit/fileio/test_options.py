from __future__ import annotations

from typing import Any

import pytest

from floecat.errors import SettingsError
from floecat.fileio.options import AdlsOptions, GcsOptions, ObjectStoreOptions

PRINCIPAL: dict[str, Any] = {"tenant_id": "t", "client_id": "c", "client_secret": "the-secret"}
SECRETS: dict[str, Any] = {
    "access_key_id": "the-key",
    "secret_access_key": "the-secret",
    "session_token": "the-token",
}


@pytest.mark.parametrize(
    "options",
    [
        ObjectStoreOptions(**SECRETS, endpoint="http://s3.example.org:9"),
        ObjectStoreOptions(gcs=GcsOptions(service_account_key="the-secret"), adls=AdlsOptions(**PRINCIPAL)),
        ObjectStoreOptions(gcs=GcsOptions(token="the-token"), adls=AdlsOptions(account_key="the-secret")),
        ObjectStoreOptions(adls=AdlsOptions(sas_token="the-token")),
    ],
)
def test_secrets_do_not_show(options: ObjectStoreOptions) -> None:
    for text in (repr(options), str(options), f"{options}", repr([options])):
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
        {"endpoint": "http://s3.example.org/{path}"},
        {"endpoint": "http://s3%.example.org"},
        {"endpoint": "http://s3.example.org\n"},
        {"endpoint": "http://127.0.0.1:9"},
        {"endpoint": "http://[::1]:9"},
    ],
)
def test_what_cannot_work_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as raised:
        ObjectStoreOptions(**values)
    assert "'s'" not in raised.value.message


@pytest.mark.parametrize(
    ("kind", "values", "reason"),
    [
        (GcsOptions, {"endpoint": "gcs:4443"}, "A GCS endpoint must be a URL"),
        (GcsOptions, {"token": "s", "service_account_file": "f"}, "takes one of"),
        (GcsOptions, {"service_account_key": "s", "service_account_file": "f"}, "takes one of"),
        (AdlsOptions, {"endpoint": "azurite"}, "An ADLS endpoint must be a URL"),
        (AdlsOptions, {"account_key": "s", "sas_token": "s"}, "takes one of"),
        (AdlsOptions, {"account_key": "s", **PRINCIPAL}, "takes one of"),
        (AdlsOptions, {"client_secret": "s"}, "needs a tenant id"),
        (AdlsOptions, {"tenant_id": "s", "client_id": "s"}, "needs a tenant id"),
    ],
)
def test_contradictions_of_other_clouds_are_refused(
    kind: type[GcsOptions | AdlsOptions], values: dict[str, Any], reason: str
) -> None:
    with pytest.raises(SettingsError, match=reason):
        kind(**values)
