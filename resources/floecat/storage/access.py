"""Access to storage: endpoints with their keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from floecat.fileio.base import Counters, FileIO
from floecat.fileio.opening import open_fileio
from floecat.fileio.options import ObjectStoreOptions
from floecat.storage.client_config import ClientConfig

__all__ = ["StorageAccess", "Stores", "stores"]

_CLOUD_DOMAINS: Final = (".amazonaws.com", ".amazonaws.com.cn", "storage.googleapis.com")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_DEFAULT_PORTS: Final = (None, 80, 443)


class Stores(NamedTuple):
    """The services that hold the files of each scheme: buckets of one name are the same bucket there."""

    s3: str = ""
    gs: str = ""
    abfss: str = ""

    def of(self, scheme: str) -> str:
        """The service of a scheme; the local disk is one for all."""
        return str(getattr(self, scheme, ""))


class StorageAccess(msgspec.Struct, frozen=True, eq=False):
    """Storage as endpoints with their keys reach it; the local disk is part of each."""

    files: FileIO
    options: ObjectStoreOptions = ObjectStoreOptions()
    """Options of object storage, with the keys."""
    fsync: bool = True
    """Whether local files are on disk before a write returns."""
    stores: Stores = Stores()
    """Identifies the services; see the function of this name."""
    client_config: ClientConfig = ClientConfig(ObjectStoreOptions())
    """Configuration that clients may know."""

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
        return cls(files, options, fsync, stores(options), ClientConfig(options))

    def __reduce__(self) -> tuple[Callable[[ObjectStoreOptions], StorageAccess], tuple[ObjectStoreOptions]]:
        """Lets another process open the same storage. What is pickled holds the keys."""
        return partial(StorageAccess.of, fsync=self.fsync), (self.options,)

    @property
    def opener(self) -> Callable[[], FileIO]:
        """Opens the same storage in another process. It can be pickled, and then holds the keys."""
        return partial(open_fileio, self.options, fsync=self.fsync)


def stores(options: ObjectStoreOptions) -> Stores:
    """Identifies the services behind the endpoints. Clouds themselves are empty text.

    Keys and region do not count, as different keys may reach the same bucket. All of AWS is one service.
    """
    return Stores(*(_service(options.service(scheme)) for scheme in Stores._fields))


def _service(endpoint: str | None) -> str:
    if endpoint is None:
        return ""
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return endpoint  # of the environment, and refused with the first use
    if host.endswith(_CLOUD_DOMAINS):
        return ""
    host = "localhost" if host in _LOOPBACK else host
    suffix = "" if port in _DEFAULT_PORTS else f":{port}"
    return f"{host}{suffix}{parts.path.rstrip('/')}"
