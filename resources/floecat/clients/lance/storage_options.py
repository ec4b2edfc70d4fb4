"""How Lance gets at the files of a table: what the catalog tells an Iceberg client, in Lance's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from floecat.clients.lance.wire import LoadTableResult, StorageCredential

__all__ = ["storage_options"]

_KEYS: Final[Mapping[str, str]] = {
    "client.region": "aws_region",
    "s3.region": "aws_region",
    "s3.endpoint": "aws_endpoint",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.session-token-expires-at-ms": "expires_at_millis",
    "gcs.oauth2.token": "google_storage_token",
    "gcs.oauth2.token-expires-at": "expires_at_millis",
}
_SAS_TOKEN: Final = "adls.sas-token."  # noqa: S105 - a key
_SAS_EXPIRY: Final = "adls.sas-token-expires-at-ms."
_SECRETS: Final = frozenset({"aws_secret_access_key", "google_storage_token", "azure_storage_sas_token"})


def storage_options(table: LoadTableResult, properties: Mapping[str, str]) -> dict[str, str]:
    """Storage options of a table, as Lance's object stores name them.

    Credentials that the catalog vends, else the properties of the table; in both cases over what else the
    catalog tells of its storage.

    Args:
        table: answer of a load or create.
        properties: of the table.
    """
    config = dict(table.config or {})
    config.update(_credentials(table.storage_credentials or (), table.metadata.location))
    options = _in_words_of_lance(config)
    if _SECRETS & options.keys():
        return options
    return {**options, **properties}


def _credentials(credentials: Sequence[StorageCredential], location: str) -> Mapping[str, str]:
    """Of the credentials whose prefix the location has, those of the longest prefix."""
    fitting = [each for each in credentials if location.startswith(each.prefix)]
    return max(fitting, key=lambda each: len(each.prefix)).config if fitting else {}


def _in_words_of_lance(config: Mapping[str, str]) -> dict[str, str]:
    options = {_KEYS[key]: value for key, value in config.items() if key in _KEYS}
    if config.get("s3.endpoint", "").startswith("http://"):
        options["allow_http"] = "true"
    if "s3.path-style-access" in config:
        path_style = config["s3.path-style-access"].lower() == "true"
        options["aws_virtual_hosted_style_request"] = str(not path_style).lower()
    for key, value in config.items():
        if key.startswith(_SAS_TOKEN):
            options["azure_storage_sas_token"] = value
            options["azure_storage_account_name"] = key.removeprefix(_SAS_TOKEN).partition(".")[0]
        elif key.startswith(_SAS_EXPIRY):
            options["expires_at_millis"] = value
    return options
