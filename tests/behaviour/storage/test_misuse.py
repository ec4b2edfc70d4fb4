"""Keys to one table in the hands of a script that wants more."""

from __future__ import annotations

import pytest

from floecat.credentials.keys import KeyScope
from floecat.fileio.locations import normalize_location
from tests.behaviour.storage.conftest import KeyLake
from tests.services.misuse import KeyThief

pytestmark = pytest.mark.s3


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
