"""Places with very many tables that cannot be read, below long names, scanned by many requests at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

from tests.attacks.attacked_service import LONG, AttackedService, Form

CONNECTORS = "/management/v1/catalogs/floecat/connectors"
MOST_BYTES = 4 << 20
TABLES = 4_000


def test_scans_at_once_of_places_with_long_names(
    start_attacked: Callable[..., AttackedService], form: Form
) -> None:
    service = start_attacked(FLOECAT_LIMITS_CONNECTOR_REPORT_BYTES="1MiB")
    deep = service.warehouse.joinpath("lake", *(letter * 200 for letter in "abcdefg"))
    for number in range(TABLES if form is LONG else 400):
        log = deep / f"{'t' * 200}{number}" / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020}.json").write_text("{}")
    lake = {"name": "lake", "kind": "delta", "location": (service.warehouse / "lake").as_uri()}
    # names of all folders together are too long for a table, so none is registered, and each is named
    sent = json.dumps(lake | {"options": {"max-depth": "20", "namespaces": "flat"}}).encode()
    assert service.send("POST", CONNECTORS, sent).status == 201
    outcomes: Counter[int | None] = Counter()

    def send() -> None:
        answer = service.send("POST", f"{CONNECTORS}/lake/scan")
        outcomes[answer.status] += 1
        assert answer.status in (200, 503), answer
        assert len(answer.body) < MOST_BYTES

    service.attack(send, at_once=40)
    assert outcomes[200] > 0
    report = json.loads(service.send("POST", f"{CONNECTORS}/lake/scan").body)
    assert report["failed"]
    assert form is not LONG or "floecat.limits.connector-report-bytes" in report["problem"]["message"]
