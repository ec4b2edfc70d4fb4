"""Chains of namespaces, while the service is killed and while the separator of schemas changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx

from floecat.errors import SettingsError
from floecat.runtime import open_kernel
from floecat.settings.loading import load_settings
from tests.faults.consistency import check_consistency
from tests.faults.deployment import Deployment

ACCOUNT = "5eaa9cd5-7d08-3750-9457-cfe800b0b9d2"
SCHEMAS = f"/api/metalakes/{ACCOUNT}/catalogs/floecat/schemas"
LEVELS = 5
KILLS = 4
PATIENCE_S = 60


def _chain(number: int, depth: int = LEVELS) -> str:
    return ":".join([f"c{number:05}", *(f"l{level}" for level in range(1, depth))])


def _names(client: httpx.Client, parent: str = "") -> list[str]:
    answer = client.get(SCHEMAS, params={"parentSchema": parent} if parent else None).raise_for_status()
    return [each["name"] for each in answer.json()["identifiers"]]


def test_a_killed_service_leaves_no_half_of_a_chain(deployment: Deployment) -> None:
    server = deployment.start()
    stopped = Event()
    told: dict[int, int] = {}

    def write(worker: int) -> None:
        """Makes chains, and drops the last level of every other one."""
        number = worker
        with httpx.Client(base_url=server.base_url, timeout=30) as client:
            while not stopped.is_set():
                try:
                    client.post(SCHEMAS, json={"name": _chain(number)}).raise_for_status()
                    told[number] = LEVELS
                    if number % 2:
                        told[number] = 0  # until the answer tells
                        client.delete(f"{SCHEMAS}/{_chain(number)}").raise_for_status()
                        told[number] = LEVELS - 1
                except httpx.TransportError:
                    time.sleep(0.05)
                number += 4

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, worker) for worker in range(4)]
        try:
            for _ in range(KILLS):
                before = len(told)
                while len(told) < before + 20:
                    time.sleep(0.01)
                server.kill()
                server.start()
        finally:
            stopped.set()
        for each in writers:
            each.result()
    with httpx.Client(base_url=server.base_url, timeout=30) as client:
        found = {}
        for top in _names(client):
            number, name, depth = int(top[1:]), top, 1
            while below := _names(client, name):
                assert below == [_chain(number, depth + 1)]
                (name,), depth = below, depth + 1
            found[number] = depth
    # the one whose answer was lost may be there or not, and may have lost its last level or not
    assert {depth for number, depth in found.items() if not number % 2} == {LEVELS}
    assert {depth for number, depth in found.items() if number % 2} <= {LEVELS, LEVELS - 1}
    assert {number: depth for number, depth in told.items() if depth and depth != found.get(number)} == {}
    check_consistency(deployment.store_url)


def test_no_level_with_a_new_separator_slips_in(deployment: Deployment) -> None:
    server = deployment.start()
    settings = load_settings(
        environ={**deployment.environment, "FLOECAT_NAMESPACES_SEPARATOR": ";"},
        overrides={"floecat.data-dir": str(deployment.data_dir)},
    )
    stopped = Event()
    spaces = "/v1/floecat/namespaces"

    def write(worker: int, path: str, body: Callable[[str], object]) -> set[int]:
        """Makes names and drops them again. Returns the statuses of all answers."""
        found, number = set(), 0
        with httpx.Client(base_url=server.base_url, timeout=30) as client:
            while not stopped.is_set():
                name = f"w{worker}n{number}"
                made = client.post(path, json=body(f"{name};x")).status_code
                found.add(made)
                if made == 200:
                    found.add(client.delete(f"{path}/{name}%3Bx").status_code)
                time.sleep(0.01)
                number += 1
        return found

    sides: list[tuple[str, Callable[[str], object]]] = [
        (spaces, lambda name: {"namespace": [name]}),
        (SCHEMAS, lambda name: {"name": name}),
    ]
    kernel = open_kernel(settings)
    try:
        with ThreadPoolExecutor(2) as pool:
            writers = [pool.submit(write, worker, path, body) for worker, (path, body) in enumerate(sides)]
            try:
                deadline = time.monotonic() + PATIENCE_S
                while True:
                    try:
                        kernel.catalog.nested.adopt_separator()
                    except SettingsError:
                        assert time.monotonic() < deadline
                        continue
                    break
                time.sleep(1)
            finally:
                stopped.set()
            statuses = set().union(*(each.result() for each in writers))
        with httpx.Client(base_url=server.base_url, timeout=30) as client:
            refused = client.post(spaces, json={"namespace": ["a;b"]})
            listed = client.get(spaces).json()["namespaces"]
    finally:
        kernel.close()
    assert statuses <= {200, 204, 400}
    assert "separator ';'" in refused.json()["error"]["message"]
    assert not [levels for levels in listed if ";" in levels[-1]]
