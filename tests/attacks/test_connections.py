"""Connections, heads and bodies of clients that have not logged in."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import httpx

from tests.attacks.attacked_service import AttackedService
from tests.attacks.honest_clients import HonestClients
from tests.services.catalog import CatalogServer

HEAD = b"GET /v1/config HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def connect(server: CatalogServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def status_of(connection: socket.socket) -> int:
    """The status of an answer; 0 if the connection was closed without one."""
    try:
        answer = connection.recv(4096)
    except ConnectionError:
        return 0
    return int(answer.split()[1]) if answer else 0


def test_2_gib_of_headers(attacked_service: AttackedService, seconds: float) -> None:
    part = b"a" * 65_536

    def send() -> None:
        with connect(attacked_service.server) as connection:
            sent = connection.send(HEAD + b"A: ")
            try:
                while sent < 2 << 30:
                    sent += connection.send(part)
            except ConnectionError:
                return
        raise AssertionError("2 GiB were taken")

    attacked_service.attack(send, at_once=4, least_s=seconds)


def test_heads_and_bodies_that_do_not_end(
    start_catalog: Callable[..., CatalogServer], seconds: float
) -> None:
    service = AttackedService(start_catalog(FLOECAT_LIMITS_HEAD_TIMEOUT="PT1S"))
    body = (
        HEAD.replace(b"GET /v1/config", b"POST /v1/namespaces")
        + b"Content-Type: application/json\r\nContent-Length: 10000\r\n\r\n"
    )
    with service.attacked() as report:
        ends_s = time.monotonic() + seconds
        statuses: list[int] = []
        while time.monotonic() < ends_s:
            with ExitStack() as stack:
                connections = [stack.enter_context(connect(service.server)) for _ in range(100)]
                for number, connection in enumerate(connections):
                    connection.sendall(body if number % 2 else HEAD)
                statuses += map(status_of, connections)
    print(report)
    report.check(never_slow_ms=100.0)
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
            time.sleep(2)
            samples = honest.samples()
    assert len(samples) > 20
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
        body = {"name": "t", "metadata-location": "s3://bucket/metadata/00000-a.metadata.json"}
        statuses: list[int] = []

        def register() -> None:
            statuses.append(httpx.post(f"{url}/ns/register", json=body, timeout=60).status_code)

        threads = [threading.Thread(target=register) for _ in range(10)]
        for thread in threads:
            thread.start()
        connection, _ = silent_storage.accept()
        time.sleep(0.5)
        begun_s = time.monotonic()
        server.stop()
        took_s = time.monotonic() - begun_s
        connection.close()
        for thread in threads:
            thread.join()
    assert took_s < 10
    assert set(statuses) == {503}
