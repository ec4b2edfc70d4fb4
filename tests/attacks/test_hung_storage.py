"""Object storage that takes connections and never answers."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import httpx
import pytest

from floecat.runtime import kernel
from floecat.settings.loading import load_settings
from tests.attacks.attacked_service import Form
from tests.attacks.honest_clients import SCHEMA
from tests.services.catalog import PATIENT_STORAGE, CatalogServer, s3_environment

_THREADS = 8
_THREADS_OF_STORAGE = 6
_CREATES = 30
_QUEUE_WAIT_S = 1.0
_STORAGE_S = 3.0
_BRIEFLY_S = 2.0


@pytest.fixture
def hung_endpoint() -> Iterator[str]:
    """An S3 endpoint that accepts everything and answers nothing."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:

        def accept() -> None:
            while True:
                try:
                    taken.append(listener.accept()[0])
                except OSError:  # closed
                    return

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    for connection in taken:
        connection.close()


def test_other_requests_go_on_and_the_others_are_answered_in_time(
    start_catalog: Callable[..., CatalogServer], hung_endpoint: str, form: Form
) -> None:
    """A request that waited for a thread behind the others would be refused before they end."""
    environment = s3_environment(hung_endpoint, "bucket", "key", "secret")
    for name in PATIENT_STORAGE:
        del environment[name]
    server = start_catalog(
        **environment,
        FLOECAT_STORAGE_ANSWER_TIMEOUT_MS=str(int(_STORAGE_S * 1000)),
        FLOECAT_GATEWAY_THREADS=str(_THREADS),
        FLOECAT_LIMITS_QUEUE_WAIT_MS=str(int(_QUEUE_WAIT_S * 1000)),
    )
    namespaces = f"{server.base_url}/v1/floecat/namespaces"
    assert httpx.post(namespaces, json={"namespace": ["ns"]}).status_code == 200
    elsewhere = _catalog_on_disk(server)
    assert httpx.post(elsewhere, json={"namespace": ["ns"]}).status_code == 200

    def create(number: int) -> tuple[int, str, float]:
        started_s = time.monotonic()
        answer = httpx.post(
            f"{namespaces}/ns/tables", json={"name": f"t{number}", "schema": SCHEMA}, timeout=60
        )
        assert answer.headers["retry-after"].isdigit()
        return (
            answer.status_code,
            json.loads(answer.content)["error"]["message"],
            time.monotonic() - started_s,
        )

    others = {
        "/health/live": 200,
        "/health/ready": 200,
        "/v1/config": 200,
        "/v1/floecat/namespaces": 200,
        "/v1/floecat/namespaces/ns": 200,
        "/v1/floecat/namespaces/ns/tables": 200,
        "/v1/floecat/namespaces/ns/tables/none": 404,
        "/v1/floecat/namespaces/ns/views/none": 404,
    }
    numbers = count()
    with ThreadPoolExecutor(_CREATES) as clients:
        creates = [clients.submit(create, number) for number in range(_CREATES)]
        while not all(each.done() for each in creates):
            made = httpx.post(
                f"{elsewhere}/ns/tables", json={"name": f"t{next(numbers)}", "schema": SCHEMA}, timeout=60
            )
            assert made.status_code == 200, made.text
            took_s = [made.elapsed.total_seconds()]
            for path, status in others.items():
                answer = httpx.get(server.base_url + path, timeout=60)
                assert answer.status_code == status, (path, answer.text)
                took_s.append(answer.elapsed.total_seconds())
            assert not form.checks_times or max(took_s) < _BRIEFLY_S
        answers = [each.result() for each in creates]
    assert Counter(status for status, _, _ in answers) == {503: _CREATES}
    refused = [message for _, message, _ in answers if "floecat.limits.queue-wait-ms" in message]
    assert 0 < len(refused) <= _CREATES - _THREADS_OF_STORAGE
    # twice the silence of storage, as a call that failed is tried again within it
    longest_s = max(took_s for _, _, took_s in answers)
    assert not form.checks_times or longest_s < _QUEUE_WAIT_S + 2 * _STORAGE_S + 5


def _catalog_on_disk(server: CatalogServer) -> str:
    """Creates a catalog on the local disk; returns the address of its namespaces."""
    settings = load_settings(environ={}, overrides={"floecat.data-dir": str(server.data_dir)})
    location = (server.data_dir / "elsewhere").as_uri()
    with kernel(settings) as opened:
        opened.catalog.catalogs.create(settings.gateway.default_account_id, "elsewhere", location)
    return f"{server.base_url}/v1/elsewhere/namespaces"
