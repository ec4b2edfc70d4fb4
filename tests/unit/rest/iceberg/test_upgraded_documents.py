"""An upgrade of the store beside a running service: a document that it changes is answered at once."""

from __future__ import annotations

import json
from pathlib import Path

from litestar.testing import TestClient

from floecat.runtime import kernel, prepare_store
from floecat.settings import Settings, StorageSettings
from floecat.store.database.engine import Store
from floecat.store.documents import compress
from floecat_rest.app import create_app

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
TABLES = "/v1/floecat/namespaces/a/tables"


def test_entity_tag_changes_once(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path), storage=StorageSettings(fsync=False))
    prepare_store(settings)
    with kernel(settings) as opened:
        with TestClient(create_app(settings, opened), base_url="http://127.0.0.1") as client:
            client.post("/v1/floecat/namespaces", json={"namespace": ["a"]})
            made = client.post(TABLES, json={"name": "t", "schema": SCHEMA}).json()["metadata"]
        old = json.dumps(made | {"last-column-id": 0, "properties": None}).encode()
        store = Store.open(settings.store_url)
        with store._engine.begin() as connection:
            connection.exec_driver_sql("UPDATE metadata_documents SET body = ?", (compress(old),))
            connection.exec_driver_sql("UPDATE entries SET document_form = 0, version = version + 1")
        store.close()
        with TestClient(create_app(settings, opened), base_url="http://127.0.0.1") as client:
            before = client.get(f"{TABLES}/t")
            assert before.json()["metadata"]["last-column-id"] == 0
            prepare_store(settings)
            upgraded = client.get(f"{TABLES}/t")
            prepare_store(settings)
            again = client.get(f"{TABLES}/t", headers={"if-none-match": upgraded.headers["etag"]})
    assert upgraded.json()["metadata"]["last-column-id"] == 1
    assert "properties" not in upgraded.json()["metadata"]
    assert upgraded.headers["etag"] != before.headers["etag"]
    assert again.status_code == 304
    assert upgraded.json()["metadata-location"] == before.json()["metadata-location"]
