"""Filters as large as they may be, on tables of many files whose bounds say little of them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.attacks.attacked_service import AttackedService
from tests.scan_files import Appends

TABLES = "/v1/floecat/namespaces/planned/tables"
FIELDS = [
    {"id": 1, "name": "id", "required": True, "type": "long"},
    {"id": 2, "name": "text", "required": False, "type": "string"},
]
FILES = 5000
FETCHED = 3
"""Of each plan: all tasks together have gigabytes."""
ANSWERED_WITHIN_S = 60


def any_of(tests: list[dict[str, Any]]) -> dict[str, Any]:
    """A balanced tree of `or`."""
    if len(tests) == 1:
        return tests[0]
    half = len(tests) // 2
    return {"type": "or", "left": any_of(tests[:half]), "right": any_of(tests[half:])}


TRUNCATED = {"type": "transform", "transform": "truncate[7]", "term": "id"}
WORST = {
    "texts": {"type": "in", "term": "text", "values": [f"k{number:06}" for number in range(100_000)]},
    "truncated numbers": {"type": "in", "term": TRUNCATED, "values": list(range(0, 700_000, 7))},
    "one text": {"type": "eq", "term": "text", "value": "x" * (9 << 20)},
    "predicates": any_of([{"type": "eq", "term": "text", "value": f"k{each}"} for each in range(10_000)]),
}


@pytest.mark.parametrize("kind", WORST)
def test_a_filter_is_not_copied_for_every_file(attacked_service: AttackedService, kind: str) -> None:
    service, filter = attacked_service, WORST[kind]

    def ask(path: str, body: Any) -> Any:
        answer = service.send("POST", path, json.dumps(body).encode())
        return None if answer.is_refusal else json.loads(answer.body)

    ask("/v1/floecat/namespaces", {"namespace": ["planned"]})
    schema = {"type": "struct", "schema-id": 0, "fields": FIELDS}
    made = ask(TABLES, {"name": "t", "schema": schema})
    files = Appends(made["metadata"]["location"])
    ask(f"{TABLES}/t", {"requirements": [], "updates": files.append(FILES)})
    ask(f"{TABLES}/t/plan", {})  # the first plan imports what planning needs
    sizes: list[int] = []

    def send() -> None:
        answer = ask(f"{TABLES}/t/plan", {"filter": filter})
        if answer is None:
            return
        while answer["status"] == "submitted":
            time.sleep(0.05)
            polled = service.send("GET", f"{TABLES}/t/plan/{answer['plan-id']}")
            # under load it may close a connection; a plan that is lost would be polled for ever
            assert polled.status in (None, 200, 503), polled
            if polled.status == 200:
                answer |= json.loads(polled.body)
        for task in answer["plan-tasks"][:FETCHED]:
            fetched = service.send("POST", f"{TABLES}/t/tasks", json.dumps({"plan-task": task}).encode())
            if not fetched.is_refusal:
                sizes.append(len(fetched.body))
                tasks = json.loads(fetched.body)["file-scan-tasks"]
                assert all(each["residual-filter"] == filter for each in tasks)
        service.send("DELETE", f"{TABLES}/t/plan/{answer['plan-id']}")

    service.attack(send, at_once=8)
    # on a slow machine all of an attack may be refused; who asks after it is answered
    ends_s = time.monotonic() + ANSWERED_WITHIN_S
    while not sizes and time.monotonic() < ends_s:
        send()
    assert sizes
    assert max(sizes) <= 10 << 20
    print(f"{len(sizes)} answers of up to {max(sizes) >> 20} MiB")
