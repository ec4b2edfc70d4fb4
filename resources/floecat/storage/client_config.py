"""Settings of storage that a client may know: where it is, never how to get in.

Names are those of Iceberg's own file IO (`S3FileIOProperties`, `GCPProperties`, `AzureProperties`) and of
PyIceberg, where they differ. Credentials belong in `storage-credentials` (Iceberg REST specification,
`LoadTableResult`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Final
from urllib.parse import urlsplit

from floecat.fileio.options import AdlsOptions, GcsOptions, ObjectStoreOptions

__all__ = ["ClientConfig", "config_tag"]

_S3: Final = ("s3", "s3a", "s3n")
_AZURE: Final = ("abfss", "abfs", "wasbs", "wasb")
_PUBLIC_AZURE: Final = "core.windows.net"
_KEPT: Final = 1024


class ClientConfig:
    """Answers by the location of a table or view."""

    def __init__(self, options: ObjectStoreOptions) -> None:
        self._adls = options.adls
        self._by_scheme = dict.fromkeys(_S3, _s3(options)) | {"gs": _gcs(options.gcs)}

    def of(self, location: str) -> Mapping[str, str]:
        """The settings for files at a location, without credentials."""
        scheme, _, rest = location.partition("://")
        if scheme in _AZURE:
            return _azure(self._adls, rest.partition("/")[0].rpartition("@")[2])
        return self._by_scheme.get(scheme, {})


def config_tag(config: Mapping[str, str]) -> str:
    """A short digest of settings, the same in every process; empty where there are none."""
    return _digest(tuple(config.items())) if config else ""


@lru_cache(_KEPT)
def _digest(settings: tuple[tuple[str, str], ...]) -> str:
    return blake2b(repr(settings).encode(), digest_size=8).hexdigest()


def _s3(options: ObjectStoreOptions) -> dict[str, str]:
    config: dict[str, str] = {}
    if options.endpoint:
        config["s3.endpoint"] = options.endpoint
    if options.region:
        config["s3.region"] = config["client.region"] = options.region
    config["s3.path-style-access"] = str(options.path_style_access).lower()
    return config


def _gcs(options: GcsOptions) -> dict[str, str]:
    given = {"gcs.project-id": options.project_id, "gcs.service.host": options.endpoint}
    return {name: value for name, value in given.items() if value}


def _azure(options: AdlsOptions, host: str) -> dict[str, str]:
    account, _, suffix = host.partition(".")
    config = {"adls.account-name": account}
    domain = suffix.partition(".")[2]
    if options.endpoint:
        endpoint = options.endpoint.rstrip("/")
        parts = urlsplit(endpoint)
        # for Java an endpoint, although of this name
        config[f"adls.connection-string.{host}"] = f"{endpoint}/{account}"
        for kind in ("blob", "dfs"):
            config[f"adls.{kind}-storage-authority"] = parts.netloc
            config[f"adls.{kind}-storage-scheme"] = parts.scheme
    elif domain != _PUBLIC_AZURE:
        config["adls.account-host"] = f"{account}.blob.{domain}"
        for kind in ("blob", "dfs"):
            config[f"adls.{kind}-storage-authority"] = f".{kind}.{domain}"
    return config
