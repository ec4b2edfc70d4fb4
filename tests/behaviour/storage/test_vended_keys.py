"""Keys that loads hand out, tried against a real S3 server with STS."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from floecat.auth.authorizer import AllowAll, Check, Privilege
from floecat.auth.principals import Principal
from floecat.credentials import vending
from floecat.errors import FloecatError
from tests.behaviour.storage.conftest import ASKS, SCHEMA, KeyLake, start_lake
from tests.services.authorities import add_authority, change_authority
from tests.services.s3 import S3Server
from tests.view_documents import view_version

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
    assert answer.json()["config"].items() > config.items()
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


@pytest.mark.parametrize("asks", [ASKS, {}])
@pytest.mark.parametrize("prefix", [None, "/wh/data", ""])
def test_the_tag_is_another_once_the_settings_tell_something_else(
    tmp_path: Path, s3_server: S3Server, s3_bucket: str, asks: dict[str, str], prefix: str | None
) -> None:
    """Without an authority, with one for the data alone, and with one for all, which the settings are not."""
    tags: list[str] = []
    regions = ["us-east-1", "us-east-1", "eu-west-1"]
    for region in regions:
        with ExitStack() as running:
            settings = {"floecat.storage.aws.region": region}
            lake = start_lake(tmp_path, s3_server, s3_bucket, running, **settings)
            if not tags:
                if prefix is not None:
                    add_authority(lake.kernel, s3_server, f"s3://{s3_bucket}{prefix}")
                folder = {"write.data.path": f"s3://{s3_bucket}/wh/data/t"}
                made = lake.create("t", asks, properties=folder)
                assert made.status_code == 200, made.text
            loaded = lake.load("t", asks)
            assert loaded.json()["config"]["s3.region"] == (region if prefix != "" else s3_server.region)
            tags.append(loaded.headers["etag"])
            for tag in tags:
                # other processes make other keys
                is_same = tag == tags[-1]
                answer = lake.load("t", {**asks, "if-none-match": tag})
                assert answer.status_code == (304 if is_same else 200)
    assert len(tags) == len(regions)
    if asks == {} or prefix is None:
        assert tags[0] == tags[1]
        assert (tags[1] == tags[2]) is (prefix == "")
    else:
        assert len(set(tags)) == len(regions)


def test_the_tag_of_a_commit_and_of_a_create_is_that_of_a_load(
    tmp_path: Path, s3_server: S3Server, s3_bucket: str
) -> None:
    with ExitStack() as running:
        lake = start_lake(tmp_path, s3_server, s3_bucket, running)
        made = lake.create("t")
        assert made.headers["etag"] == lake.load("t", {}).headers["etag"]
        update = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}
        changed = lake.client.post(f"{lake.tables}/t", json=update)
        assert changed.headers["etag"] == lake.load("t", {}).headers["etag"]
        add_authority(lake.kernel, s3_server, f"s3://{s3_bucket}")
        assert lake.create("u").headers["etag"] == lake.load("u", {}).headers["etag"]


def test_a_first_load_works_out_once_what_keys_open(
    key_lake: KeyLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_lake.create("t")
    counted: list[object] = []
    scopes_of = vending._scopes

    def count(*given: Any) -> Any:
        counted.append(given)
        return scopes_of(*given)

    monkeypatch.setattr(vending, "_scopes", count)
    assert key_lake.kernel.catalog.loader.load(key_lake.call(), key_lake.name("t")).storage_credentials
    assert len(counted) == 1


def test_without_keys_the_tag_is_another_once_the_authority_tells_something_else(key_lake: KeyLake) -> None:
    key_lake.create("t")
    tag = key_lake.load("t", {}).headers["etag"]
    assert key_lake.load("t", {"if-none-match": tag}).status_code == 304
    change_authority(key_lake.kernel, method='{"kind":"s3","region":"eu-north-1"}')
    answer = key_lake.load("t", {"if-none-match": tag})
    assert (answer.status_code, answer.json()["config"]["s3.region"]) == (200, "eu-north-1")
    assert "X-Iceberg-Access-Delegation" in answer.headers["vary"]


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


def test_keys_of_a_table_are_not_those_of_another_one_in_its_folder(
    tmp_path: Path, s3_server: S3Server, s3_bucket: str
) -> None:
    with ExitStack() as running:
        allows = {"floecat.storage.overlapping-locations": "allow"}
        lake = start_lake(tmp_path, s3_server, s3_bucket, running, **allows)
        add_authority(lake.kernel, s3_server, f"s3://{s3_bucket}")
        location = lake.create("first", ASKS).json()["metadata"]["location"]
        assert lake.load("first").json()["storage-credentials"]
        for staged in (True, False):
            second = lake.create("second", ASKS, location=location, **{"stage-create": staged}).json()
            assert "storage-credentials" not in second
            assert "floecat.no-storage-credentials" in second["config"]
        assert "storage-credentials" not in lake.load("second").json()


def test_new_tables_come_with_keys_that_write(key_lake: KeyLake) -> None:
    for more in ({}, {"stage-create": True}):
        answer = key_lake.create("staged" if more else "new", ASKS, **more)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
        [credential] = answer.json()["storage-credentials"]
        location = answer.json()["metadata"]["location"]
        assert credential["prefix"] == f"{location}/"
        key_lake.files(credential["config"]).write_new(f"{location}/data/a", b"a")
    loaded = key_lake.load("new")
    made = key_lake.create("other", ASKS)
    assert made.headers["etag"] == key_lake.load("other").headers["etag"]
    path = "/v1/floecat/namespaces/ns/register"
    key_lake.client.delete(f"{key_lake.tables}/new")
    body = {"name": "again", "metadata-location": loaded.json()["metadata-location"]}
    registered = key_lake.client.post(path, json=body, headers=ASKS)
    credentials = registered.json()["storage-credentials"]
    assert [each["prefix"] for each in credentials] == [f"{loaded.json()['metadata']['location']}/"]
    assert credentials != loaded.json()["storage-credentials"]
    endpoint = registered.json()["config"]["client.refresh-credentials-endpoint"]
    assert endpoint == "v1/floecat/namespaces/ns/tables/again/credentials"
    assert key_lake.client.get(f"/{endpoint}").json()["storage-credentials"] == credentials


def test_a_replayed_create_has_keys_that_are_not_stored(key_lake: KeyLake) -> None:
    headers = {**ASKS, "idempotency-key": "018f3b1e-7b7a-7000-8000-000000000001"}
    first = key_lake.create("t", headers)
    replayed = key_lake.create("t", headers)
    assert first.json() == replayed.json()
    assert first.json()["storage-credentials"]
    store = key_lake.kernel.settings.data_path / "floecat.db"
    everything = b"".join(each.read_bytes() for each in store.parent.iterdir() if each.is_file())
    assert len(everything) > 10_000
    token = first.json()["storage-credentials"][0]["config"]["s3.session-token"]
    for secret in (token, key_lake.server.secret_access_key):
        assert secret.encode() not in everything


def test_new_keys_and_plans_have_those_of_a_load(key_lake: KeyLake) -> None:
    key_lake.create("t")
    credentials = key_lake.load("t").json()["storage-credentials"]
    path = f"{key_lake.tables}/t"
    answer = key_lake.client.get(f"{path}/credentials?planId=1", headers={})
    assert (answer.json(), answer.headers["cache-control"]) == (
        {"storage-credentials": credentials},
        "no-store",
    )
    assert key_lake.client.get(f"{key_lake.tables}/gone/credentials").status_code == 404
    planned = key_lake.client.post(f"{path}/plan", json={}, headers=ASKS)
    refresh = {"client.refresh-credentials-endpoint": f"{path.lstrip('/')}/credentials"}
    of_plan = [{**each, "config": each["config"] | refresh} for each in credentials]
    assert planned.json()["storage-credentials"] == of_plan
    fetched = key_lake.client.get(f"{path}/plan/{planned.json()['plan-id']}", headers=ASKS)
    assert (fetched.status_code, fetched.json().get("storage-credentials")) == (200, of_plan)
    assert "storage-credentials" not in key_lake.client.post(f"{path}/plan", json={}).json()
    change_authority(key_lake.kernel, enabled=False)
    assert key_lake.client.get(f"{path}/credentials").json() == {"storage-credentials": []}


def test_locations_of_one_authority_are_one_entry_and_open_nothing_beside(key_lake: KeyLake) -> None:
    folder = f"s3://{key_lake.bucket}/wh"
    properties = {"write.data.path": f"{folder}/far/data"}
    key_lake.create("t", location=f"{folder}/t", properties=properties)
    [credential] = key_lake.load("t").json()["storage-credentials"]
    assert credential["prefix"] == f"{folder}/"
    files = key_lake.files(credential["config"])
    for place in ("t/x", "far/data/x"):
        files.write_new(f"{folder}/{place}", b"x")
    for place in ("u/x", "far/x", "far/data1/x", "t1/x"):
        with pytest.raises(FloecatError, match=r"(?i)denied|refuse"):
            files.write_new(f"{folder}/{place}", b"x")


def test_schemes_are_spelled_as_the_table_spells_them(key_lake: KeyLake) -> None:
    folder = f"{key_lake.bucket}/wh"
    properties = {"write.data.path": f"s3a://{folder}/data"}
    made = key_lake.create("t", ASKS, location=f"S3://{folder}/t", properties=properties)
    assert [each["prefix"] for each in made.json()["storage-credentials"]] == [
        f"s3a://{folder}/data/",
        f"S3://{folder}/t/",
    ]
    loaded = key_lake.load("t").json()
    assert loaded["config"]["client.refresh-credentials-endpoint"].endswith("/t/credentials")
    assert loaded["storage-credentials"] == made.json()["storage-credentials"]


def test_views_are_told_the_storage_of_the_authority(key_lake: KeyLake) -> None:
    change_authority(key_lake.kernel, method='{"kind":"s3","region":"eu-north-1"}')
    path = "/v1/floecat/namespaces/ns/views"
    body = {"name": "v", "schema": SCHEMA, "view-version": view_version(), "properties": {}}
    assert key_lake.client.post(path, json=body).status_code == 200
    assert key_lake.client.get(f"{path}/v").json()["config"]["s3.region"] == "eu-north-1"


class ReadsAlone(AllowAll):
    """Everybody may do everything but write tables."""

    def allowed(
        self, _principal: Principal, checks: Sequence[Check], _found: Any = None, /
    ) -> Sequence[bool]:
        return [privilege != Privilege.WRITE_TABLE for privilege, _ in checks]


def test_readers_and_principals_have_answers_of_their_own(key_lake: KeyLake) -> None:
    location = key_lake.create("t").json()["metadata"]["location"]
    writer = key_lake.call()
    other = msgspec.structs.replace(writer, principal=Principal("other", writer.account_id))
    reader = msgspec.structs.replace(writer, authorizer=ReadsAlone())
    load = key_lake.kernel.catalog.loader.load
    loaded = [load(call, key_lake.name("t")) for call in (writer, other, reader)]
    assert len({table.etag for table in loaded}) == 3
    assert not load(other, key_lake.name("t"), if_none_match=loaded[0].etag).not_modified
    assert load(writer, key_lake.name("t"), if_none_match=loaded[0].etag).not_modified
    assert loaded[0].config == loaded[1].config != loaded[2].config  # no principal is named
    key_lake.files(dict(loaded[0].config)).write_new(f"{location}/data/x", b"x")
    files = key_lake.files(dict(loaded[2].config))
    assert files.read(f"{location}/data/x") == b"x"
    with pytest.raises(FloecatError, match=r"(?i)denied|refuse"):
        files.write_new(f"{location}/data/y", b"y")
    with pytest.raises(FloecatError, match=r"(?i)denied|refuse"):
        files.delete(f"{location}/data/x")
