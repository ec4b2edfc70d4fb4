"""Large bodies and documents, many at once."""

from __future__ import annotations

import json
from itertools import count, cycle
from threading import Barrier

from tests.attacks.attacked_service import AttackedService
from tests.attacks.honest_clients import SCHEMA

TABLES = "/v1/floecat/namespaces/large/tables"
MIB = 1 << 20


def commit(size_bytes: int) -> bytes:
    """A commit that sets a property of this size."""
    updates = [{"action": "set-properties", "updates": {"large": "v" * size_bytes}}]
    return json.dumps({"requirements": [], "updates": updates}).encode()


def prepare(service: AttackedService, tables: int) -> None:
    """Makes empty tables `t0`, `t1` and so on."""
    assert service.send("POST", "/v1/floecat/namespaces", b'{"namespace": ["large"]}').status == 200
    for number in range(tables):
        body = json.dumps({"name": f"t{number}", "schema": SCHEMA}).encode()
        assert service.send("POST", TABLES, body).status == 200


def test_large_commits(attacked_service: AttackedService, seconds: float) -> None:
    """8 of 48 MiB at once. The decoder holds the interpreter for each of them, so others wait."""
    prepare(attacked_service, 8)
    body, tables = commit(48 * MIB), cycle(range(8))

    def send() -> None:
        answer = attacked_service.send("POST", f"{TABLES}/t{next(tables)}", body)
        assert answer.status == 200 or answer.is_refusal, answer.status

    attacked_service.attack(send, at_once=8, least_s=seconds, never_slow_ms=2000)


def test_compressed_loads_of_a_new_document(attacked_service: AttackedService, seconds: float) -> None:
    """64 of 50 MB at once, of a table whose document is new."""
    prepare(attacked_service, 1)
    rounds, numbers = Barrier(64), count()

    def send() -> None:
        if rounds.wait() == 0:
            assert (
                attacked_service.send("POST", f"{TABLES}/t0", commit(50_000_000 + next(numbers))).status
                == 200
            )
        rounds.wait()
        answer = attacked_service.send("GET", f"{TABLES}/t0", **{"Accept-Encoding": "gzip"})
        assert answer.status == 200 or answer.is_refusal, answer.status

    attacked_service.attack(send, at_once=64, least_s=seconds)
