"""A service that lost the key of a secret says so, and works but for what needs the secret."""

from __future__ import annotations

import msgspec
import pytest

from floecat.auth.actors import Actor
from floecat.auth.authorizer import AllowAll
from floecat.auth.principals import Principal
from floecat.credentials.secrets import open_encryption
from floecat.settings import SecretSettings, Settings
from tests.behaviour.credentials.conftest import KEYS
from tests.behaviour.storage.conftest import KeyLake, key_lake
from tests.services.authorities import change_authority

__all__ = ["key_lake"]

pytestmark = pytest.mark.s3

AUTHORITY = "/management/v1/authorities/lake"


def test_a_lost_key_is_told_and_mended(key_lake: KeyLake) -> None:
    kernel = key_lake.kernel
    location = key_lake.create("t").json()["metadata"]["location"].removeprefix("s3://")
    assert key_lake.load("t").status_code == 200
    lost = open_encryption(Settings(secrets=SecretSettings(keys=(KEYS[0],))))
    actor = Actor(Principal("anna", kernel.settings.gateway.default_account_id), AllowAll())
    id = kernel.credentials.authorities.get(actor, "lake").id
    secrets = msgspec.json.encode({"secret-access-key": key_lake.server.secret_access_key}).decode()
    change_authority(kernel, secrets=lost.encrypt(secrets, str(id)))
    wanted = {"method": "GET", "uri": f"{key_lake.server.endpoint}/{location}/a", "region": "us-east-1"}
    signed = key_lake.client.post(f"{key_lake.tables}/t/sign", json={**wanted, "headers": {}})
    for refused in (key_lake.load("t"), signed):
        assert refused.status_code == 503
        assert refused.json()["error"]["message"] == (
            "Storage authority lake makes no keys: its secret was encrypted with a key that is not in the"
            " file secrets.key of the data folder: put that key there, or set the secret again"
        )
    assert key_lake.load("t", {}).status_code == 200
    assert key_lake.client.get(AUTHORITY).json()["secrets"] == {"secret-access-key": "***"}
    assert key_lake.client.post(AUTHORITY, json={"enabled": False}).status_code == 200
    assert "storage-credentials" not in key_lake.load("t").json()
    again = {"enabled": True, "secrets": {"secret-access-key": key_lake.server.secret_access_key}}
    assert key_lake.client.post(AUTHORITY, json=again).status_code == 200
    assert "storage-credentials" in key_lake.load("t").json()
