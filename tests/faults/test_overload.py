"""Far more clients than connections to the store."""

from __future__ import annotations

import threading
import time
from collections import Counter

from tests.faults.answers import Sender
from tests.faults.consistency import check_consistency
from tests.faults.deployment import Deployment
from tests.faults.requests import creating, setting, table_path, transaction

CLIENTS = 200
ROUNDS = 4


def test_200_clients_on_a_pool_of_5_are_all_answered(deployment: Deployment) -> None:
    server = deployment.start(FLOECAT_STORE_POOL_SIZE="5")
    sender = Sender(server.base_url, timeout_s=60)
    assert sender.send("POST", "/namespaces", {"namespace": ["ns"]}).status == 200
    for number in range(10):
        assert sender.send("POST", "/namespaces/ns/tables", creating(f"t{number}")).status == 200
    statuses: Counter[int | None] = Counter()
    failures: list[BaseException] = []
    gate, counting = threading.Barrier(CLIENTS), threading.Lock()

    def work(client: int) -> None:
        path, other = table_path(f"t{client % 10}"), f"t{(client + 1) % 10}"
        requests: list[tuple[str, str, object]] = [
            ("GET", path, None),
            ("POST", path, setting({f"k{client}": "1"})),
            ("GET", "/namespaces/ns/tables", None),
            ("POST", "/transactions/commit", transaction({other: setting({f"x{client}": "1"})})),
        ]
        gate.wait(60)
        for method, target, body in requests:
            answer = sender.send(method, target, body)
            with counting:
                statuses[answer.status] += 1

    def guarded(client: int) -> None:
        try:
            work(client)
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(client,), daemon=True) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 120
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), "a client was never answered"
    if failures:
        raise failures[0]
    assert statuses.keys() <= {200, 204, 503}, statuses
    assert sum(statuses.values()) == CLIENTS * ROUNDS
    # nobody is turned away where there is only a queue
    assert statuses[503] < CLIENTS, statuses
    marks = Counter(
        key[0] for number in range(10) for key in sender.metadata(table_path(f"t{number}"))["properties"]
    )
    assert marks["k"] + marks["x"] >= 2 * CLIENTS - statuses[503]
    check_consistency(deployment.store_url)
