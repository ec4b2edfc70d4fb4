"""Loads that hand out keys to the storage, beside loads without; signatures; calls of STS of many loads."""

from __future__ import annotations

import argparse
import base64
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import msgspec

from benchmarks.figures import figure, percentile, progress
from benchmarks.metadata import SCHEMA
from benchmarks.servers import ACCESS_KEY, ROLE_ARN, SECRET_KEY, Floecat, Seaweed, floecat, seaweed
from benchmarks.wrk import run_wrk
from floecat.auth.actors import Actor
from floecat.auth.authorizer import AllowAll
from floecat.auth.principals import Principal
from floecat.credentials.authorities import S3Method, StorageAuthority
from floecat.credentials.authority_service import NewAuthority
from floecat.credentials.keys import KeyMaker, KeyScope, StorageKeys
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, kernel
from floecat.settings import load_settings

_ASKS = {"X-Iceberg-Access-Delegation": "vended-credentials"}
_CONNECTIONS = (1, 16)
_TURNS = 5
_CLIENTS = 16
_KEY = base64.b64encode(bytes(32)).decode()
"""Key of secrets, as the service has it."""


class _Counted:
    """Makes keys as another maker does, and keeps how long each call took."""

    def __init__(self, maker: KeyMaker) -> None:
        self._maker = maker
        self._lock = Lock()
        self.taken_ms: list[float] = []

    def make(self, authority: StorageAuthority, secrets: Mapping[str, str], scope: KeyScope) -> StorageKeys:
        begin = time.perf_counter()
        made = self._maker.make(authority, secrets, scope)
        with self._lock:
            self.taken_ms.append((time.perf_counter() - begin) * 1000)
        return made


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=2)
    chosen = parser.parse_args()
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        folder = Path(made)
        with seaweed(folder) as lake:
            settings = lake.settings()
            with floecat(folder, settings) as service:
                environ = {**settings, "FLOECAT_DATA_DIR": str(service.warehouse.parent)}
                _add_authority(environ, lake)
                progress(f"creating {chosen.tables} tables")
                _create(service, chosen.tables)
                _loads(service, chosen.seconds)
                _signatures(service, lake, chosen.seconds)
            _calls(environ, chosen.tables)


def _opened(environ: dict[str, str]) -> Any:
    return kernel(load_settings(environ={"FLOECAT_SECRETS_KEYS": _KEY, **environ}))


def _add_authority(environ: dict[str, str], lake: Seaweed) -> None:
    method = S3Method(
        access_key_id=ACCESS_KEY,
        role_arn=ROLE_ARN,
        region="us-east-1",
        endpoint=lake.s3,
        path_style_access=True,
    )
    wanted = NewAuthority("lake", f"s3://{lake.bucket}", method, {"secret-access-key": SECRET_KEY})
    with _opened(environ) as opened:
        account = opened.settings.gateway.default_account_id
        operator = Actor(Principal("benchmark", account), AllowAll())
        opened.credentials.authorities.create(operator, wanted, anywhere=True)


def _create(service: Floecat, tables: int) -> None:
    with service.client() as client:
        client.post("namespaces", json={"namespace": ["bench"]}).raise_for_status()

        def create(number: int) -> None:
            body = {"name": f"t{number}", "schema": SCHEMA}
            client.post("namespaces/bench/tables", json=body).raise_for_status()

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(create, range(tables)))


def _loads(service: Floecat, seconds: int) -> None:
    url = f"{service.api}/namespaces/bench/tables/t0"
    for connections in _CONNECTIONS:
        found: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(_TURNS):
            for asks, taken in found.items():
                taken.append(run_wrk(url, connections, seconds, _ASKS if asks else None).p50_ms)
        figure(
            f"vending.load.c{connections}.p50",
            median(found[True]),
            "ms",
            baseline=median(found[False]),
            target=1.3,
            note="with cached keys, beside one that asks for none",
        )


def _signatures(service: Floecat, lake: Seaweed, seconds: int) -> None:
    with service.client() as client:
        location = client.get("namespaces/bench/tables/t0").json()["metadata"]["location"]
    key = location.removeprefix("s3://")
    body = {"region": "us-east-1", "uri": f"{lake.s3}/{key}/data/x.parquet", "method": "GET", "headers": {}}
    sent = msgspec.json.encode(body)

    def sign(until_s: float) -> list[float]:
        taken = []
        with service.client() as client:
            while (begin := time.perf_counter()) < until_s:
                answer = client.post(
                    "namespaces/bench/tables/t0/sign",
                    content=sent,
                    headers={"content-type": "application/json"},
                )
                answer.raise_for_status()
                taken.append((time.perf_counter() - begin) * 1000)
        return taken

    for clients in _CONNECTIONS:
        until_s = time.perf_counter() + seconds
        with ThreadPoolExecutor(clients) as threads:
            taken = [each for found in threads.map(sign, [until_s] * clients) for each in found]
        figure(f"vending.sign.c{clients}.p50", percentile(taken, 0.5), "ms")
        note = "clients in Python on the same cores"
        figure(f"vending.sign.c{clients}", len(taken) / seconds, "1/s", better="higher", note=note)


def _calls(environ: dict[str, str], tables: int) -> None:
    """First loads of many tables, in this process: what STS takes is known of each."""
    with _opened(environ) as opened:
        makers: Any = opened.credentials.keys.makers
        counted = makers["s3"] = _Counted(makers["s3"])
        load = _loading(opened)
        names = [TableIdentifier(("bench",), f"t{number}") for number in range(tables)]
        alone = names[: min(100, tables // 2)]
        for name in alone:
            load(name, keys=False)
        plain_ms = [_timed(lambda name=name: load(name, keys=False)) for name in alone]  # type: ignore[misc]
        first_ms = [_timed(lambda name=name: load(name)) for name in alone]  # type: ignore[misc]
        figure(
            "vending.first-load-beyond-sts",
            median(first - sts for first, sts in zip(first_ms, counted.taken_ms, strict=True)),
            "ms",
            target=1,
            note=f"STS {median(counted.taken_ms):.2f} ms, a load without keys {median(plain_ms):.2f} ms",
        )
        counted.taken_ms.clear()
        with ThreadPoolExecutor(_CLIENTS) as clients:
            for _ in clients.map(lambda _: [load(name) for name in names], range(_CLIENTS)):
                pass
        note = f"{_CLIENTS} clients load {tables:,} tables, of which {len(alone)} have keys"
        figure("vending.sts-calls", len(counted.taken_ms), "calls", target=tables - len(alone), note=note)


def _loading(opened: Kernel) -> Callable[..., object]:
    account = opened.settings.gateway.default_account_id
    plain = opened.catalog.calls.open(Principal("benchmark", account), "floecat")
    asks = msgspec.structs.replace(plain, delegation=frozenset({"keys"}))

    def load(name: TableIdentifier, *, keys: bool = True) -> object:
        return opened.catalog.loader.load(asks if keys else plain, name)

    return load


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1000


if __name__ == "__main__":
    main()
