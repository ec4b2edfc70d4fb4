"""Keys to one table in the hands of a script that wants more."""

from __future__ import annotations

import time

import msgspec
import pytest

from floecat.credentials.keys import KeyScope
from floecat.fileio.locations import normalize_location
from tests.behaviour.storage.conftest import KeyLake
from tests.services.authorities import change_authority
from tests.services.misuse import KeyThief

pytestmark = pytest.mark.s3

_LIFE_S = 900
_LONGEST_S = 1100


def _made(key_lake: KeyLake, location: str, *, may_write: bool) -> KeyThief:
    kernel = key_lake.kernel
    account_id = kernel.settings.gateway.default_account_id
    [authority] = kernel.credentials.known.of(account_id, -1)
    scope = KeyScope((normalize_location(location),), may_write)
    return KeyThief(key_lake.server, kernel.credentials.keys.get(authority, scope).keys.config, location)


def test_the_keys_of_a_load_open_nothing_else(key_lake: KeyLake) -> None:
    location = key_lake.create("t").json()["metadata"]["location"]
    [credential] = key_lake.load("t").json()["storage-credentials"]
    thief = KeyThief(key_lake.server, credential["config"], location)
    assert thief.refused(may_write=True) == {}
    assert thief.reads_and_lists()


@pytest.mark.parametrize("may_write", [False, True])
@pytest.mark.parametrize("name", ["t1", "ä 表 +%2F'\"="])
def test_keys_to_a_folder_open_nothing_else(key_lake: KeyLake, name: str, may_write: bool) -> None:
    thief = _made(key_lake, f"s3://{key_lake.bucket}/wh/{name}", may_write=may_write)
    assert thief.refused(may_write=may_write) == {}
    assert thief.reads_and_lists()


@pytest.mark.parametrize("name", ["a*", "*", "$", "${aws:username}"])
def test_characters_of_policies_in_a_name_open_no_more(key_lake: KeyLake, name: str) -> None:
    """AWS has variables for these characters. SeaweedFS does not know them, and opens nothing."""
    thief = _made(key_lake, f"s3://{key_lake.bucket}/wh/{name}", may_write=True)
    assert thief.refused(may_write=True) == {}
    assert thief.answer() == "AccessDenied"


@pytest.mark.scale
def test_keys_open_nothing_after_their_end(key_lake: KeyLake) -> None:
    method = key_lake.kernel.credentials.known.of(key_lake.kernel.settings.gateway.default_account_id, -1)[
        0
    ].method
    change_authority(
        key_lake.kernel,
        method=msgspec.json.encode(msgspec.structs.replace(method, duration_s=_LIFE_S)).decode(),
        version=2,
    )
    thief = _made(key_lake, f"s3://{key_lake.bucket}/wh/t1", may_write=True)
    assert thief.refused(may_write=True) == {}
    began = time.monotonic()
    while not (answer := thief.answer()) and time.monotonic() - began < _LONGEST_S:
        time.sleep(5)
    assert answer in {"ExpiredToken", "AccessDenied", "InvalidToken"}
    assert time.monotonic() - began > _LIFE_S - 60
