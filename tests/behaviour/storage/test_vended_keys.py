"""Keys that loads hand out, tried against a real S3 server with STS."""

from __future__ import annotations

import pytest

from floecat.errors import FloecatError
from tests.behaviour.storage.conftest import KeyLake
from tests.services.authorities import change_authority

pytestmark = pytest.mark.s3

SECRETS = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")


def test_a_load_that_asks_gets_keys_to_the_table_alone(key_lake: KeyLake) -> None:
    location = key_lake.create("t").json()["metadata"]["location"]
    neighbour = key_lake.create("t10", location=f"{location}0").json()["metadata"]["location"]
    answer = key_lake.load("t")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    [credential] = answer.json()["storage-credentials"]
    assert credential["prefix"] == f"{location}/"
    config = credential["config"]
    assert answer.json()["config"] == config
    assert config["client.region"] == config["s3.region"] == key_lake.server.region
    assert config["s3.endpoint"] == key_lake.server.endpoint
    assert config["s3.path-style-access"] == "true"
    assert int(config["s3.session-token-expires-at-ms"]) > key_lake.kernel.clock.now_ms() + 3_000_000
    files = key_lake.files(config)
    files.write_new(f"{location}/data/a", b"a")
    assert files.read(f"{location}/data/a") == b"a"
    files.delete(f"{location}/data/a")
    for place in (neighbour, f"s3://{key_lake.bucket}/elsewhere", f"{location}x"):
        for call in (lambda: files.write_new(f"{place}/b", b"b"), lambda: files.read(f"{place}/b")):  # noqa: B023
            with pytest.raises(FloecatError, match=r"(?i)denied|refuse"):
                call()


def test_a_load_that_does_not_ask_gets_none(key_lake: KeyLake) -> None:
    key_lake.create("t")
    for headers in ({}, {"x-iceberg-access-delegation": "remote-signing, something"}):
        answer = key_lake.load("t", headers)
        assert "cache-control" not in answer.headers
        assert "storage-credentials" not in answer.json()
        assert not any(each in answer.text for each in SECRETS)


def test_the_slow_and_the_fast_path_give_the_same(key_lake: KeyLake) -> None:
    key_lake.create("t")
    slow = key_lake.load("t", query="?snapshots=all&x=1")
    fast = key_lake.load("t")
    assert slow.json() == fast.json()
    assert slow.headers["etag"] == fast.headers["etag"] != key_lake.load("t", {}).headers["etag"]


def test_the_tag_holds_until_the_keys_are_others(key_lake: KeyLake) -> None:
    key_lake.create("t")
    tag = key_lake.load("t").headers["etag"]
    asks = {"x-iceberg-access-delegation": "vended-credentials", "if-none-match": tag}
    assert key_lake.load("t", asks).status_code == 304
    assert key_lake.load("t", {"if-none-match": tag}).status_code == 200
    change_authority(key_lake.kernel, updated_at_ms=1)
    again = key_lake.load("t", asks)
    assert again.status_code == 200
    assert again.headers["etag"] != tag


def test_without_a_role_there_are_none(key_lake: KeyLake) -> None:
    key_lake.create("t")
    change_authority(key_lake.kernel, method='{"kind":"s3","region":"eu-north-1"}')
    answer = key_lake.load("t")
    assert "storage-credentials" not in answer.json()
    assert answer.json()["config"]["s3.region"] == "eu-north-1"


def test_the_outer_one_of_two_tables_gets_none_and_is_told_why(key_lake: KeyLake) -> None:
    change_authority(key_lake.kernel, enabled=False)
    location = key_lake.create("outer").json()["metadata"]["location"]
    assert key_lake.create("inner", location=f"{location}/inner").status_code == 200
    change_authority(key_lake.kernel, enabled=True)
    answer = key_lake.load("outer")
    assert "storage-credentials" not in answer.json()
    assert (
        "floecat.storage.overlapping-locations" in answer.json()["config"]["floecat.no-storage-credentials"]
    )
    assert answer.headers["etag"] != key_lake.load("outer", {}).headers["etag"]
    [credential] = key_lake.load("inner").json()["storage-credentials"]
    assert credential["prefix"] == f"{location}/inner/"
