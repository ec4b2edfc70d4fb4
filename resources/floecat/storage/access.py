"""One way into storage: an endpoint with its region and keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import msgspec

from floecat.fileio.base import Counters, FileIO
from floecat.fileio.buckets import ObjectStoreOptions
from floecat.fileio.opening import open_fileio

__all__ = ["StorageAccess", "s3_client_config", "s3_store"]

_AWS: Final = "aws"
_AWS_DOMAINS: Final = (".amazonaws.com", ".amazonaws.com.cn")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_DEFAULT_PORTS: Final = (None, 80, 443)


class StorageAccess(msgspec.Struct, frozen=True, eq=False):
    """Storage as one endpoint with its region and keys reaches it; the local disk is part of each."""

    files: FileIO
    options: ObjectStoreOptions = ObjectStoreOptions()
    """How object storage is reached, with the keys."""
    fsync: bool = True
    """Whether local files are on disk before a write returns."""
    s3_store: str = _AWS
    """Identifies the S3 service; see the function of this name."""
    s3_config: Mapping[str, str] = {}
    """Client-safe settings for locations in S3."""

    @classmethod
    def of(
        cls,
        options: ObjectStoreOptions,
        *,
        fsync: bool = True,
        files: FileIO | None = None,
        counters: Counters | None = None,
    ) -> StorageAccess:
        """Access to storage. Nothing is sent before the first call.

        Args:
            options: how object storage is reached.
            fsync: whether local files are on disk before a write returns.
            files: the storage, if it is open already.
            counters: where its calls are counted; by default in counters of its own.
        """
        files = files or open_fileio(options, fsync=fsync, counters=counters)
        return cls(files, options, fsync, s3_store(options), s3_client_config(options))

    def __reduce__(self) -> tuple[Callable[[ObjectStoreOptions], StorageAccess], tuple[ObjectStoreOptions]]:
        """Another process opens the same storage. What is pickled holds the keys."""
        return partial(StorageAccess.of, fsync=self.fsync), (self.options,)

    @property
    def opener(self) -> Callable[[], FileIO]:
        """Opens the same storage in another process. It can be pickled, and then holds the keys."""
        return partial(open_fileio, self.options, fsync=self.fsync)


def s3_store(options: ObjectStoreOptions) -> str:
    """Identifies the S3 service behind an endpoint: buckets of one name are the same bucket there.

    Keys and region do not count, as different keys may reach the same bucket. All of AWS is one service.
    """
    endpoint = options.s3_endpoint
    if endpoint is None:
        return _AWS
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return endpoint  # of the environment, and refused with the first use
    if host.endswith(_AWS_DOMAINS):
        return _AWS
    host = "localhost" if host in _LOOPBACK else host
    suffix = "" if port in _DEFAULT_PORTS else f":{port}"
    return f"{host}{suffix}{parts.path.rstrip('/')}"


def s3_client_config(options: ObjectStoreOptions) -> dict[str, str]:
    """Settings of S3 that a client may know: where it is, never how to get in.

    Credentials belong in `storage-credentials` (Iceberg REST specification, `LoadTableResult`).
    """
    config: dict[str, str] = {}
    if options.endpoint:
        config["s3.endpoint"] = options.endpoint
    if options.region:
        config["s3.region"] = config["client.region"] = options.region
    config["s3.path-style-access"] = str(options.path_style_access).lower()
    return config
