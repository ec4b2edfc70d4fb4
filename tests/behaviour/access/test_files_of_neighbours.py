"""Who may write in a namespace of his own has no files of a neighbour read by the service."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from litestar.testing import TestClient

from floecat.fileio.object_store import ObjectStoreFileIO
from floecat.runtime import Kernel
from floecat.settings import AwsSettings, S3Settings, Settings
from tests.behaviour.access.conftest import token
from tests.behaviour.access.requests import SCHEMA
from tests.behaviour.catalog.test_files_of_other_tables import BucketAppends
from tests.services.authorities import add_authority
from tests.services.s3 import S3Server

pytestmark = pytest.mark.s3

LAKE = "/v1/floecat/namespaces"


@pytest.fixture
def settings(settings: Settings, s3_server: S3Server, s3_bucket: str) -> Settings:
    keys = S3Settings(
        endpoint=s3_server.endpoint,
        path_style_access=True,
        access_key_id=s3_server.access_key_id,
        secret_access_key=s3_server.secret_access_key,
    )
    storage = msgspec.structs.replace(
        settings.storage,
        aws=AwsSettings(region=s3_server.region, s3=keys),
        allowed_locations=(f"s3://{s3_bucket}",),
    )
    return msgspec.structs.replace(settings, storage=storage)


def test_a_manifest_list_of_a_neighbour(
    client: TestClient[Any], settings: Settings, kernel: Kernel, s3_server: S3Server, s3_bucket: str
) -> None:
    def ask(name: str, path: str, body: object, status: int = 200) -> Any:
        groups = ("platform",) if name == "op" else ()
        answer = client.post(path, json=body, headers=token(settings, name, *groups))
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    add_authority(kernel, s3_server, f"s3://{s3_bucket}")
    for name in ("anna", "eve"):
        ask("op", LAKE, {"namespace": [name]})
        to = {"grantee": f"principal:{name}"}
        ask(
            "op",
            "/management/v1/access/grants",
            {"on": "catalog:floecat", "privileges": ["use_catalog"], **to},
        )
        rights = ["use_schema", "create_table", "register_table", "write_table"]
        ask(
            "op",
            "/management/v1/access/grants",
            {"on": f"namespace:floecat.{name}", "privileges": rights, **to},
        )
    files = ObjectStoreFileIO(s3_server.options())
    hers = f"s3://{s3_bucket}/anna/secrets"
    ask("anna", f"{LAKE}/anna/tables", {"name": "secrets", "schema": SCHEMA, "location": hers})
    updates = BucketAppends(files, hers).append(3)
    loaded = ask("anna", f"{LAKE}/anna/tables/secrets", {"requirements": [], "updates": updates})
    planned = ask("anna", f"{LAKE}/anna/tables/secrets/plan", {})["file-scan-tasks"]
    assert len(planned) == 3

    # eve guesses where the files are, and has no right to the table
    ask("eve", f"{LAKE}/anna/tables/secrets/plan", {}, 403)
    ask("eve", f"{LAKE}/eve/register", {"name": "x", "metadata-location": loaded["metadata-location"]}, 400)
    place = f"s3://{s3_bucket}/eve/t"
    document = loaded["metadata"] | {"location": place}
    files.write_new(f"{place}/metadata/v1.metadata.json", json.dumps(document).encode())
    ask(
        "eve",
        f"{LAKE}/eve/register",
        {"name": "t", "metadata-location": f"{place}/metadata/v1.metadata.json"},
    )
    ask("eve", f"{LAKE}/eve/tables", {"name": "u", "schema": SCHEMA, "location": f"s3://{s3_bucket}/eve/u"})
    ask("eve", f"{LAKE}/eve/tables/u", {"requirements": [], "updates": updates})
    for name in ("t", "u"):
        refused = ask("eve", f"{LAKE}/eve/tables/{name}/plan", {}, 400)
        assert refused["error"]["type"] == "BadRequestException"
        assert "anna" not in json.dumps(refused)
        assert "secrets" not in json.dumps(refused)
    assert ask("anna", f"{LAKE}/anna/tables/secrets/plan", {})["file-scan-tasks"] == planned
