from __future__ import annotations

from pathlib import Path

import pytest

from floecat.errors import LocationNotAllowedError
from floecat.fileio.locations import AllowedLocations, normalize_location
from floecat.fileio.options import ObjectStoreOptions
from floecat.storage.access import StorageAccess
from floecat.storage.catalog_storage import CatalogStorage
from tests.storages import storage_at


def access(endpoint: str) -> StorageAccess:
    return StorageAccess.of(ObjectStoreOptions(endpoint=endpoint, region="r"), fsync=False)


def test_the_longest_prefix_answers() -> None:
    own, bucket, folder = (access(f"http://{name}") for name in ("own", "bucket", "folder"))
    prefixes = {"s3://b": bucket, "s3://b/a": folder}
    storage = CatalogStorage(AllowedLocations(["s3://b", "s3://c"]), own, prefixes)
    for location, expected in (
        ("s3://b/a", folder),
        ("s3a://b/a/x/y", folder),
        ("s3://b/ab", bucket),
        ("s3://b/x", bucket),
        ("s3://c/a", own),
        ("file:///b/a", own),
    ):
        assert storage.files(location) is expected.files
        assert storage.options(location) is expected.options
        assert storage.client_config(location) == expected.client_config.of(location)


def test_deletes_go_to_the_storage_of_each_file(tmp_path: Path) -> None:
    own, other = access("http://own"), access("http://other")
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").touch()
    prefix = (tmp_path / "b").as_uri()
    storage = CatalogStorage(AllowedLocations([tmp_path.as_uri()]), own, {prefix: other})
    outcome = storage.delete_many([str(tmp_path / name / "f") for name in "abc"] + ["relative"])
    assert (outcome.deleted, [one.location for one in outcome.failures]) == (3, ["relative"])
    assert (own.files.counters.counts.deletes, other.files.counters.counts.deletes) == (2, 1)


@pytest.mark.parametrize(
    ("location", "shared"),
    [
        ("s3://b/x", False),
        ("S3N://b/x", False),
        ("gs://b/x", True),
        ("abfss://c@account.dfs.core.windows.net/x", True),
        ("file:///x", True),
        ("/x", True),
        ("relative", True),
    ],
)
def test_only_files_in_s3_differ_between_services(location: str, shared: bool) -> None:
    one, other = (storage_at(["s3://b"], endpoint=f"http://{name}:9000") for name in ("one", "other"))
    again = storage_at(["s3://c"], endpoint="http://one:9000/")
    assert one.shares(location, other) is other.shares(location, one) is shared
    assert one.shares(location, again)
    if location != "relative":
        assert one.shares(normalize_location(location), other) is shared


def test_a_prefix_on_another_service_is_told_apart() -> None:
    roots = AllowedLocations(["s3://b", "s3://c"])
    plain = CatalogStorage(roots, access("http://one"))
    split = CatalogStorage(roots, access("http://one"), {"s3://c": access("http://two")})
    assert split.shares("s3://b/x", plain)
    assert not split.shares("s3://c/x", plain)
    assert split.shares("s3://c/x", CatalogStorage(roots, access("http://two")))


def test_a_folder_shares_what_a_prefix_below_it_does() -> None:
    roots = AllowedLocations(["s3://b"])
    split = CatalogStorage(roots, access("http://one"), {"s3://b/a/x": access("http://two")})
    plain = CatalogStorage(roots, access("http://two"))
    for folder, shared in (("s3://b/a", True), ("s3://b/a/x/y", True), ("s3://b/c", False)):
        assert split.shares_below(folder, plain) is plain.shares_below(folder, split) is shared
    assert not split.shares("s3://b/a/f", plain)
    assert split.shares_below("relative", plain)


def test_artifacts_are_allowed_to_engines_alone() -> None:
    storage = CatalogStorage(
        AllowedLocations(["s3://b"]), access("http://one"), artifact_locations=["s3://artifacts"]
    )
    storage.with_artifacts.allowed.check("s3://artifacts/x")
    storage.with_artifacts.allowed.check("s3://b/x")
    assert storage.with_artifacts.files("s3://b") is storage.files("s3://b")
    with pytest.raises(LocationNotAllowedError):
        storage.allowed.check("s3://artifacts/x")
