"""Artifacts that are missing on object storage."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import open_kernel, prepare_store
from floecat.settings import load_settings
from tests.behaviour.delta.conftest import Lake, as_rows, delta_table, rows_of
from tests.clients.delta.writer import DeltaWriter
from tests.services.catalog import s3_environment
from tests.services.s3 import S3Server

pytestmark = pytest.mark.s3


class Bucket:
    """A Delta table that a writer on the disk makes, in a bucket."""

    def __init__(self, server: S3Server, name: str, writer: DeltaWriter) -> None:
        self.server = server
        self.name = name
        self.writer = writer
        self.root = f"s3://{name}/t"
        self._client = server.client()
        self._sent: set[Path] = set()

    def send(self) -> None:
        """Uploads what is new."""
        for path in sorted(self.writer.folder.rglob("*.*")):
            if path.is_file() and path not in self._sent:
                self._client.upload_file(str(path), self.name, f"t/{path.relative_to(self.writer.folder)}")
                self._sent.add(path)

    def artifacts(self) -> list[str]:
        """Keys of the artifacts."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix="t/metadata/")
        return [each["Key"] for page in pages for each in page.get("Contents", [])]

    def lose(self, *keys: str) -> None:
        """Deletes objects."""
        assert keys
        for key in keys:
            self._client.delete_object(Bucket=self.name, Key=key)

    def cut(self, key: str) -> None:
        """Empties an object."""
        self._client.put_object(Bucket=self.name, Key=key, Body=b"")

    def rows(self, lake: Lake, table: TableIdentifier, version: int | None = None) -> list[tuple[Any, ...]]:
        """What PyIceberg reads."""
        properties = {
            "s3.endpoint": self.server.endpoint,
            "s3.access-key-id": self.server.access_key_id,
            "s3.secret-access-key": self.server.secret_access_key,
            "s3.region": self.server.region,
        }
        location = lake.load(table).metadata_location
        assert location is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scan = StaticTable.from_metadata(location, properties).scan(snapshot_id=version)
            return as_rows(scan.to_arrow())


@pytest.fixture
def bucket(tmp_path: Path, s3_server: S3Server, s3_bucket: str) -> Bucket:
    writer = delta_table(tmp_path / "t")
    writer.delete({0: [1]})
    made = Bucket(s3_server, s3_bucket, writer)
    made.send()
    return made


@pytest.fixture
def lake(tmp_path: Path, bucket: Bucket) -> Iterator[Lake]:
    server = bucket.server
    settings = load_settings(
        environ=s3_environment(server.endpoint, bucket.name, server.access_key_id, server.secret_access_key),
        overrides={
            "floecat.data-dir": str(tmp_path / "data"),
            "floecat.storage.allowed-locations": [f"s3://{bucket.name}"],
            "floecat.gateway.delta-compat.refresh-after": "PT0S",
        },
    )
    prepare_store(settings)
    kernel = open_kernel(settings)
    yield Lake(kernel, tmp_path)
    kernel.close()


def register(lake: Lake, bucket: Bucket) -> TableIdentifier:
    return lake.kernel.delta.registration.register(lake.call, ("ns",), "t", bucket.root).identifier


def test_what_vacuum_took_is_rebuilt(lake, bucket):
    table = register(lake, bucket)
    bucket.writer.append(rows_of(100))
    bucket.send()
    lake.load(table)
    newest = ("t/metadata/4-", "t/metadata/snap-4-")
    bucket.lose(*(key for key in bucket.artifacts() if not key.startswith(newest)))
    for version in range(1, 5):
        assert bucket.rows(lake, table, version) == as_rows(bucket.writer.rows[version])


@pytest.mark.parametrize("part", ["-pd-", "1-compat-m0", "snap-3-", "metadata.json"])
@pytest.mark.parametrize("how", ["lose", "cut"])
def test_one_file(lake, bucket, part, how):
    table = register(lake, bucket)
    [key, *_] = [key for key in bucket.artifacts() if part in key]
    getattr(bucket, how)(key)
    for version in range(1, 4):
        assert bucket.rows(lake, table, version) == as_rows(bucket.writer.rows[version])
    assert lake.state(table).generation == (0 if (part, how) == ("metadata.json", "lose") else 1)


def test_a_page_of_the_listing_is_a_thousand_files(lake, bucket):
    table = register(lake, bucket)
    for number in itertools.count():
        before = lake.kernel.files.counters.counts
        lake.load(table)
        spent = lake.kernel.files.counters.counts - before
        assert spent.calls == spent.lists == 2 + number
        if number == 1:
            return
        for other in range(1_000):
            lake.kernel.files.write_new(f"{bucket.root}/metadata/other-{other}", b"x", unique_name=True)
