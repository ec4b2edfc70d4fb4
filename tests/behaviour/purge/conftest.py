"""A service with large tables, and a client that watches it from outside."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.large_tables import LargeTable, write_local, write_table
from floecat.fileio.opening import open_fileio
from tests.contract.lakes import BucketLake, FolderLake, Lake
from tests.services.catalog import CatalogServer, running_catalog, s3_environment
from tests.services.s3 import S3Server

_PATIENCE_S = 600.0
_LONG_FORM_S = 1200
_NO_SPARK = {"FLOECAT_PURGE_LARGE_JOB_OFFER": "PT0S"}
"""The service works on large tables without waiting for Spark."""

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives the long forms time to write their tables."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("scale"):
            item.add_marker(pytest.mark.timeout(_LONG_FORM_S))


class Service:
    """The service, its tables by name, and what was measured."""

    def __init__(self, lake: Lake, write: Callable[[str, bytes], None], threads: int) -> None:
        self.lake = lake
        self._write = write
        self._threads = threads
        self.tables: dict[str, LargeTable] = {}
        self.files: dict[str, set[str]] = {}
        self.documents: dict[str, Any] = {}
        self.drops_s: list[float] = []
        self.loads = Loads(self)
        server = lake.server
        self.namespace = f"ns{uuid.uuid4().hex}"
        self.root = f"{lake.root}/{self.namespace}"
        namespaces = f"{server.base_url}/v1/{server.warehouse}/namespaces"
        self.api = f"{namespaces}/{self.namespace}"
        self.management = f"{server.base_url}/management/v1/catalogs/{server.warehouse}/purges"
        self.http = self.client()
        self.http.post(namespaces, json={"namespace": [self.namespace]}).raise_for_status()

    @staticmethod
    def client() -> httpx.Client:
        return httpx.Client(timeout=60, headers={"x-client-version": "test"})

    def make(self, name: str, files: int, folder: str | None = None, written: int | None = None) -> None:
        """Makes a table; of its data files as many as `written` says, or all."""
        location = f"{self.root}/{folder or name}"
        data_files = count()

        def write(location: str, data: bytes) -> None:
            if written is None or "/data/" not in location or next(data_files) < written:
                self._write(location, data)

        self.tables[name] = write_table(location, files, write, threads=self._threads)
        self.register(name)
        self.files[name] = self.lake.files(location)
        missing = 0 if written is None else files - written
        assert len(self.files[name]) == self.tables[name].files - missing

    def register(self, name: str) -> None:
        body = {"name": name, "metadata-location": self.tables[name].metadata_location}
        self.http.post(f"{self.api}/register", json=body).raise_for_status()
        self.documents[name] = self.load(name)

    def load(self, name: str) -> Any:
        return self.http.get(f"{self.api}/tables/{name}").raise_for_status().json()["metadata"]

    def exists(self, name: str) -> bool:
        return self.http.head(f"{self.api}/tables/{name}").status_code == 204

    def drop(self, name: str, *, purge: bool, client: httpx.Client | None = None) -> None:
        started = time.perf_counter()
        answer = (client or self.http).delete(
            f"{self.api}/tables/{name}", params={"purgeRequested": str(purge).lower()}
        )
        self.drops_s.append(time.perf_counter() - started)
        assert answer.status_code == 204, answer.text

    def purges(self, name: str) -> list[dict[str, Any]]:
        found = self.http.get(
            self.management, params={"table": f"{self.namespace}.{name}"}
        ).raise_for_status()
        purges: list[dict[str, Any]] = found.json()["purges"]
        return purges

    def ended(self, name: str) -> dict[str, Any]:
        """The one purge of a table, once it has ended."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            (purge,) = self.purges(name)
            if purge["finished-at-ms"] is not None:
                answer = self.http.get(f"{self.management}/{purge['id']}").raise_for_status()
                ended: dict[str, Any] = answer.json()
                return ended
            assert time.monotonic() < deadline, purge
            time.sleep(0.05)

    def left(self, name: str) -> set[str]:
        return self.lake.files(self.tables[name].location)


class Loads:
    """Loads one table all the time, in a thread."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.slowest_s = 0.0
        self.count = 0

    def start(self, name: str) -> None:
        def run() -> None:
            with self._service.client() as client:
                while not self._stop.is_set():
                    started = time.perf_counter()
                    client.get(f"{self._service.api}/tables/{name}").raise_for_status()
                    self.slowest_s = max(self.slowest_s, time.perf_counter() - started)
                    self.count += 1
                    self._stop.wait(0.01)

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()


@pytest.fixture
def start_service(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Service]]:
    """Starts a service on `disk` or on `an S3 server`."""
    with ExitStack() as running:

        def start(storage: str, **settings: str) -> Service:
            if request.node.get_closest_marker("scale"):
                settings |= _NO_SPARK
            if storage == "disk":
                server: CatalogServer = (
                    running.enter_context(running_catalog(tmp_path / "catalog", settings))
                    if settings
                    else request.getfixturevalue("catalog_server")
                )
                service = Service(FolderLake(server), write_local, 1)
            else:
                s3: S3Server = request.getfixturevalue("s3_server")
                bucket: str = request.getfixturevalue("s3_bucket")
                keys = (s3.access_key_id, s3.secret_access_key)
                environment = s3_environment(s3.endpoint, bucket, *keys) | settings
                server = running.enter_context(running_catalog(tmp_path / "catalog", environment))
                files = open_fileio(s3.options())
                service = Service(
                    BucketLake(server, s3, bucket),
                    lambda location, data: files.write_new(location, data, unique_name=True),
                    16,
                )
            running.callback(service.http.close)
            running.callback(service.loads.stop)
            return service

        yield start
