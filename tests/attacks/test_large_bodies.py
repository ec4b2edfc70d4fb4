"""Requests with large bodies, and a large document that many clients load at once."""

from __future__ import annotations

import json
import os
from itertools import count

from tests.attacks.attacked_service import AttackedService
from tests.attacks.honest_clients import SCHEMA

_NAMESPACES = "/v1/floecat/namespaces"
_MIB = 1 << 20
_DECODES_MS = 2000
"""JSON of 48 MiB is decoded in one go, which holds the interpreter, here in several processes at once."""


def _properties(size_bytes: int) -> dict[str, str]:
    return {f"p{number}": os.urandom(50).hex() * 10 for number in range(size_bytes // 1012)}


def test_large_commits_at_once(attacked_service: AttackedService) -> None:
    update = {"action": "set-properties", "updates": _properties(48 * _MIB)}
    body = json.dumps({"requirements": [], "updates": [update]}).encode()
    namespaces = count()

    def send() -> None:
        path = f"{_NAMESPACES}/used{next(namespaces)}/tables/t"
        answer = attacked_service.send("POST", path, body)
        assert answer.status == 200 or b"floecat.limits.working-memory-bytes" in answer.body, answer

    attacked_service.attack(send, at_once=8, least_s=0, never_slow_ms=_DECODES_MS)


def test_one_new_document_is_loaded_by_many(attacked_service: AttackedService) -> None:
    table = {"name": "large", "schema": SCHEMA, "properties": _properties(50 * _MIB)}
    created = attacked_service.send("POST", f"{_NAMESPACES}/used0/tables", json.dumps(table).encode())
    assert created.status == 200

    def send() -> None:
        path = f"{_NAMESPACES}/used0/tables/large"
        answer = attacked_service.send("GET", path, **{"Accept-Encoding": "gzip"})
        assert answer.status == 200 or answer.is_refusal, answer

    attacked_service.attack(send, at_once=64, least_s=0)
