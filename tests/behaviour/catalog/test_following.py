"""Tables and views of another catalog that a connector follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import msgspec
import pytest

from floecat.auth.authorizer import Privilege
from floecat.auth.principals import Principal
from floecat.commits.view_commits import CreateView
from floecat.connectors.connector_info import ConnectorUpdate, NewConnector
from floecat.connectors.scan_reports import ConnectorScanReport
from floecat.connectors.spi import (
    ConnectorSource,
    DiscoveredTable,
    Discovery,
    UnreadablePlace,
    UpstreamDocument,
)
from floecat.entries.calls import Call, PageRequest
from floecat.errors import (
    ConflictError,
    ForbiddenError,
    NoSuchTableError,
    NotFoundError,
    StorageUnavailableError,
    UnsupportedOperationError,
)
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, open_kernel
from floecat.settings import ConnectorSettings, Duration
from tests.behaviour.catalog.changes import SCHEMA, append, change, create, set_property, table
from tests.grants import Grants
from tests.view_documents import view_version


class OtherCatalog:
    """A kind of connector: the tables and views of another catalog of the same service."""

    upstream: ClassVar[Call]
    kernel: ClassVar[Kernel]
    loads: ClassVar[list[str]] = []
    unreadable: ClassVar[bool] = False
    changed: ClassVar[Callable[[UpstreamDocument], UpstreamDocument]] = staticmethod(lambda found: found)

    def __init__(self, source: ConnectorSource) -> None:
        pass

    def discover(self) -> Iterator[Discovery]:
        services = self.kernel.catalog
        for each in services.tables.list(self.upstream, ("ns",), PageRequest()).items:
            yield DiscoveredTable(each.name, f"https://there/{each}", ("theirs",), format="iceberg")
        for each in services.views.list(self.upstream, ("ns",), PageRequest()).items:
            yield DiscoveredTable(
                each.name, f"https://there/{each}", ("theirs",), format="iceberg", kind="view"
            )
        if self.unreadable:
            yield UnreadablePlace("https://there/x", StorageUnavailableError("away"))

    def load(self, found: DiscoveredTable, known_state: str | None, /) -> UpstreamDocument | None:
        OtherCatalog.loads.append(found.name)
        identifier = table(found.name)
        if found.kind == "view":
            loaded = self.kernel.catalog.views.load(self.upstream, identifier)
        else:
            loaded = self.kernel.catalog.tables.load(self.upstream, identifier)
        location = loaded.metadata_location or ""
        if location == known_state:
            return None
        return self.changed(UpstreamDocument(location, location, loaded.metadata))


VIEW = CreateView("v", SCHEMA, msgspec.Raw(msgspec.json.encode(view_version())))
KIND = f"{__name__}:OtherCatalog"
MIRRORED = ("mirror", "theirs")


@pytest.fixture
def following(kernel: Kernel, call: Call, monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """A call on a catalog whose connector `mirror` follows the namespace `ns` of the default catalog."""
    settings = msgspec.structs.replace(
        kernel.settings, connectors=ConnectorSettings(kinds=(KIND,), gone_table_grace=Duration(0))
    )
    monkeypatch.setattr(OtherCatalog, "upstream", call, raising=False)
    monkeypatch.setattr(OtherCatalog, "kernel", kernel, raising=False)
    monkeypatch.setattr(OtherCatalog, "loads", [])
    opened = open_kernel(settings)
    catalog = opened.catalog.catalogs.create(
        call.principal.account_id, "mirror", kernel.settings.warehouse_location
    )
    made = Call.of_service("tester", catalog)
    location = kernel.settings.warehouse_location
    opened.connectors.connectors.create(made, NewConnector("mirror", KIND, location))
    monkeypatch.setattr(kernel, "connectors", opened.connectors)
    yield made
    opened.close()


def scan(kernel: Kernel, call: Call) -> ConnectorScanReport:
    return kernel.connectors.scans.scan(call, "mirror")


def changes(report: ConnectorScanReport) -> list[tuple[str, str]]:
    made = [("new", made.identifier.name) for made in report.registered]
    return made + [(each.change, each.identifier.name) for each in report.changed]


def here(name: str) -> TableIdentifier:
    return TableIdentifier(MIRRORED, name)


def loaded(kernel: Kernel, call: Call, name: str) -> dict[str, Any]:
    return msgspec.json.decode(kernel.catalog.tables.load(call, here(name)).metadata)


def names(kernel: Kernel, call: Call) -> list[str]:
    return [each.name for each in kernel.catalog.tables.list(call, MIRRORED, PageRequest()).items]


def entry_id(kernel: Kernel, call: Call, name: str) -> object:
    return kernel.catalog.tables.describe(call, here(name)).id


def exists(location: str) -> bool:
    return Path(unquote(urlsplit(location).path)).exists()


def test_tables_and_views_appear_and_are_read(kernel: Kernel, call: Call, following: Call):
    create(kernel, call, "a")
    create(kernel, call, "b")
    kernel.commits.views.create(call, ("ns",), VIEW)
    report = scan(kernel, following)
    assert changes(report) == [("new", "a"), ("new", "b"), ("new", "v")]
    assert (report.failed, report.error) == ([], None)
    there = kernel.catalog.tables.load(call, table("a"))
    mine = kernel.catalog.tables.load(following, here("a"))
    assert (mine.metadata, mine.metadata_location) == (there.metadata, there.metadata_location)
    view = kernel.catalog.views.load(following, here("v"))
    assert view.metadata == kernel.catalog.views.load(call, table("v")).metadata


def test_a_second_scan_writes_nothing(kernel: Kernel, call: Call, following: Call):
    create(kernel, call, "a")
    scan(kernel, following)
    before = kernel.catalog.tables.load(following, here("a")).etag
    second = scan(kernel, following)
    assert (changes(second), [each.identifier.name for each in second.skipped]) == ([], ["a"])
    assert kernel.catalog.tables.load(following, here("a")).etag == before


def test_a_second_scan_costs_no_statement_a_table(kernel: Kernel, call: Call, following: Call):
    counts = []
    for number in range(8):
        create(kernel, call, f"t{number}")
        if number in (1, 7):
            scan(kernel, following)
            loaded_before = len(OtherCatalog.loads)
            with kernel.store.count_statements() as counter:
                scan(kernel, following)
            # those of the other catalog, which is in this process
            counts.append(counter.statements - (len(OtherCatalog.loads) - loaded_before))
    assert counts[0] == counts[1]


def test_commits_upstream_follow(kernel: Kernel, call: Call, following: Call):
    location = msgspec.json.decode(create(kernel, call, "a").metadata)["location"]
    scan(kernel, following)
    kernel.commits.tables.commit(call, append("a", 1, None, location))
    kernel.commits.tables.commit(call, append("a", 2, 1, location))
    assert changes(scan(kernel, following)) == [("changed", "a")]
    assert loaded(kernel, following, "a")["current-snapshot-id"] == 2
    kernel.commits.tables.commit(call, set_property("a", "k", "v"))
    scan(kernel, following)
    assert loaded(kernel, following, "a")["properties"]["k"] == "v"


def test_commits_here_are_refused_with_the_address(kernel: Kernel, call: Call, following: Call):
    create(kernel, call, "a")
    kernel.commits.views.create(call, ("ns",), VIEW)
    scan(kernel, following)
    said = (
        r"{} mirror\.theirs\.{} follows another catalog .* \(connector mirror\): commit at https://there/ns"
    )
    wanted = msgspec.structs.replace(set_property("a", "k", "v"), identifier=here("a"))
    with pytest.raises(UnsupportedOperationError, match=said.format("Table", "a")):
        kernel.commits.tables.commit(following, wanted)
    with pytest.raises(UnsupportedOperationError, match=said.format("View", "v")):
        kernel.commits.views.replace(following, here("v"), [], [])
    with pytest.raises(UnsupportedOperationError, match=said.format("Table", "a")):
        kernel.commits.registration.register_table(
            following,
            MIRRORED,
            "a",
            kernel.catalog.tables.load(call, table("a")).metadata_location or "",
            overwrite=True,
        )


def test_a_rename_keeps_the_identity(kernel: Kernel, call: Call, following: Call):
    create(kernel, call, "a")
    scan(kernel, following)
    before = entry_id(kernel, following, "a")
    kernel.catalog.tables.rename(call, table("a"), table("z"))
    assert changes(scan(kernel, following)) == [("renamed", "z")]
    assert entry_id(kernel, following, "z") == before
    assert names(kernel, following) == ["z"]
    assert changes(scan(kernel, following)) == []


def test_a_name_that_was_given_here_stays(kernel: Kernel, call: Call, following: Call):
    create(kernel, call, "a")
    scan(kernel, following)
    kernel.catalog.tables.rename(following, here("a"), here("ours"))
    kernel.commits.tables.commit(call, set_property("a", "k", "v"))
    assert changes(scan(kernel, following)) == [("changed", "ours")]
    kernel.catalog.tables.rename(call, table("a"), table("b"))
    assert changes(scan(kernel, following)) == [("renamed", "ours")]
    assert names(kernel, following) == ["ours"]


def test_a_table_that_was_made_anew_is_another_one(kernel: Kernel, call: Call, following: Call):
    create(kernel, call, "a")
    scan(kernel, following)
    before = entry_id(kernel, following, "a")
    kernel.purge.drops.drop(call, table("a"), purge=False)
    create(kernel, call, "a")
    assert changes(scan(kernel, following)) == [("new", "a")]
    assert entry_id(kernel, following, "a") != before


def test_what_is_gone_stays_for_the_grace_and_goes(
    kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
):
    location = msgspec.json.decode(create(kernel, call, "a").metadata)["location"]
    file = kernel.catalog.tables.load(call, table("a")).metadata_location or ""
    create(kernel, call, "b")
    scan(kernel, following)
    kernel.purge.drops.drop(call, table("a"), purge=False)
    monkeypatch.setattr(kernel.connectors.scans._followed, "grace_ms", 3_600_000)
    assert changes(scan(kernel, following)) == [("gone", "a")]
    assert loaded(kernel, following, "a")["location"] == location
    # it is there again
    kernel.commits.registration.register_table(call, ("ns",), "a", file)
    assert changes(scan(kernel, following)) == []
    kernel.purge.drops.drop(call, table("a"), purge=False)
    assert changes(scan(kernel, following)) == [("gone", "a")]
    monkeypatch.setattr(kernel.connectors.scans._followed, "grace_ms", 0)
    assert changes(scan(kernel, following)) == [("removed", "a")]
    with pytest.raises(NoSuchTableError):
        kernel.catalog.tables.load(following, here("a"))
    assert exists(file)


def test_nothing_is_gone_where_the_search_was_not_complete(
    kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
):
    create(kernel, call, "a")
    scan(kernel, following)
    kernel.purge.drops.drop(call, table("a"), purge=False)
    monkeypatch.setattr(OtherCatalog, "unreadable", True)
    report = scan(kernel, following)
    assert (changes(report), len(report.failed)) == ([], 1)
    assert names(kernel, following) == ["a"]


def test_a_state_that_cannot_be_read_leaves_the_last_one(
    kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
):
    create(kernel, call, "a")
    create(kernel, call, "b")
    scan(kernel, following)
    kernel.commits.tables.commit(call, set_property("a", "k", "1"))
    with monkeypatch.context() as lying:
        lying.setattr(
            OtherCatalog,
            "changed",
            staticmethod(lambda found: msgspec.structs.replace(found, document=b"{}")),
        )
        report = scan(kernel, following)
    [failure] = report.failed
    assert (failure.identifier, [each.identifier.name for each in report.skipped]) == (here("a"), ["b"])
    assert "k" not in loaded(kernel, following, "a")["properties"]
    assert changes(scan(kernel, following)) == [("changed", "a")]
    assert loaded(kernel, following, "a")["properties"]["k"] == "1"


@pytest.mark.parametrize("place", ["location", "metadata-location"])
def test_locations_that_are_not_allowed_are_refused(
    kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch, place: str
):
    create(kernel, call, "a")

    def lie(found: UpstreamDocument) -> UpstreamDocument:
        if place == "metadata-location":
            return msgspec.structs.replace(found, metadata_location="s3://elsewhere/m/1.metadata.json")
        document = msgspec.json.decode(found.document or b"") | {"location": "s3://elsewhere/t"}
        return msgspec.structs.replace(found, document=msgspec.json.encode(document))

    monkeypatch.setattr(OtherCatalog, "changed", staticmethod(lie))
    report = scan(kernel, following)
    assert changes(report) == []
    assert "s3://elsewhere" in report.failed[0].error.message
    with pytest.raises(NoSuchTableError):
        kernel.catalog.tables.load(following, here("a"))


def test_a_table_that_comes_back_is_refused(kernel: Kernel, call: Call, following: Call):
    create(kernel, call, "a")
    scan(kernel, following)
    location = kernel.settings.warehouse_location
    kernel.connectors.connectors.create(following, NewConnector("second", KIND, location))
    report = kernel.connectors.scans.scan(following, "second")
    assert "which this catalog has already" in report.failed[0].error.message
    assert changes(report) == []


def test_a_drop_with_purge_leaves_the_files(kernel: Kernel, call: Call, following: Call):
    create(kernel, call, "a")
    file = kernel.catalog.tables.load(call, table("a")).metadata_location or ""
    scan(kernel, following)
    kernel.purge.drops.drop(following, here("a"), purge=True)
    for row in kernel.purge.queue.claim():
        kernel.purge.queue.work_on(row)
    assert exists(file)
    assert changes(scan(kernel, following)) == [("new", "a")]


def test_a_connector_that_is_deleted_leaves_its_tables(kernel: Kernel, call: Call, following: Call):
    create(kernel, call, "a")
    scan(kernel, following)
    kernel.connectors.connectors.drop(following, "mirror")
    assert names(kernel, following) == ["a"]
    wanted = msgspec.structs.replace(set_property("a", "k", "v"), identifier=here("a"))
    with pytest.raises(UnsupportedOperationError, match="read-only here: commit at https://there/"):
        kernel.commits.tables.commit(following, wanted)


class TestDifferences:
    def differences(self, kernel: Kernel, call: Call) -> dict[str, tuple[str, bool]]:
        found = kernel.connectors.scans.compare(call, "mirror")
        return {each.identifier.name: (each.reason, each.since_ms is not None) for each in found}

    def test_nothing_differs_after_a_scan(self, kernel: Kernel, call: Call, following: Call):
        create(kernel, call, "a")
        kernel.commits.views.create(call, ("ns",), VIEW)
        scan(kernel, following)
        assert self.differences(kernel, following) == {}

    def test_each_is_named_and_nothing_changes(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
    ):
        location = msgspec.json.decode(create(kernel, call, "behind").metadata)["location"]
        for name in ("dropped", "schema", "properties", "anew"):
            create(kernel, call, name)
        scan(kernel, following)
        kernel.commits.tables.commit(call, append("behind", 1, None, location))
        kernel.commits.tables.commit(call, append("behind", 2, 1, location))
        column = {"id": 3, "name": "more", "required": False, "type": "int"}
        schema = msgspec.json.decode(SCHEMA)
        added = {**schema, "schema-id": 1, "fields": [*schema["fields"], column]}
        updates = [
            {"action": "add-schema", "schema": added},
            {"action": "set-current-schema", "schema-id": -1},
        ]
        kernel.commits.tables.commit(call, change("schema", updates))
        kernel.commits.tables.commit(call, set_property("properties", "k", "v"))
        for name in ("dropped", "anew"):
            kernel.purge.drops.drop(call, table(name), purge=False)
        for name in ("anew", "new"):
            create(kernel, call, name)
        expected = {
            "anew": ("another table has its name", False),
            "behind": ("behind by 2 snapshots", True),
            "dropped": ("gone there", False),
            "new": ("not here", False),
            "properties": ("other metadata", True),
            "schema": ("another schema", True),
        }
        assert self.differences(kernel, following) == expected
        assert self.differences(kernel, following) == expected
        monkeypatch.setattr(kernel.connectors.scans._followed, "grace_ms", 3_600_000)
        scan(kernel, following)
        assert self.differences(kernel, following) == {"dropped": ("gone there", True)}


class TestSelection:
    def select(self, kernel: Kernel, call: Call, **policy: object) -> None:
        kernel.connectors.connectors.update(call, "mirror", ConnectorUpdate(policy=policy))

    def test_what_a_policy_leaves_out_goes_as_what_is_gone(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(kernel.connectors.scans._followed, "grace_ms", 3_600_000)
        for name in ("a", "b", "c_tmp"):
            create(kernel, call, name)
        self.select(kernel, following, tables=["!*_tmp"])
        assert changes(scan(kernel, following)) == [("new", "a"), ("new", "b")]
        self.select(kernel, following, tables=["a"])
        loaded_before = len(OtherCatalog.loads)
        report = scan(kernel, following)
        assert changes(report) == [("gone", "b")]
        assert OtherCatalog.loads[loaded_before:] == ["a"]
        differences = kernel.connectors.scans.compare(following, "mirror")
        assert [(each.identifier.name, each.reason) for each in differences] == [
            ("b", "left out by the policy")
        ]
        # it is still readable, and comes back as the same table
        assert names(kernel, following) == ["a", "b"]
        before = entry_id(kernel, following, "b")
        self.select(kernel, following, tables=None, namespaces=["theirs"])
        assert changes(scan(kernel, following)) == [("new", "c_tmp")]
        assert entry_id(kernel, following, "b") == before
        monkeypatch.setattr(kernel.connectors.scans._followed, "grace_ms", 0)
        self.select(kernel, following, namespaces=["other"])
        location = msgspec.json.decode(kernel.catalog.tables.load(call, table("a")).metadata)["location"]
        assert {each[0] for each in changes(scan(kernel, following))} == {"removed"}
        assert names(kernel, following) == []
        assert exists(location)

    def test_a_trial_tries_what_a_scan_takes(self, kernel: Kernel, call: Call, following: Call):
        for name in ("a", "b"):
            create(kernel, call, name)
        self.select(kernel, following, tables=["b"])
        steps = [each.what for each in kernel.connectors.trial.run(following, "mirror")]
        assert steps[0] == "lists tables, as theirs.b"
        self.select(kernel, following, tables=["c"])
        steps = [each.what for each in kernel.connectors.trial.run(following, "mirror")]
        assert steps == ["lists, and finds no table"]


class TestAdoption:
    def adopt(self, kernel: Kernel, call: Call, name: str) -> bool:
        return kernel.connectors.adoption.adopt(call, "mirror", here(name)).is_gone

    def test_an_adopted_table_takes_commits_and_is_left_alone(
        self, kernel: Kernel, call: Call, following: Call
    ):
        create(kernel, call, "a")
        kernel.commits.views.create(call, ("ns",), VIEW)
        scan(kernel, following)
        before = entry_id(kernel, following, "a")
        kernel.purge.drops.drop(call, table("a"), purge=False)
        assert self.adopt(kernel, following, "a")
        assert not self.adopt(kernel, following, "v")
        wanted = msgspec.structs.replace(set_property("a", "k", "v"), identifier=here("a"))
        kernel.commits.tables.commit(following, wanted)
        assert loaded(kernel, following, "a")["properties"]["k"] == "v"
        kernel.commits.views.replace(following, here("v"), [], [])
        assert changes(scan(kernel, following)) == []
        assert entry_id(kernel, following, "a") == before
        assert kernel.catalog.tables.describe(following, here("a")).format == "iceberg"
        with pytest.raises(NotFoundError, match="follows no table or view"):
            self.adopt(kernel, following, "a")

    def test_a_newer_state_there_is_refused(self, kernel: Kernel, call: Call, following: Call):
        create(kernel, call, "a")
        scan(kernel, following)
        kernel.commits.tables.commit(call, set_property("a", "k", "v"))
        newer = r"has a newer state of mirror\.theirs\.a: stop commits there"
        with pytest.raises(ConflictError, match=newer):
            self.adopt(kernel, following, "a")
        scan(kernel, following)
        assert not self.adopt(kernel, following, "a")

    def test_a_commit_there_meanwhile_is_told(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
    ):
        create(kernel, call, "a")
        scan(kernel, following)
        make_own = kernel.connectors.adoption._make_own

        def slowly(*arguments: Any) -> None:
            make_own(*arguments)
            kernel.commits.tables.commit(call, set_property("a", "k", "v"))

        monkeypatch.setattr(kernel.connectors.adoption, "_make_own", slowly)
        with pytest.raises(ConflictError, match="is adopted, and the other catalog took a commit meanwhile"):
            self.adopt(kernel, following, "a")

    def test_names_that_nothing_follows(self, kernel: Kernel, call: Call, following: Call):
        create(kernel, call, "a")
        for name in ("a", "none", "x\0y"):
            with pytest.raises(NotFoundError, match="Connector mirror follows no table or view"):
                self.adopt(kernel, following, name)

    def test_who_may_not_is_refused_and_nothing_changes(self, kernel: Kernel, call: Call, following: Call):
        create(kernel, call, "a")
        scan(kernel, following)
        grants = Grants()
        grants.grant_all("ann", "mirror")
        principal = Principal("ann", following.account_id)
        ann = msgspec.structs.replace(following, principal=principal, authorizer=grants)
        for refused in (
            (Privilege.MANAGE_CONNECTORS, following.on_catalog()),
            (Privilege.REGISTER_TABLE, following.on_entry("table", here("a"))),
        ):
            grants.deny_only(refused)
            with pytest.raises(ForbiddenError, match=str(refused[0])):
                self.adopt(kernel, ann, "a")
            assert kernel.catalog.tables.describe(following, here("a")).format == "followed"
        grants.deny_only()
        assert not self.adopt(kernel, ann, "a")
