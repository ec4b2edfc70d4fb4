"""Labels of tables and views, which nothing sets yet: their way from an entry into the answer and its tag."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from litestar.testing import TestClient

from floecat.entries.calls import FieldLabels, Labels
from floecat.runtime import Kernel

OWNED = Labels(object_labels={"owner": "ops"})
LABELS = Labels({"owner": "ops"}, [FieldLabels(3, {"class": "pii", "unit": "m"})])
ENCODED = {
    "object-labels": {"owner": "ops"},
    "fields": [{"field-id": 3, "labels": {"class": "pii", "unit": "m"}}],
}
VERSION = {
    "version-id": 1,
    "timestamp-ms": 1,
    "schema-id": 0,
    "summary": {},
    "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    "default-namespace": [],
}


class Labelled:
    """Entries that have labels; all look-ups of the loads go through here."""

    def __init__(self, kernel: Kernel) -> None:
        self.labels: Labels | None = None
        self._entries = kernel.parts.entries

    def __enter__(self) -> Labelled:
        for name in ("find_table", "confirm_table", "last_seen_table", "find_view"):
            setattr(self._entries, name, self._with_labels(getattr(self._entries, name)))
        return self

    def __exit__(self, *_: object) -> None:
        for name in ("find_table", "confirm_table", "last_seen_table", "find_view"):
            delattr(self._entries, name)

    def _with_labels(self, find: Any) -> Any:
        def found(*arguments: Any) -> Any:
            entry = find(*arguments)
            return None if entry is None else msgspec.structs.replace(entry, labels=self.labels)

        return found


@pytest.fixture
def labelled(opened_kernel: Kernel) -> Iterator[Labelled]:
    with Labelled(opened_kernel) as made:
        yield made


@pytest.mark.parametrize("query", ["", "?snapshots=refs", "?snapshots=all&unknown=1"])
def test_of_a_table(client: TestClient[Any], table: str, labelled: Labelled, query: str) -> None:
    plain = client.get(table + query)
    assert "labels" not in plain.json()
    labelled.labels = LABELS
    for _ in range(2):  # the second answer comes from memory
        answer = client.get(table + query)
        assert answer.json() == plain.json() | {"labels": ENCODED}
    tag = answer.headers["etag"]
    held = {"if-none-match": tag}
    assert tag != plain.headers["etag"]
    assert client.get(table + query, headers=held).status_code == 304

    labelled.labels = OWNED
    changed = client.get(table + query, headers=held)
    assert (changed.status_code, changed.json()["labels"]) == (200, {"object-labels": {"owner": "ops"}})
    labelled.labels = None
    assert client.get(table + query).headers["etag"] == plain.headers["etag"]


def test_of_a_compressed_answer(client: TestClient[Any], table: str, labelled: Labelled) -> None:
    changes = [{"action": "set-properties", "updates": {"large": "x" * 2000}}]
    client.post(table, json={"requirements": [], "updates": changes}).raise_for_status()
    for labels in (None, LABELS, OWNED, None):
        labelled.labels = labels
        with client.stream("GET", table, headers={"accept-encoding": "gzip"}) as answer:
            body = json.loads(gzip.decompress(b"".join(answer.iter_raw())))
        expected = None if labels is None else msgspec.to_builtins(labels)
        assert body.get("labels") == expected


def test_of_a_view(client: TestClient[Any], namespace: str, labelled: Labelled) -> None:
    schema = {"type": "struct", "fields": []}
    body = {"name": "v", "schema": schema, "view-version": VERSION, "properties": {}}
    path = f"/v1/floecat/namespaces/{namespace}/views"
    plain = client.post(path, json=body).json()
    labelled.labels = LABELS
    assert client.get(f"{path}/v").json() == plain | {"labels": ENCODED}
    labelled.labels = None
    assert client.get(f"{path}/v").json() == plain
