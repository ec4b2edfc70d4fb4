"""Faults of those that make keys: the answer is 503 and names the authority, never one without keys."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from floecat.credentials.authorities import StorageAuthority
from floecat.credentials.keys import KeyScope, StorageKeys
from floecat.errors import FloecatError
from tests.behaviour.storage.conftest import ASKS, KeyLake
from tests.services.authorities import change_authority, s3_method

pytestmark = pytest.mark.s3


class CountingMaker:
    """Makes keys as the other one does, and counts the calls."""

    def __init__(self, maker: Any) -> None:
        self.maker = maker
        self.scopes: list[KeyScope] = []

    def make(self, authority: StorageAuthority, secrets: Any, scope: KeyScope) -> StorageKeys:
        self.scopes.append(scope)
        made: StorageKeys = self.maker.make(authority, secrets, scope)
        return made


@pytest.fixture
def counted(key_lake: KeyLake) -> CountingMaker:
    makers: Any = key_lake.kernel.credentials.keys.makers
    makers["s3"] = CountingMaker(makers["s3"])
    return makers["s3"]  # type: ignore[no-any-return]


def test_a_thousand_loads_at_once_make_one_call_a_table(key_lake: KeyLake, counted: CountingMaker) -> None:
    for number in range(5):
        key_lake.create(f"t{number}")
    with ThreadPoolExecutor(16) as clients:
        answers = list(clients.map(lambda number: key_lake.load(f"t{number % 5}"), range(1000)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["config"]["s3.session-token"] for answer in answers}) == 5
    assert len(counted.scopes) == len(set(counted.scopes)) == 5


def test_loads_with_cached_keys_take_one_statement(key_lake: KeyLake) -> None:
    key_lake.create("t", ASKS)
    key_lake.load("t")
    with key_lake.kernel.store.count_statements() as counter:
        loader = key_lake.kernel.catalog.fast_loads
        call = key_lake.call()
        loaded = loader.load(call, key_lake.name("t"), "all", None)
    assert loaded.table is not None
    assert loaded.table.storage_credentials
    assert counter.statements == 1


@pytest.mark.parametrize(
    ("changes", "logged", "told"),
    [
        (
            {"sts_endpoint": "http://127.0.0.1:9"},
            "http://127.0.0.1:9 does not answer: the connection is refused",
            "its STS does not answer",
        ),
        ({"sts_endpoint": "http://nowhere.invalid"}, "its host is not found", "its STS does not answer"),
        ({"role_arn": "arn:aws:iam::000000000000:role/Gone"}, "role/Gone", "its STS refuses"),
        ({"access_key_id": "unknown"}, "InvalidAccessKeyId", "its STS refuses"),
    ],
)
def test_no_keys_are_503_that_names_the_authority(
    key_lake: KeyLake, changes: dict[str, Any], logged: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key_lake.create("t")
    secret = key_lake.server.secret_access_key
    change_authority(
        key_lake.kernel, method=msgspec.json.encode(s3_method(key_lake.server, **changes)).decode()
    )
    table = f"{key_lake.tables}/t"
    answers = [
        key_lake.load("t"),
        key_lake.client.get(f"{table}/credentials"),
        key_lake.client.post(f"{table}/plan", json={}, headers=ASKS),
        key_lake.create("made", ASKS),
        key_lake.create("staged", ASKS, **{"stage-create": True}),
    ]
    for answer in answers:
        error = answer.json()["error"]
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert error["message"] == f"Storage authority lake makes no keys: {told}"
        assert secret not in answer.text
    assert key_lake.load("made").status_code == 404  # nothing was made
    assert key_lake.load("t", {}).status_code == 200
    assert secret not in caplog.text
    assert sum(logged in each.getMessage() for each in caplog.records) >= len(answers)


def test_a_changed_authority_counts_with_the_next_load_while_old_keys_live(key_lake: KeyLake) -> None:
    location = key_lake.create("t").json()["metadata"]["location"]
    old = key_lake.load("t").json()["config"]
    change_authority(key_lake.kernel, updated_at_ms=1)
    new = key_lake.load("t").json()["config"]
    assert new["s3.session-token"] != old["s3.session-token"]
    for config in (old, new):
        key_lake.files(config).write_new(f"{location}/data/{config['s3.access-key-id']}", b"x")
    change_authority(key_lake.kernel, enabled=False)
    assert "storage-credentials" not in key_lake.load("t").json()


def test_rotated_secrets_count_with_the_next_load(key_lake: KeyLake) -> None:
    key_lake.create("t")
    [authority] = key_lake.kernel.credentials.known.of(key_lake.call().account_id, -1)
    encrypt = key_lake.kernel.credentials.secrets.encrypt
    right = {"secret-access-key": key_lake.server.secret_access_key}
    change_authority(key_lake.kernel, secrets=encrypt(authority.id, {"secret-access-key": "wrong"}))
    assert key_lake.load("t").status_code == 503
    change_authority(key_lake.kernel, secrets=encrypt(authority.id, right))
    assert key_lake.load("t").status_code == 200


def test_keys_follow_the_location(key_lake: KeyLake) -> None:
    first = key_lake.create("t").json()["metadata"]["location"]
    assert key_lake.load("t").json()["storage-credentials"][0]["prefix"] == f"{first}/"
    update = {"action": "set-location", "location": f"s3://{key_lake.bucket}/wh/moved"}
    answer = key_lake.client.post(f"{key_lake.tables}/t", json={"requirements": [], "updates": [update]})
    assert answer.status_code == 200
    config = key_lake.load("t").json()["config"]
    files = key_lake.files(config)
    files.write_new(f"s3://{key_lake.bucket}/wh/moved/data/x", b"x")
    with pytest.raises(FloecatError, match=r"(?i)denied|refuse"):
        files.write_new(f"{first}/data/x", b"x")
    # as docs/storage.md says to open files that stay
    update = {"action": "set-properties", "updates": {"write.object-storage.path": first}}
    answer = key_lake.client.post(f"{key_lake.tables}/t", json={"requirements": [], "updates": [update]})
    assert answer.status_code == 200
    files = key_lake.files(key_lake.load("t").json()["config"])
    for folder in (first, f"s3://{key_lake.bucket}/wh/moved"):
        files.write_new(f"{folder}/data/y", b"y")


@pytest.mark.parametrize("name", ["a*b", "a${aws:username}", "it's", "表 データ", "a%2Fb", "a+b=c&d"])
def test_odd_names_open_themselves_alone(key_lake: KeyLake, name: str) -> None:
    location = f"s3://{key_lake.bucket}/wh/{name}"
    answer = key_lake.create("t", ASKS, location=location)
    assert answer.status_code == 200, answer.text
    files = key_lake.files(answer.json()["config"])
    if "*" in name or "$" in name:  # the server knows no policy variables for characters: AWS opens these
        with pytest.raises(FloecatError, match=r"(?i)denied|refuse"):
            files.write_new(f"{location}/data/x", b"x")
    else:
        files.write_new(f"{location}/data/x", b"x")
        assert files.read(f"{location}/data/x") == b"x"
    for other in (name.replace("*", "x"), f"{name}x", "a"):
        if other == name:
            continue
        with pytest.raises(FloecatError, match=r"(?i)denied|refuse"):
            files.write_new(f"s3://{key_lake.bucket}/wh/{other}/data/x", b"x")


def test_locations_that_no_policy_holds_are_400(key_lake: KeyLake) -> None:
    long = f"s3://{key_lake.bucket}/wh/" + "x" * 700
    answer = key_lake.create("t", ASKS, location=f"{long}/t", properties={"write.data.path": f"{long}/d"})
    assert answer.status_code == 400
    assert "2 locations take a session policy of" in answer.json()["error"]["message"]
    assert key_lake.load("t").status_code == 404
