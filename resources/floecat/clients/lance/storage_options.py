"""Access to the files of a table: the properties of Iceberg clients, as storage options of Lance."""

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

    These are the settings of the storage that the catalog sends, with the credentials that it vends. Without
    credentials the properties of the table are added. A setting of the catalog wins over a property, so that
    a property cannot send readers to another endpoint.

    Args:
        table: answer of a load or create.
        properties: of the table.
    """
    config = dict(table.config or {})
    config.update(_credentials(table.storage_credentials or (), table.metadata.location))
    options = _lance_options(config)
    if _SECRETS & options.keys():
        return options
    return {**properties, **options}


def _credentials(credentials: Sequence[StorageCredential], location: str) -> Mapping[str, str]:
    """The credentials with the longest prefix of the location."""
    fitting = [each for each in credentials if f"{location}/".startswith(each.prefix)]
    return max(fitting, key=lambda each: len(each.prefix)).config if fitting else {}


def _lance_options(config: Mapping[str, str]) -> dict[str, str]:
    options = {name: config[key] for key, name in _KEYS.items() if key in config}
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
