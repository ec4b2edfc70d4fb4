"""Processes that scan are killed at calls to the store, for every kind that follows tables."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from floecat.auth.authorizer import Privilege
from floecat.connectors.connector_info import NewConnector
from floecat.entries.calls import Call
from floecat.fileio.local import LocalFileIO
from floecat.runtime import Kernel, prepare_store
from floecat.store.database.engine import Store
from floecat.store.entries import followed_entries
from tests.clocks import SetClock
from tests.faults.consistency import check_consistency
from tests.faults.scan_worker import scan_settings
from tests.job_rows import job_rows
from tests.services.rest_catalog import scripted_catalog
from tests.services.unity_catalog import unity_catalog

KINDS = ["iceberg", "iceberg-rest", "pyiceberg", "unity"]
SCHEMA = Schema(NestedField(1, "id", LongType()))
_HOUR_MS = 3_600_000


class KilledScanners:
    """A catalog of PyIceberg that is shown in the way of a kind, and processes that scan it and die."""

    def __init__(self, folder: Path, kind: str, running: ExitStack) -> None:
        self.data_dir = folder / "data"
        self.clock = SetClock()
        settings = scan_settings(str(self.data_dir))
        prepare_store(settings)
        self.kernel = Kernel(settings, Store.open(settings.store_url), LocalFileIO(fsync=False), self.clock)
        account = settings.gateway.default_account_id
        catalog = self.kernel.catalog.catalogs.ensure(account, "floecat", settings.warehouse_location)
        self.call = Call.of_service("tester", catalog)
        lake = self.data_dir / "warehouse" / "upstream"
        lake.mkdir(parents=True)
        uri = f"sqlite:///{lake}/catalog.db"
        self.upstream = SqlCatalog("lake", uri=uri, warehouse=lake.as_uri())
        self.upstream.create_namespace("sales")
        self.locations: dict[str, set[str]] = {}
        self.store_url = settings.store_url
        self._shown: Any = None
        wanted: dict[str, Any] = {"location": lake.as_uri()}
        if kind == "pyiceberg":
            wanted = {"location": "pyiceberg:lake", "options": {"type": "sql", "uri": uri}}
        elif kind == "iceberg-rest":
            self._shown = running.enter_context(scripted_catalog())
            self._shown.document = self._document
            wanted = {"location": self._shown.url}
        elif kind == "unity":
            self._shown = running.enter_context(unity_catalog())
            wanted = {"location": self._shown.url, "options": {"catalog": "main"}}
        self.kind = kind
        self.kernel.connectors.connectors.create(self.call, NewConnector("up", kind, **wanted))

    def change(self, number: int) -> None:
        """Two new tables, a commit to an older one, and, but for folders, one that goes."""
        names = sorted(self.there())
        for each in ("a", "b"):
            self.upstream.create_table(f"sales.{each}{number:03}", SCHEMA)
        if names:
            with self.upstream.load_table(f"sales.{names[0]}").transaction() as transaction:
                transaction.set_properties(round=str(number))
        if len(names) > 3 and self.kind != "iceberg":
            self.upstream.drop_table(f"sales.{names[1]}")
        found = self.there()
        for name, location in found.items():
            self.locations.setdefault(name, set()).add(location)
        if self.kind == "iceberg-rest":
            self._shown.namespaces = {("sales",): sorted(found)}
        if self.kind == "unity":
            self._shown.schemas.clear()
            for name, location in found.items():
                self._shown.add(
                    "main",
                    "sales",
                    name,
                    properties={"delta.universalFormat.enabledFormats": "iceberg"},
                    delta_uniform_iceberg={"metadata_location": location},
                )

    def there(self) -> dict[str, str]:
        """Location of the metadata of each table upstream."""
        names = [each[-1] for each in self.upstream.list_tables("sales")]
        return {name: self.upstream.load_table(f"sales.{name}").metadata_location for name in names}

    def here(self) -> dict[str, str]:
        """The same of each table here; each is one that was there, once, and whole."""
        connector = self.kernel.connectors.connectors.find(self.call, "up", Privilege.READ_CONNECTORS)
        with self.kernel.store.read() as conn:
            known = followed_entries.of_connector(conn, connector.id)
        names = sorted(each.name for each in self.kernel.catalog.tables.list_all(self.call))
        assert names == sorted(each.identifier.name for each in known)
        assert len({each.object_uuid for each in known}) == len(known)
        found = {}
        for each in known:
            location = self.kernel.catalog.tables.load(self.call, each.identifier).metadata_location or ""
            assert location in self.locations[each.identifier.name]
            if each.gone_at_ms is None:
                found[each.identifier.name] = location
        return found

    def killed_at(self, calls: int) -> bool:
        """Has a process scan until it is killed; returns whether it was."""
        command = [sys.executable, "-m", "tests.faults.scan_worker"]
        ended = subprocess.run(
            [*command, str(self.data_dir), str(self.clock.ms), str(calls)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr[-2000:]
        self.clock.ms += _HOUR_MS
        return ended.returncode != 0

    def finish(self) -> None:
        """What the next process makes of it."""
        for report in self.kernel.connectors.jobs.scan_due():
            assert report.summary is None
        self.clock.ms += _HOUR_MS

    def _document(self, name: str) -> dict[str, Any]:
        location = self.upstream.load_table(f"sales.{name}").metadata_location
        file = Path(location.removeprefix("file://"))
        document = json.loads(file.read_text())
        file.write_text(json.dumps(document))  # byte by byte what is answered
        return {"metadata-location": location, "metadata": document, "config": {}}


@pytest.fixture(params=KINDS)
def scanners(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KilledScanners]:
    with ExitStack() as running:
        made = KilledScanners(tmp_path, request.param, running)
        yield made
        made.kernel.close()
        made.upstream.engine.dispose()


@pytest.mark.parametrize("kills", [3, pytest.param(15, marks=[pytest.mark.scale, pytest.mark.timeout(900)])])
def test_killed_scanners_lose_and_double_nothing(scanners: KilledScanners, kills: int) -> None:
    number = at = died = 0
    while died < kills:
        number += 1
        # not more often than there are calls in a scan, and at other ones each time
        at = at % 40 + 40 // kills + 1
        scanners.change(number)
        was_killed = scanners.killed_at(at)
        died += was_killed
        scanners.here()
        if was_killed:
            scanners.finish()
        assert scanners.here() == scanners.there()
        assert number < 4 * kills
    jobs = job_rows(scanners.kernel, scanners.call, "connector-scan")
    assert {job.state for job in jobs} == {"succeeded"}
    assert len({job.id for job in jobs}) == len(jobs) >= number
    check_consistency(scanners.store_url)
