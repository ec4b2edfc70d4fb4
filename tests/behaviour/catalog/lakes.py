"""Catalogs in a bucket, with authorities that are named alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec

from floecat.auth.authorizer import AllowAll
from floecat.auth.principals import Principal
from floecat.credentials.authorities import S3Method
from floecat.entries.calls import Call
from floecat.runtime import Kernel, open_kernel
from floecat.settings import (
    AwsSettings,
    PlanningSettings,
    S3Settings,
    Settings,
    StorageSettings,
    StoreSettings,
)
from floecat.store.catalogs import storage_authorities
from floecat.store.catalogs.storage_authorities import AuthorityRow
from tests.behaviour.catalog.changes import create, table
from tests.services.s3 import S3Server

__all__ = ["Lakes", "opened"]


class Lakes:
    """A kernel with a catalog in a bucket, which has an authority."""

    def __init__(self, kernel: Kernel, bucket: str) -> None:
        self.kernel = kernel
        self.bucket = bucket
        self.account = kernel.settings.gateway.default_account_id
        self.call = self.catalog("lake", self.account)

    def catalog(self, name: str, account: UUID) -> Call:
        root = f"s3://{self.bucket}"
        catalog = self.kernel.catalog.catalogs.create(account, name, root)
        call = Call(Principal("tester", account), AllowAll(), catalog)
        self.kernel.catalog.namespaces.create(call, ("ns",), {})
        return call

    def authority(self, prefix: str = "", account: UUID | None = None, *, enabled: bool = True) -> None:
        row = AuthorityRow(
            id=uuid4(),
            account_id=account or self.account,
            name=f"keys-{prefix}",
            prefix=f"s3://{self.bucket}{prefix}",
            method=msgspec.json.encode(S3Method()).decode(),
            enabled=enabled,
            secrets=None,
            version=0,
            created_at_ms=0,
            updated_at_ms=0,
        )
        self.kernel.store.run(lambda conn: storage_authorities.insert(conn, row))

    def at(self, folder: str) -> str:
        return f"s3://{self.bucket}/{folder}"

    def create(self, name: str, folder: str, call: Call | None = None, **fields: Any) -> dict[str, Any]:
        made = create(self.kernel, call or self.call, name, location=self.at(folder), **fields)
        return {**json.loads(made.metadata), "file": made.metadata_location}

    def is_outer(self, name: str) -> bool:
        loaded = self.kernel.catalog.tables.load(self.call, table(name))
        assert loaded.state is not None
        location = json.loads(loaded.metadata)["location"]
        with self.kernel.store.read() as conn:
            overlaps = self.kernel.parts.overlaps
            return overlaps.others_inside(conn, self.call.catalog, loaded.state.id, [location])


def opened(
    store_url: str, server: S3Server, folder: Path, planning: PlanningSettings | None = None, **storage: Any
) -> Kernel:
    """A kernel whose storage is the server, with the default catalog."""
    keys = S3Settings(
        endpoint=server.endpoint,
        path_style_access=True,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
    )
    kernel = open_kernel(
        Settings(
            data_dir=str(folder),
            planning=planning or PlanningSettings(),
            store=StoreSettings(url=store_url),
            storage=StorageSettings(aws=AwsSettings(region=server.region, s3=keys), **storage),
        )
    )
    account = kernel.settings.gateway.default_account_id
    kernel.catalog.catalogs.ensure(account, "floecat", str(folder / "w"))
    return kernel
