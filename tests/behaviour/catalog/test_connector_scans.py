"""Connectors of a catalog, and what their scans make of what they find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from floecat.connectors.connector_info import NewConnector, ScanProgress
from floecat.connectors.registrations import TableRegistration
from floecat.connectors.scan_reports import ConnectorScanReport
from floecat.connectors.spi import ConnectorSource, DiscoveredTable, Discovery, UnreadablePlace
from floecat.delta import delta_rows as delta_tables
from floecat.delta.connector import DeltaConnector
from floecat.entries.calls import Call, PageRequest
from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    FileMissingError,
    InvalidDeltaTableError,
    LocationNotAllowedError,
    NoSuchWarehouseError,
    NotFoundError,
    StorageUnavailableError,
    UnavailableError,
)
from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.runtime import Kernel, open_kernel
from floecat.settings import ConnectorSettings, Duration
from floecat.settings.limits import LimitSettings
from floecat.store.catalogs import connectors
from floecat.store.jobs import job_claims
from tests.behaviour.catalog.changes import create
from tests.behaviour.catalog.conftest import with_key
from tests.behaviour.catalog.delta_engine import SetEngine, delta_log, engine_of, register
from tests.job_rows import job_rows


@pytest.fixture
def engine(kernel: Kernel) -> SetEngine:
    return engine_of(kernel)


def connect(kernel: Kernel, call: Call, name: str = "lake", path: str = "delta", **fields: Any) -> None:
    fields = {"kind": "delta", "location": f"{kernel.settings.warehouse_location}/{path}", **fields}
    kernel.connectors.connectors.create(call, NewConnector(name, **fields))


def names(kernel: Kernel, call: Call, *namespace: str) -> list[str]:
    page = kernel.catalog.tables.list(call, namespace, PageRequest())
    return [identifier.name for identifier in page.items]


def registered(report: ConnectorScanReport) -> list[str]:
    return [str(made.identifier) for made in report.registered]


class TestConnectors:
    def test_made_listed_and_removed(self, kernel: Kernel, call: Call):
        connect(kernel, call, "b", options={"namespaces": "flat"}, enabled=False)
        connect(kernel, call, "a", namespace=("raw", "x"), interval_ms=60_000)
        made = kernel.connectors.connectors.list(call)
        assert [(row.name, row.namespace, row.enabled, row.interval_ms) for row in made] == [
            ("a", ("raw", "x"), True, 60_000),
            ("b", ("b",), False, 600_000),
        ]
        assert kernel.connectors.connectors.load(call, "b") == made[1]
        kernel.connectors.connectors.drop(call, "a")
        assert [row.name for row in kernel.connectors.connectors.list(call)] == ["b"]
        for missing in (
            kernel.connectors.connectors.load,
            kernel.connectors.connectors.drop,
            kernel.connectors.scans.scan,
        ):
            with pytest.raises(NotFoundError, match="Connector does not exist: a"):
                missing(call, "a")

    def test_a_name_is_taken(self, kernel: Kernel, call: Call):
        connect(kernel, call)
        with pytest.raises(AlreadyExistsError, match="Connector already exists: lake"):
            connect(kernel, call)

    def test_their_number_is_bounded(self, kernel: Kernel, call: Call):
        settings = msgspec.structs.replace(kernel.settings, limits=LimitSettings(connectors=2))
        bounded = open_kernel(settings)
        try:
            for name in "ab":
                connect(bounded, call, name)
            with pytest.raises(ConflictError, match=r"2 connectors already \(floecat.limits.connectors\)"):
                connect(bounded, call, "c")
        finally:
            bounded.close()
        assert len(kernel.connectors.connectors.list(call)) == 2

    def test_a_key_has_one_effect(self, kernel: Kernel, call: Call):
        keyed = with_key(call, "0190a1b2-0000-7000-8000-000000000001")
        connect(kernel, keyed)
        connect(kernel, keyed)
        assert len(kernel.connectors.connectors.list(call)) == 1

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"name": ""}, BadRequestError),
            ({"kind": "hudi"}, BadRequestError),
            ({"kind": "os:system"}, BadRequestError),
            ({"location": "relative"}, BadRequestError),
            ({"location": "s3://elsewhere"}, LocationNotAllowedError),
            ({"namespace": ("a", "")}, BadRequestError),
            ({"namespace": ("a\x1fb",)}, BadRequestError),
            ({"options": {"namespaces": "deep"}}, BadRequestError),
            ({"options": {"name": "x" * 100_000}}, BadRequestError),
            ({"options": {"name": "a\x1fb"}}, BadRequestError),
            ({"options": {"exclude": "\udcff"}}, BadRequestError),
            ({"options": {"max-depth": "1" * 5_000}}, BadRequestError),
            ({"name": "a\x1fb"}, BadRequestError),
            ({"interval_ms": 9_999}, BadRequestError),
        ],
    )
    def test_what_is_refused(
        self, kernel: Kernel, call: Call, fields: dict[str, Any], error: type[Exception]
    ):
        with pytest.raises(error):
            connect(kernel, call, **{"name": "lake", **fields})
        assert kernel.connectors.connectors.list(call) == []


class TestScans:
    def test_new_tables_are_registered_below_the_namespace(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        for path in ("orders", "eu/orders", "eu/north/orders"):
            delta_log(kernel, f"delta/{path}")
        connect(kernel, call, namespace=("raw",))
        report = kernel.connectors.scans.scan(call, "lake")
        assert registered(report) == ["raw.eu.north.orders", "raw.eu.orders", "raw.orders"]
        assert (report.skipped, report.failed, report.error) == ([], [], None)
        assert [made.snapshot_id for made in report.registered] == [0, 0, 0]
        assert names(kernel, call, "raw", "eu", "north") == ["orders"]
        with kernel.store.read() as conn:
            connector = connectors.find(conn, call.catalog.id, "lake")
            rows = [delta_tables.get(conn, row.entry_id) for row in kernel.delta.tables.list(call)]
        assert connector is not None
        assert {row.connector_id for row in rows if row} == {connector.id}
        assert (connector.last_error, connector.last_scan_at_ms is None) == (None, False)

    def test_known_locations_are_skipped(self, kernel: Kernel, call: Call, engine: SetEngine):
        register(kernel, call, "by_hand")
        delta_log(kernel, "delta/new")
        connect(kernel, call)
        first = kernel.connectors.scans.scan(call, "lake")
        assert registered(first) == ["lake.new"]
        assert [str(known.identifier) for known in first.skipped] == ["ns.by_hand"]
        kernel.catalog.tables.rename(
            call, TableIdentifier(("lake",), "new"), TableIdentifier(("ns",), "renamed")
        )
        second = kernel.connectors.scans.scan(call, "lake")
        assert second.registered == []
        assert [str(known.identifier) for known in second.skipped] == ["ns.by_hand", "ns.renamed"]

    def test_a_table_of_another_catalog_is_not_known_here(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        register(kernel, call, "d")
        other = kernel.catalog.catalogs.create(
            call.principal.account_id, "other", f"{kernel.settings.warehouse_location}/delta"
        )
        elsewhere = msgspec.structs.replace(call, catalog=other)
        connect(kernel, elsewhere)
        assert registered(kernel.connectors.scans.scan(elsewhere, "lake")) == ["lake.d"]

    def test_one_bad_table_does_not_stop_the_others(self, kernel: Kernel, call: Call, engine: SetEngine):
        kernel.catalog.namespaces.create(call, ("lake",), {})
        for path in ("a", "taken", "x" * 255, "eu/\x1fodd/t", "z"):
            delta_log(kernel, f"delta/{path}")
        connect(kernel, call)
        kernel.commits.registration.register_table(
            call, ("lake",), "taken", create(kernel, call, "i").metadata_location or ""
        )
        report = kernel.connectors.scans.scan(call, "lake")
        named = {failure.identifier and failure.identifier.name for failure in report.failed}
        assert named == {"taken", None}
        assert registered(report) == ["lake.a", f"lake.{'x' * 255}", "lake.z"]
        assert report.summary is not None
        assert report.summary.startswith("2 failed, the first at file:")
        assert kernel.connectors.connectors.load(call, "lake").last_error == report.summary

    def test_a_table_that_cannot_be_read_is_registered_with_its_problem(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        engine.problem = InvalidDeltaTableError("version 1 is missing")
        for name in "ab":
            delta_log(kernel, f"delta/{name}")
        connect(kernel, call)
        report = kernel.connectors.scans.scan(call, "lake")
        assert [made.problem for made in report.registered] == [engine.problem] * 2
        assert report.failed == []

    def test_a_fault_of_one_table_is_told_without_its_text(
        self, kernel: Kernel, call: Call, engine: SetEngine, monkeypatch: pytest.MonkeyPatch
    ):
        for name in "ab":
            delta_log(kernel, f"delta/{name}")
        connect(kernel, call)
        register = kernel.delta.registration.register

        def fail_for_a(
            call: Call, namespace: Namespace, name: str, *rest: Any, **more: Any
        ) -> TableRegistration:
            if name == "a":
                raise ValueError("secret")
            return register(call, namespace, name, *rest, **more)

        monkeypatch.setattr(kernel.delta.registration, "register", fail_for_a)
        report = kernel.connectors.scans.scan(call, "lake")
        assert registered(report) == ["lake.b"]
        assert [failure.error.message for failure in report.failed] == ["internal error: ValueError"]

    def test_folders_and_tables_of_a_scan_are_bounded(self, kernel: Kernel, call: Call, engine: SetEngine):
        for name in "abc":
            delta_log(kernel, f"delta/{name}")
        connect(kernel, call)
        # the root and a folder for each table
        for bound, number, done in (("connector_folders", 4, 2), ("connector_tables", 3, 2)):
            for most in (number - 1, number):
                limits = LimitSettings(**{bound: most})
                bounded = open_kernel(msgspec.structs.replace(kernel.settings, limits=limits))
                try:
                    engine_of(bounded)
                    report = bounded.connectors.scans.scan(call, "lake")
                finally:
                    bounded.close()
                assert (report.error is None) == (most == number)
                assert len(report.registered) + len(report.skipped) == (done if most < number else 3)
                if report.error is not None:
                    setting = bound.replace("_", "-")
                    assert f"{most} {bound.partition('_')[2]} (floecat.limits.{setting})" in str(
                        report.summary
                    )

    def test_the_report_and_the_time_of_a_scan_are_bounded(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        for name in "abc":
            delta_log(kernel, f"delta/{name}")
        connect(kernel, call)
        for bounds, setting, done in (
            ({"connector_report_bytes": 600}, "floecat.limits.connector-report-bytes", {1, 2}),
            ({"connector_scan_time": Duration(0)}, "floecat.limits.connector-scan-time", {0}),
        ):
            settings = msgspec.structs.replace(kernel.settings, limits=LimitSettings(**bounds))
            bounded = open_kernel(settings)
            try:
                engine_of(bounded)
                report = bounded.connectors.scans.scan(call, "lake")
            finally:
                bounded.close()
            assert setting in str(report.summary)
            assert len(report.registered) + len(report.skipped) in done
        assert len(kernel.connectors.scans.scan(call, "lake").registered) in {1, 2}

    def test_requests_for_scans_of_an_account_are_made_one_at_a_time(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        delta_log(kernel, "delta/a")
        connect(kernel, call)
        refused = []

        def told(_progress: ScanProgress) -> None:
            with pytest.raises(UnavailableError, match="Another scan of a connector is under way"):
                kernel.connectors.scans.scan(call, "lake")
            refused.append(1)

        assert registered(kernel.connectors.scans.scan(call, "lake", told)) == ["lake.a"]
        assert refused
        assert kernel.connectors.scans.scan(call, "lake").skipped

    def test_a_root_that_is_not_there_is_a_problem(self, kernel: Kernel, call: Call, engine: SetEngine):
        connect(kernel, call, path="misspelt")
        with pytest.raises(FileMissingError):
            kernel.connectors.connectors.check_root(call, "lake")
        report = kernel.connectors.scans.scan(call, "lake")
        assert [type(failure.error) for failure in report.failed] == [FileMissingError]
        assert "misspelt" in str(kernel.connectors.connectors.load(call, "lake").last_error)
        delta_log(kernel, "misspelt/t")
        kernel.connectors.connectors.check_root(call, "lake")
        assert registered(kernel.connectors.scans.scan(call, "lake")) == ["lake.t"]
        assert kernel.connectors.connectors.load(call, "lake").last_error is None

    def test_a_dropped_table_comes_back_unless_it_is_excluded(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        for name in ("a", "b"):
            delta_log(kernel, f"delta/{name}")
        connect(kernel, call)
        connect(kernel, call, "less", namespace=("lake",), options={"exclude": "a"})
        kernel.connectors.scans.scan(call, "lake")
        dropped = TableIdentifier(("lake",), "a")
        kernel.catalog.tables.drop(call, dropped)
        assert registered(kernel.connectors.scans.scan(call, "less")) == []
        assert registered(kernel.connectors.scans.scan(call, "lake")) == ["lake.a"]

    def test_tables_that_cannot_be_read_are_counted(self, kernel: Kernel, call: Call, engine: SetEngine):
        engine.problem = InvalidDeltaTableError("version 1 is missing")
        delta_log(kernel, "delta/a")
        connect(kernel, call)
        report = kernel.connectors.scans.scan(call, "lake")
        assert report.unreadable == report.registered
        delta_log(kernel, "delta/b")
        engine.problem = None
        assert kernel.connectors.scans.scan(call, "lake").unreadable == []

    def test_tables_are_read_only_while_there_is_time(self, kernel: Kernel, call: Call, engine: SetEngine):
        for name in "ab":
            delta_log(kernel, f"delta/{name}")
        connect(kernel, call)
        kernel.connectors.scans._reading_s = 0
        report = kernel.connectors.scans.scan(call, "lake")
        assert [made.snapshot_id for made in report.registered] == [None, None]
        assert engine.asked == []

    def test_a_location_that_is_not_allowed_any_more(self, kernel: Kernel, call: Call, engine: SetEngine):
        connect(kernel, call)
        with kernel.store.write() as conn:
            row = connectors.find(conn, call.catalog.id, "lake")
            assert row is not None
            connectors.update(conn, msgspec.structs.replace(row, location="s3://elsewhere"), 1)
        report = kernel.connectors.scans.scan(call, "lake")
        assert isinstance(report.error, LocationNotAllowedError)
        assert kernel.connectors.connectors.load(call, "lake").last_error == report.error.message

    def test_a_single_table(self, kernel: Kernel, call: Call, engine: SetEngine):
        delta_log(kernel, "delta/orders")
        connect(kernel, call, path="delta/orders", namespace=("ns",), options={"name": "first"})
        assert registered(kernel.connectors.scans.scan(call, "lake")) == ["ns.first"]

    def test_its_progress_is_told_with_each_folder_and_table(
        self, kernel: Kernel, call: Call, engine: SetEngine
    ):
        for path in ("delta/a/x", "delta/b", "delta/c/d/y"):
            delta_log(kernel, path)
        connect(kernel, call)
        told: list[ScanProgress] = []
        report = kernel.connectors.scans.scan(call, "lake", told.append)
        assert told[0] == ScanProgress(folders=1)
        assert told == sorted(told, key=msgspec.structs.astuple)
        assert told[-1] == report.progress == ScanProgress(folders=7, tables=3, registered=3)
        kernel.connectors.scans.scan(call, "lake", told.append)
        assert told[-1] == ScanProgress(folders=7, tables=3)


class TestSchedule:
    def test_each_that_is_due_is_scanned_once(self, kernel: Kernel, call: Call, engine: SetEngine):
        delta_log(kernel, "delta/d")
        connect(kernel, call, "on")
        connect(kernel, call, "off", enabled=False)
        assert [report.connector for report in kernel.connectors.jobs.scan_due()] == ["on"]
        assert list(kernel.connectors.jobs.scan_due()) == []
        assert names(kernel, call, "on") == ["d"]
        row = kernel.connectors.connectors.load(call, "on")
        assert row.next_scan_at_ms > row.created_at_ms + row.interval_ms - 1

    def test_a_scan_whose_process_died_is_done_again(
        self, kernel: Kernel, call: Call, engine: SetEngine, monkeypatch: pytest.MonkeyPatch
    ):
        class DiedError(BaseException):
            pass

        def die(*_: Any, **__: Any) -> TableRegistration:
            raise DiedError

        delta_log(kernel, "delta/d")
        connect(kernel, call, "on")
        with monkeypatch.context() as patch:
            patch.setattr(kernel.delta.registration, "register", die)
            with pytest.raises(DiedError):
                list(kernel.connectors.jobs.scan_due())
        (job,) = job_rows(kernel, call, "connector-scan")
        assert (job.state, job.title, job.attempts) == ("running", "on", 1)
        assert kernel.connectors.connectors.load(call, "on").running_scan == ScanProgress()
        assert [row.running_scan for row in kernel.connectors.connectors.list(call)] == [None]
        assert list(kernel.connectors.jobs.scan_due()) == []
        # its lease and its back-off are over
        with kernel.store.write() as conn:
            assert job_claims.put_back(
                conn,
                job_claims.Lease(job.id, job.lease_owner or "", job.lease_epoch),
                "{}",
                0,
                error="died",
                retry_at_ms=0,
            )
        assert [report.connector for report in kernel.connectors.jobs.scan_due()] == ["on"]
        assert names(kernel, call, "on") == ["d"]
        ended = kernel.jobs.get(call, job.id)
        assert ended.state == "succeeded"
        assert ended.counts == {
            "folders": 2,
            "tables": 1,
            "registered": 1,
            "failed": 0,
            "changed": 0,
            "gone": 0,
            "captures": 0,
        }
        assert kernel.connectors.connectors.load(call, "on").running_scan is None

    def test_a_scan_that_fails_does_not_stop_the_next(self, kernel: Kernel, call: Call, engine: SetEngine):
        delta_log(kernel, "delta/d")
        connect(kernel, call, "first", path="delta")
        connect(kernel, call, "second", path="delta")
        with kernel.store.write() as conn:
            row = connectors.find(conn, call.catalog.id, "first")
            assert row is not None
            connectors.update(conn, msgspec.structs.replace(row, options={"bad": "1"}), 1)
        reports = {report.connector: report for report in kernel.connectors.jobs.scan_due()}
        assert isinstance(reports["first"].error, BadRequestError)
        assert registered(reports["second"]) == ["second.d"]

    def test_a_catalog_by_its_id(self, kernel: Kernel, call: Call):
        assert kernel.catalog.catalogs.by_id(call.catalog.id).name == call.catalog.name
        with pytest.raises(NoSuchWarehouseError):
            kernel.catalog.catalogs.by_id(call.principal.account_id)


class OtherConnector:
    """A connector of somebody else, with every kind of surprise."""

    def __init__(self, source: ConnectorSource) -> None:
        if "broken" in source.options:
            raise TypeError(f"option {source.options}")
        self.source = source

    def discover(self) -> Iterator[Discovery]:
        root = self.source.location
        if "odd" in self.source.options:
            yield "no table"  # type: ignore[misc]
            yield DiscoveredTable(5, f"{root}/d")  # type: ignore[arg-type]
            yield DiscoveredTable("d", f"{root}/d", namespace="ab")  # type: ignore[arg-type]
            yield UnreadablePlace(f"{root}/x", ValueError("secret"))  # type: ignore[arg-type]
            yield DiscoveredTable("d", f"{root}/d", namespace=["a"])  # type: ignore[arg-type]
            return
        yield DiscoveredTable("d", f"{root}/d")
        yield DiscoveredTable("none", f"{root}/none")
        yield DiscoveredTable("h", f"{root}/d", format="hudi")
        if "away" in self.source.options:
            raise StorageUnavailableError("away")
        raise KeyError("s3://bucket?secret=1")


class TestOtherKinds:
    KIND = f"{__name__}:OtherConnector"

    @pytest.fixture
    def kernel(self, kernel: Kernel) -> Iterator[Kernel]:
        settings = msgspec.structs.replace(kernel.settings, connectors=ConnectorSettings(kinds=(self.KIND,)))
        opened = open_kernel(settings)
        yield opened
        opened.close()

    def test_what_it_finds_before_it_fails_counts(
        self, kernel: Kernel, call: Call, engine: SetEngine, tmp_path: Path
    ):
        delta_log(kernel, "delta/d")
        connect(kernel, call, kind=self.KIND)
        report = kernel.connectors.scans.scan(call, "lake")
        assert registered(report) == ["lake.d"]
        assert [type(failure.error) for failure in report.failed] == [BadRequestError]
        assert len(report.skipped) == 1
        assert report.error is not None
        assert report.error.message == report.summary == "internal error: KeyError"
        connect(kernel, call, "away", kind=self.KIND, options={"away": ""})
        assert kernel.connectors.scans.scan(call, "away").summary == "away"

    def test_what_is_no_table_stops_no_other(
        self, kernel: Kernel, call: Call, engine: SetEngine, caplog: pytest.LogCaptureFixture
    ):
        delta_log(kernel, "delta/d")
        connect(kernel, call, kind=self.KIND, options={"odd": ""})
        report = kernel.connectors.scans.scan(call, "lake")
        assert registered(report) == ["lake.a.d"]
        assert [failure.error.message.partition(": ")[2][:12] for failure in report.failed] == [
            "str",
            "Expected `st",
            "Expected `ar",
            "ValueError",
        ]
        assert report.error is None
        assert "secret" not in caplog.text
        assert "ValueError" in caplog.text

    def test_the_log_never_repeats_what_it_raises(
        self, kernel: Kernel, call: Call, engine: SetEngine, caplog: pytest.LogCaptureFixture
    ):
        connect(kernel, call, kind=self.KIND)
        kernel.connectors.scans.scan(call, "lake")
        assert "the scan of connector lake failed: KeyError" in caplog.text
        assert "in discover" in caplog.text
        assert "secret" not in caplog.text

    def test_a_class_that_fails_is_named(self, kernel: Kernel, call: Call, caplog: pytest.LogCaptureFixture):
        with pytest.raises(BadRequestError, match=rf"kind {self.KIND} .* raised TypeError") as refused:
            connect(kernel, call, kind=self.KIND, options={"broken": "hunter2"})
        assert "hunter2" not in refused.value.message + caplog.text
        assert "TypeError" in caplog.text
        assert kernel.connectors.connectors.list(call) == []

    def test_a_root_that_nobody_can_look_at_alone(self, kernel: Kernel, call: Call):
        connect(kernel, call, kind=self.KIND)
        kernel.connectors.connectors.check_root(call, "lake")


def test_what_a_scan_would_add_is_a_difference(kernel: Kernel, call: Call, engine: SetEngine):
    delta_log(kernel, "delta/a")
    connect(kernel, call)
    [difference] = kernel.connectors.scans.compare(call, "lake")
    assert (str(difference.identifier), difference.reason) == ("lake.a", "not here")
    assert kernel.connectors.scans.compare(call, "lake") == [difference]
    kernel.connectors.scans.scan(call, "lake")
    assert kernel.connectors.scans.compare(call, "lake") == []


def test_what_is_gone_from_storage_is_marked_and_stays(
    kernel: Kernel, call: Call, engine: SetEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("kept", "moved"):
        delta_log(kernel, f"delta/{path}")
    connect(kernel, call)
    scans = kernel.connectors.scans
    assert [each.change for each in scans.scan(call, "lake").changed] == []
    folder = Path(kernel.settings.warehouse_location.removeprefix("file://")) / "delta/moved"
    elsewhere = folder.rename(folder.parent.parent / "elsewhere")
    for _ in range(2):
        report = scans.scan(call, "lake")
        assert [(each.change, str(each.identifier)) for each in report.changed] == [("gone", "lake.moved")]
        assert report.progress == ScanProgress(folders=2, tables=1, gone=1)
    [difference] = scans.compare(call, "lake")
    assert (str(difference.identifier), difference.reason) == ("lake.moved", "gone there")
    assert difference.since_ms is not None
    [state] = kernel.connectors.connectors.states()
    assert state.gone == 1
    # a search that could not read all says nothing of what it did not find
    with monkeypatch.context() as patch:
        patch.setattr(
            DeltaConnector, "discover", lambda _self: iter([UnreadablePlace("x", FileMissingError("y"))])
        )
        assert scans.scan(call, "lake").changed == []
    assert names(kernel, call, "lake") == ["kept", "moved"]
    elsewhere.rename(folder)
    assert scans.scan(call, "lake").changed == scans.compare(call, "lake") == []
    [state] = kernel.connectors.connectors.states()
    assert state.gone == 0


def test_a_second_scan_of_registered_tables_costs_no_statement_a_table(
    kernel: Kernel, call: Call, engine: SetEngine
) -> None:
    connect(kernel, call)
    counts = []
    for tables in (1, 6):
        for number in range(tables):
            delta_log(kernel, f"delta/t{number}")
        kernel.connectors.scans.scan(call, "lake")
        with kernel.store.count_statements() as counter:
            assert len(kernel.connectors.scans.scan(call, "lake").skipped) == tables
        counts.append(counter.statements)
    assert counts[0] == counts[1]
