"""Requests with large bodies, and a large document that many clients load at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.attacks.attacked_service import USERS, AttackedService
from tests.attacks.honest_clients import SCHEMA

_NAMESPACES = "/v1/floecat/namespaces"
_MIB = 1 << 20


def _properties(size_bytes: int) -> dict[str, str]:
    return {f"p{number}": os.urandom(50).hex() * 10 for number in range(size_bytes // 1012)}


def _properties_of(size_bytes: int) -> dict[str, Any]:
    return {"action": "set-properties", "updates": _properties(size_bytes)}


def _columns_of(size_bytes: int) -> dict[str, Any]:
    fields = [
        {"id": number, "name": f"column_{number:06}", "required": False, "type": "long", "doc": "x" * 20}
        for number in range(1, size_bytes // 104)
    ]
    return {"action": "add-schema", "schema": {"type": "struct", "schema-id": 1, "fields": fields}}


@pytest.mark.parametrize(
    ("mebibytes", "update_of"), [(9, _columns_of), (48, _properties_of)], ids=["as allowed", "larger"]
)
def test_large_commits_at_once(
    start_attacked: Callable[..., AttackedService],
    mebibytes: int,
    update_of: Callable[[int], dict[str, Any]],
) -> None:
    attacked_service = start_attacked(FLOECAT_LIMITS_WORKING_MEMORY_WAIT_MS="3000")
    body = json.dumps({"requirements": [], "updates": [update_of(mebibytes * _MIB)]}).encode()
    namespaces = count()

    def send() -> None:
        path = f"{_NAMESPACES}/used{next(namespaces) % USERS}/tables/t"
        answer = attacked_service.send("POST", path, body)
        if len(body) > 10 * _MIB:
            assert answer.status == 413, answer
        else:
            assert answer.status == 200 or b"floecat.limits.working-memory-wait-ms" in answer.body, answer

    attacked_service.attack(send, at_once=8)


def test_one_new_document_is_loaded_by_many(start_attacked: Callable[..., AttackedService]) -> None:
    attacked_service = start_attacked(FLOECAT_GATEWAY_MAX_REQUEST_BODY_BYTES="64MiB")
    table = {"name": "large", "schema": SCHEMA, "properties": _properties(50 * _MIB)}
    tables = f"{_NAMESPACES}/used0/tables"
    assert attacked_service.send("POST", tables, json.dumps(table).encode()).status == 200

    def send() -> None:
        answer = attacked_service.send("GET", f"{tables}/large", **{"Accept-Encoding": "gzip"})
        assert answer.status == 200 or answer.is_refusal, answer

    attacked_service.attack(send, at_once=64)
