"""Where a service under test keeps its files, looked at from outside."""

from __future__ import annotations

import time
from typing import Protocol
from urllib.parse import urlsplit

from tests.contract.files import files_below, path_of
from tests.services.catalog import CatalogServer
from tests.services.s3 import S3Server

__all__ = ["BucketLake", "FolderLake", "Lake", "wait_until_gone"]

_PATIENCE_S = 120.0


class Lake(Protocol):
    """A service and its storage."""

    server: CatalogServer

    @property
    def root(self) -> str:
        """The location below which its tables are."""

    @property
    def client_properties(self) -> dict[str, str]:
        """What a client must know to get at the files, beside what the catalog tells it."""

    def files(self, location: str) -> set[str]:
        """The locations of the files below a location. One that ends without a slash is a folder too."""

    def put(self, location: str, data: bytes) -> None:
        """Writes a file."""


class FolderLake:
    """A folder of the local disk."""

    def __init__(self, server: CatalogServer) -> None:
        self.server = server

    @property
    def root(self) -> str:
        return (self.server.data_dir / "warehouse").as_uri()

    @property
    def client_properties(self) -> dict[str, str]:
        return {}

    def files(self, location: str) -> set[str]:
        return {(path_of(location) / name).as_uri() for name in files_below(location)}

    def put(self, location: str, data: bytes) -> None:
        path = path_of(location)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class BucketLake:
    """A bucket on S3."""

    def __init__(self, server: CatalogServer, s3: S3Server, bucket: str) -> None:
        self.server = server
        self.s3 = s3
        self._bucket = bucket

    @property
    def root(self) -> str:
        return f"s3://{self._bucket}/warehouse"

    @property
    def client_properties(self) -> dict[str, str]:
        return {
            "s3.access-key-id": self.s3.access_key_id,
            "s3.secret-access-key": self.s3.secret_access_key,
        }

    def files(self, location: str) -> set[str]:
        prefix = urlsplit(location).path.strip("/") + "/"
        pages = self.s3.client().get_paginator("list_objects_v2")
        listed = pages.paginate(Bucket=self._bucket, Prefix=prefix)
        keys = (entry["Key"] for page in listed for entry in page.get("Contents", ()))
        return {f"s3://{self._bucket}/{key}" for key in keys if not key.endswith("/")}

    def put(self, location: str, data: bytes) -> None:
        key = urlsplit(location).path.strip("/")
        self.s3.client().put_object(Bucket=self._bucket, Key=key, Body=data)

    def read(self, location: str) -> bytes:
        """The bytes of a file."""
        key = urlsplit(location).path.strip("/")
        data: bytes = self.s3.client().get_object(Bucket=self._bucket, Key=key)["Body"].read()
        return data


def wait_until_gone(lake: Lake, location: str, files: set[str]) -> set[str]:
    """Waits for the purge queue; returns those of the files that are still there after half a minute."""
    deadline = time.monotonic() + _PATIENCE_S
    while (left := files & lake.files(location)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
