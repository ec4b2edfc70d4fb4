"""What the clients connect to: one service with its tables on the local disk, one with its tables on S3."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from tests.services.catalog import CatalogServer
from tests.services.s3 import S3Server

__all__ = ["Warehouse", "unique"]

_PATIENCE_S = 120.0


def unique(prefix: str) -> str:
    """A name that no other test uses."""
    return f"{prefix}_{secrets.token_hex(4)}"


class Warehouse(msgspec.Struct, frozen=True):
    """A running service as a client sees it."""

    server: CatalogServer
    s3: S3Server | None = None
    bucket: str = ""
    vends: bool = False
    """Whether clients get their keys from the catalog, and have none of their own."""

    @property
    def kind(self) -> str:
        """Where its tables are: `disk`, `s3`, or `keyless` on S3."""
        return "keyless" if self.vends else "s3" if self.s3 else "disk"

    @property
    def uri(self) -> str:
        """What clients take as the URI of the catalog."""
        return self.server.base_url

    @property
    def name(self) -> str:
        """What clients take as the warehouse."""
        return self.server.warehouse

    @property
    def access_keys(self) -> dict[str, str]:
        """Iceberg's properties with which a client gets at the tables; the catalog tells where they are."""
        if self.s3 is None or self.vends:
            return {}
        return {
            "s3.access-key-id": self.s3.access_key_id,
            "s3.secret-access-key": self.s3.secret_access_key,
        }

    @property
    def root(self) -> str:
        """The location below which its tables are."""
        if self.s3 is None:
            return f"file://{self.server.data_dir}/warehouse"
        return f"s3://{self.bucket}/warehouse"

    def files_below(self, location: str) -> set[str]:
        """The files that exist below a location, as paths relative to it.

        Without the checksums that Hadoop writes beside each local file, which Iceberg knows nothing of.
        """
        parts = urlsplit(location)
        if self.s3 is None:
            root = Path(parts.path)
            files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".crc")
            return {str(path.relative_to(root)) for path in files}
        prefix = parts.path.strip("/") + "/"
        pages = self.s3.client().get_paginator("list_objects_v2")
        listed = pages.paginate(Bucket=parts.netloc, Prefix=prefix)
        return {
            entry["Key"].removeprefix(prefix) for page in listed for entry in page.get("Contents", ())
        } - {""}

    def put(self, location: str, data: bytes = b"x") -> None:
        """Writes a file."""
        parts = urlsplit(location)
        if self.s3 is None:
            path = Path(parts.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        else:
            self.s3.client().put_object(Bucket=parts.netloc, Key=parts.path.strip("/"), Body=data)

    def wait_until_empty(self, location: str) -> set[str]:
        """Waits for the purge queue and returns the files that it left."""
        deadline = time.monotonic() + _PATIENCE_S
        while (left := self.files_below(location)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left
