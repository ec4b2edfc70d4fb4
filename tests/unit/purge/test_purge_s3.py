"""The purge of tables in object storage, where aliases of a scheme name the same objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from floecat.fileio.base import FileIO
from floecat.fileio.opening import open_fileio
from floecat.purge.deletion.table_purge import PurgeTarget, TablePurge
from floecat.purge.sharing.shared_files import SharedFilesUnknownError
from tests.services.s3 import S3Server
from tests.storages import storage_at
from tests.unit.purge.table_files import FakeLiveTables, TableFiles, new_purger

pytestmark = pytest.mark.s3


class Bucket(NamedTuple):
    name: str
    files: FileIO


@pytest.fixture
def bucket(s3_server: S3Server, s3_bucket: str) -> Bucket:
    return Bucket(s3_bucket, open_fileio(s3_server.options()))


def keys(server: S3Server, bucket: str) -> Iterator[str]:
    for item in server.client().list_objects_v2(Bucket=bucket).get("Contents", []):
        yield item["Key"]


def purger_of(bucket: Bucket, live: FakeLiveTables) -> TablePurge:
    live.roots, live.files = [f"s3://{bucket.name}"], bucket.files
    return new_purger(live, batch_size=7)


def test_a_table_of_mixed_schemes_goes_whole(
    s3_server: S3Server, bucket: Bucket, live: FakeLiveTables
) -> None:
    table = TableFiles(bucket.files, f"s3a://{bucket.name}/ns/test")
    table.append(count=10)
    table.location = f"s3://{bucket.name}/ns/test"
    table.append(count=10)
    table.add_statistics()
    table.commit()
    neighbour = TableFiles(bucket.files, f"s3n://{bucket.name}/ns/test2")
    neighbour.append()
    neighbour.commit()
    live.register(neighbour)
    storage = storage_at([f"s3://{bucket.name}"], bucket.files)
    report = purger_of(bucket, live).purge(PurgeTarget(table.table_uuid, table.metadata_location, storage))
    assert report.deleted == len(table.written)
    left = sorted(keys(s3_server, bucket.name))
    assert left == sorted(location.split("/", 3)[3] for location in neighbour.written)


def test_an_object_that_clients_read_under_a_longer_name_stays(
    s3_server: S3Server, bucket: Bucket, live: FakeLiveTables
) -> None:
    """S3FileIO and PyIceberg cut a location at `?` and `#`. The longer names may be objects, too."""
    root = f"s3://{bucket.name}/ns"
    table = TableFiles(bucket.files, f"{root}/t")
    cut, lists, free = (table.write(f"{root}/data/{name}") for name in ("cut", "lists", "free"))
    longer = [f"{root}/data/free?x", f"{root}/data/free#x"]
    for name in longer:
        s3_server.client().put_object(Bucket=bucket.name, Key=name.split("/", 3)[3], Body=b"x")
    table.append(cut, lists, free, *longer)
    table.commit()
    other = TableFiles(bucket.files, f"s3://{bucket.name}/other")
    other.append(f"s3a://{bucket.name}/ns/data/cut?x=y", f"{root}/data/lists#x")
    other.commit()
    live.register(other)
    storage = storage_at([root], bucket.files)
    report = purger_of(bucket, live).purge(PurgeTarget(table.table_uuid, table.metadata_location, storage))
    left = sorted(key for key in keys(s3_server, bucket.name) if key.startswith("ns/"))
    assert left == ["ns/data/cut", "ns/data/free#x", "ns/data/free?x", "ns/data/lists"]
    assert (report.shared, report.outside) == (2, 2)


def test_a_live_table_whose_list_is_named_so_stops_a_purge(bucket: Bucket, live: FakeLiveTables) -> None:
    table = TableFiles(bucket.files, f"s3://{bucket.name}/ns/t")
    table.append()
    table.commit()
    other = TableFiles(bucket.files, f"s3://{bucket.name}/other")
    other.append(table.written[0])
    other.snapshots[0]["manifest-list"] += "?x"
    other.commit()
    live.register(other)
    storage = storage_at([f"s3://{bucket.name}/ns"], bucket.files)
    with pytest.raises(SharedFilesUnknownError, match=r"avro\?x cannot be read"):
        purger_of(bucket, live).purge(PurgeTarget(table.table_uuid, table.metadata_location, storage))
    assert table.remaining() == table.written


def test_a_file_shared_under_another_scheme_stays(
    s3_server: S3Server, bucket: Bucket, live: FakeLiveTables
) -> None:
    table = TableFiles(bucket.files, f"s3a://{bucket.name}/ns/t")
    table.append(count=3)
    table.commit()
    shared = next(location for location in table.written if location.endswith(".parquet"))
    other = TableFiles(bucket.files, f"s3://{bucket.name}/ns/other")
    other.append(shared.replace("s3a:", "s3:"))
    other.commit()
    live.register(other)
    storage = storage_at([f"s3://{bucket.name}/ns"], bucket.files)
    purger_of(bucket, live).purge(PurgeTarget(table.table_uuid, table.metadata_location, storage))
    assert table.remaining() == [shared]
    assert other.remaining() == other.written
