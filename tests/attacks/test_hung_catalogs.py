"""Other catalogs that take connections and never answer, or send a byte now and then."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import uuid_utils.compat as uuids

from floecat.auth.principals import Principal
from floecat.connectors.connector_info import NewConnector
from floecat.connectors.upstream_http import UpstreamHttp
from floecat.entries.calls import Call
from floecat.errors import FloecatError
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import ConnectorSettings, Settings, StorageSettings
from tests.attacks.attacked_service import AttackedService, Form
from tests.attacks.honest_clients import SCHEMA

CONNECTORS = "/management/v1/catalogs/floecat/connectors"
_HOSTILE = 4
_CONNECTORS_OF_EACH = 8
_HONEST = 6
_BRIEFLY_S = 5.0


class HungCatalog:
    """Takes connections; sends nothing, or a byte every 20 ms.

    Attributes:
        url: where it is.
        asked: set once somebody asks it.
    """

    def __init__(self, listener: socket.socket, *, drips: bool) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.asked = threading.Event()
        self._listener = listener
        self._drips = drips
        self._taken: list[socket.socket] = []
        self._ended = threading.Event()

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._taken.append(connection)
                self.asked.set()
                if self._drips:
                    threading.Thread(target=self._drip, args=(connection,), daemon=True).start()

    def end(self) -> None:
        self._ended.set()
        for each in self._taken:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _drip(self, connection: socket.socket) -> None:
        with suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
            while not self._ended.wait(0.02):
                connection.sendall(b" ")


@contextmanager
def hung_catalog(*, drips: bool = False) -> Iterator[HungCatalog]:
    """One that hangs until the end of the block."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        made = HungCatalog(listener, drips=drips)
        thread = threading.Thread(target=made.serve)
        thread.start()
        try:
            yield made
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            made.end()


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[Kernel]:
    settings = Settings(
        data_dir=str(tmp_path / "data"),
        storage=StorageSettings(fsync=False),
        connectors=ConnectorSettings(allowed_hosts=("127.0.0.1",)),
    )
    prepare_store(settings)
    opened = open_kernel(settings)
    yield opened
    opened.close()


def account(kernel: Kernel, folder: Path) -> Call:
    account_id = uuids.uuid7()
    kernel.catalog.catalogs.create(account_id, "lake", folder.as_uri())
    return kernel.catalog.calls.open(Principal("tester", account_id), "lake")


def test_due_scans_of_other_accounts_go_on(lakes: Kernel, tmp_path: Path, form: Form) -> None:
    create = lakes.connectors.connectors.create
    with hung_catalog() as silent, hung_catalog(drips=True) as dripping:
        # they are due before the others, and come first by their ids
        for number in range(_HOSTILE):
            call = account(lakes, tmp_path / f"hostile{number}")
            for each in range(_CONNECTORS_OF_EACH):
                url = (silent if each % 2 else dripping).url
                create(call, NewConnector(f"hangs{each}", "iceberg-rest", url))
        for number in range(_HONEST):
            folder = tmp_path / f"honest{number}"
            folder.mkdir()
            (folder / "readme").write_text("nothing here")
            honest = account(lakes, folder)
            create(honest, NewConnector(f"honest{number}", "iceberg", folder.as_uri()))
        began_s = time.monotonic()
        due = lakes.connectors.jobs.scan_due()
        ended = {next(due).connector for _ in range(_HONEST)}
        took_s = time.monotonic() - began_s
        assert ended == {f"honest{number}" for number in range(_HONEST)}
        assert not form.checks_times or took_s < _BRIEFLY_S
        # one that becomes due meanwhile does not wait for the end of those either
        late = account(lakes, tmp_path / "honest0")
        create(late, NewConnector("late", "iceberg", (tmp_path / "honest0").as_uri()))
        assert next(due).connector == "late"
        # somebody scans now
        assert lakes.connectors.scans.scan(late, "late").error is None
    due.close()


def test_no_kind_waits_for_ever(lakes: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of every kind that speaks HTTP end by their deadline; so do those for a token."""
    monkeypatch.setitem(UpstreamHttp.__init__.__kwdefaults__, "timeout_s", 0.5)
    call = account(lakes, tmp_path / "lake")
    with hung_catalog() as silent, hung_catalog(drips=True) as dripping:
        for number, url in enumerate((silent.url, dripping.url)):
            token = {"scheme": "oauth2", "token-endpoint": url, "client-id": "a", "client-secret": "b"}
            wanted = [
                NewConnector(f"rest{number}", "iceberg-rest", url),
                NewConnector(f"unity{number}", "unity", url),
                NewConnector(f"token{number}", "iceberg-rest", "http://127.0.0.1:1", credentials=token),
            ]
            for each in wanted:
                lakes.connectors.connectors.create(call, each)
                began_s = time.monotonic()
                report = lakes.connectors.scans.scan(call, each.name)
                assert isinstance(report.error, FloecatError)
                assert "did not answer within" in report.error.message
                assert time.monotonic() - began_s < 30
                steps = lakes.connectors.trial.run(call, each.name)
                assert "did not answer within" in (steps[-1].problem or "")


@pytest.mark.parametrize("drips", [False, True], ids=["silent", "dripping"])
def test_requests_go_on(start_attacked: Callable[..., AttackedService], form: Form, *, drips: bool) -> None:
    service = start_attacked(
        FLOECAT_CONNECTORS_ALLOWED_HOSTS="127.0.0.1",
        FLOECAT_GATEWAY_THREADS="2",
        FLOECAT_LIMITS_THREADS_FOR_CATALOGS="1",
        FLOECAT_LIMITS_QUEUE_WAIT_MS="300",
    )
    with hung_catalog(drips=drips) as hung, ThreadPoolExecutor(4) as attackers:
        wanted = {"name": "hung", "kind": "iceberg-rest", "location": hung.url}
        assert service.send("POST", CONNECTORS, json.dumps(wanted).encode()).status == 201
        scan = attackers.submit(service.send, "POST", f"{CONNECTORS}/hung/scan")
        assert hung.asked.wait(30)
        others = [
            attackers.submit(service.send, method, f"{CONNECTORS}/hung/{what}")
            for method, what in (("POST", "scan"), ("GET", "differences"), ("POST", "validate"))
        ]
        took_s = []
        for number in range(20):
            table = json.dumps({"name": f"beside{number}", "schema": SCHEMA}).encode()
            began_s = time.monotonic()
            assert service.send("POST", "/v1/floecat/namespaces/used0/tables", table).status == 200
            assert service.send("GET", "/v1/floecat/namespaces/used0/tables/t").status == 200
            assert service.send("GET", f"{CONNECTORS}/hung").status == 200
            took_s.append(time.monotonic() - began_s)
        assert not form.checks_times or max(took_s) < _BRIEFLY_S
        for each in others:
            refused = each.result()
            assert (refused.status, b"hung" in refused.body) == (503, False), refused
        assert not scan.done()
        hung.end()
        ended = json.loads(scan.result().body)
        assert ended["registered"] == []
        assert ended["problem"]
