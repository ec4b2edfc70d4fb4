"""Settings of an authority that clients may know: where its storage is, never how to get in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from floecat.credentials.authorities import AdlsMethod, GcsMethod, KeyMethod, S3Method, StorageAuthority
from floecat.credentials.aws_keys import DEFAULT_REGION
from floecat.fileio.options import AdlsOptions, GcsOptions, ObjectStoreOptions
from floecat.storage.client_config import ClientConfig

__all__ = ["config_of"]

_KEPT = 1024


def config_of(authority: StorageAuthority, location: str) -> Mapping[str, str]:
    """The settings for files at a location, which lies below the prefix of the authority."""
    config = _config(authority.method).of(location)
    method = authority.method
    if isinstance(method, S3Method) and method.sse_type is not None:
        config = {**config, "s3.sse.type": method.sse_type}
        if method.sse_key is not None:
            config["s3.sse.key"] = method.sse_key
    return config


@lru_cache(_KEPT)
def _config(method: KeyMethod) -> ClientConfig:
    gcs, adls = GcsOptions(), AdlsOptions()
    if isinstance(method, GcsMethod):
        gcs = GcsOptions(endpoint=method.endpoint, project_id=method.project_id)
    elif isinstance(method, AdlsMethod):
        adls = AdlsOptions(endpoint=method.endpoint)
    else:
        return ClientConfig(
            ObjectStoreOptions(
                region=method.region or DEFAULT_REGION,
                endpoint=method.endpoint if method.tells_endpoint else None,
                path_style_access=method.path_style_access,
            )
        )
    return ClientConfig(ObjectStoreOptions(gcs=gcs, adls=adls))
