"""Orphan files in object storage, where aliases of a scheme name the same objects (case O27)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from floecat.auth.principals import Principal
from floecat.fileio.base import FileEntry
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import AwsSettings, GatewaySettings, S3Settings, Settings, StorageSettings
from tests.services.s3 import S3Server
from tests.unit.purge.table_files import TableFiles

pytestmark = pytest.mark.s3

DAY_MS = 86_400_000


class LaterClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + 4 * DAY_MS


@pytest.fixture
def kernel(tmp_path: Path, s3_server: S3Server, s3_bucket: str) -> Iterator[Kernel]:
    s3 = S3Settings(
        endpoint=s3_server.endpoint,
        path_style_access=True,
        access_key_id=s3_server.access_key_id,
        secret_access_key=s3_server.secret_access_key,
    )
    settings = Settings(
        data_dir=str(tmp_path),
        gateway=GatewaySettings(default_warehouse_path=f"s3://{s3_bucket}/warehouse"),
        storage=StorageSettings(answer_timeout_ms=60_000, aws=AwsSettings(region=s3_server.region, s3=s3)),
    )
    prepare_store(settings)
    opened = open_kernel(settings, clock=LaterClock())
    yield opened
    opened.close()


@pytest.mark.parametrize("registered_as", ["s3", "s3a"])
def test_an_s3a_table_has_no_orphans_but_the_stray_file(
    kernel: Kernel, s3_bucket: str, registered_as: str
) -> None:
    call = kernel.catalog.calls.open(Principal("anna", kernel.settings.gateway.default_account_id), "floecat")
    kernel.catalog.namespaces.create(call, ("ns",), {})
    table = TableFiles(kernel.files, f"s3a://{s3_bucket}/warehouse/ns/t")
    table.append(count=3)
    table.location = f"s3n://{s3_bucket}/warehouse/ns/t"
    table.append(count=2)
    table.add_statistics()
    table.location = f"{registered_as}://{s3_bucket}/warehouse/ns/t"
    table.commit()
    kernel.commits.registration.register_table(call, ("ns",), "t", table.metadata_location)
    found: list[FileEntry] = []
    name = TableIdentifier(("ns",), "t")
    assert kernel.purge.orphans.find(call, name).orphans == 0
    table.files.write_new(table.path("data/stray.parquet"), b"x")
    report = kernel.purge.orphans.find(call, name, delete=True, found=found.append)
    assert [entry.location for entry in found] == [f"s3://{s3_bucket}/warehouse/ns/t/data/stray.parquet"]
    assert (report.deleted, report.listed) == (1, len(table.written) + 1)
    assert table.remaining() == table.written
