"""Connections, heads and bodies of clients that have not logged in."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import cycle

import httpx

from tests.attacks.attacked_service import AttackedService
from tests.attacks.honest_clients import HonestClients
from tests.services.catalog import CatalogServer

HEAD = b"GET /v1/config HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = HEAD.replace(b"GET /v1/config", b"POST /v1/namespaces") + b"Content-Type: application/json\r\n"
MOST_SENT = 256 << 20
"""64 MiB may be discarded (`floecat.limits.discarded-bytes`); more lies in the buffers of the system."""


def connect(server: CatalogServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def status_of(connection: socket.socket) -> int:
    """The status of an answer; 0 if the connection was closed without one."""
    try:
        answer = connection.recv(4096)
    except ConnectionError:
        return 0
    return int(answer.split()[1]) if answer else 0


def test_2_gib_of_headers_and_bodies(attacked_service: AttackedService) -> None:
    part = b"a" * 65_536
    starts = cycle([HEAD + b"A: ", POST + b"Content-Length: %d\r\n\r\n" % (2 << 30)])

    def send() -> None:
        with connect(attacked_service.server) as connection, suppress(ConnectionError):
            sent = connection.send(next(starts))
            while sent < MOST_SENT:
                sent += connection.send(part)
        assert sent < MOST_SENT

    attacked_service.attack(send, at_once=4)


def test_heads_and_bodies_that_do_not_end(start_attacked: Callable[..., AttackedService]) -> None:
    service = start_attacked(FLOECAT_LIMITS_HEAD_TIMEOUT="PT1S")
    body = POST + b"Content-Length: 10000\r\n\r\n"
    with service.attacked() as report:
        ends_s = time.monotonic() + service.form.lasts_s
        statuses: list[int] = []
        while time.monotonic() < ends_s:
            with ExitStack() as stack:
                connections = [stack.enter_context(connect(service.server)) for _ in range(100)]
                for number, connection in enumerate(connections):
                    connection.sendall(body if number % 2 else HEAD)
                statuses += map(status_of, connections)
    print(report)
    report.check(service.form)
    assert set(statuses) == {408}


def test_200_idle_connections_beside_128_descriptors(start_catalog: Callable[..., CatalogServer]) -> None:
    server = start_catalog()
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (128, 128))
    with ExitStack() as idle:
        for _ in range(200):
            idle.enter_context(connect(server))
        with HonestClients(server.base_url) as honest:
            for _ in range(200):
                idle.enter_context(connect(server))
            time.sleep(1)
            samples = honest.samples()
    assert samples
    assert {sample.outcome for sample in samples} <= {"200", "204"}
    assert "floecat.limits.connections was hit" in server.log_tail(1000)


def test_shutdown_ends_in_time_beside_threads_that_hang(start_catalog: Callable[..., CatalogServer]) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=200) as silent_storage:
        silent_storage.settimeout(20)
        server = start_catalog(
            FLOECAT_LIMITS_SHUTDOWN_GRACE="PT1S",
            FLOECAT_STORAGE_ALLOWED_LOCATIONS="s3://bucket",
            FLOECAT_STORAGE_AWS_S3_ENDPOINT=f"http://127.0.0.1:{silent_storage.getsockname()[1]}",
            FLOECAT_STORAGE_AWS_S3_PATH_STYLE_ACCESS="true",
            FLOECAT_STORAGE_AWS_REGION="us-east-1",
            FLOECAT_STORAGE_AWS_S3_ACCESS_KEY_ID="a",
            FLOECAT_STORAGE_AWS_S3_SECRET_ACCESS_KEY="b",
        )
        url = f"{server.base_url}/v1/floecat/namespaces"
        httpx.post(url, json={"namespace": ["ns"]}).raise_for_status()
        statuses: list[int] = []

        def register(number: int) -> None:
            # those who read one file would wait for one reader
            body = {
                "name": f"t{number}",
                "metadata-location": f"s3://bucket/metadata/0000{number}-a.metadata.json",
            }
            statuses.append(httpx.post(f"{url}/ns/register", json=body, timeout=60).status_code)

        threads = [threading.Thread(target=register, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        with ExitStack() as connections:
            for _ in threads:
                connections.enter_context(silent_storage.accept()[0])
            begun_s = time.monotonic()
            server.stop()
            took_s = time.monotonic() - begun_s
        for thread in threads:
            thread.join()
    assert took_s < 30  # the storage would be waited for twice as long
    assert set(statuses) == {503}
