"""Names, kinds and UUIDs that change in the other catalog, and what is done here while a scan runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import pytest

from floecat.connectors.connector_info import NewConnector
from floecat.connectors.spi import DiscoveredTable, Discovery, UpstreamDocument
from floecat.entries.calls import Call
from floecat.errors import AlreadyExistsError, ConflictError, UnavailableError
from floecat.runtime import Kernel
from floecat.settings import Duration
from tests.behaviour.catalog.changes import create, set_property, table
from tests.behaviour.catalog.test_following import (
    KIND,
    VIEW,
    OtherCatalog,
    changes,
    entry_id,
    following,
    here,
    loaded,
    names,
    scan,
)

__all__ = ["following"]


def rename(kernel: Kernel, call: Call, name: str, to: str) -> None:
    kernel.catalog.tables.rename(call, table(name), table(to))


def lies(monkeypatch: pytest.MonkeyPatch, change: Callable[[UpstreamDocument], UpstreamDocument]) -> None:
    monkeypatch.setattr(OtherCatalog, "changed", staticmethod(change))


def finds(monkeypatch: pytest.MonkeyPatch, *found: DiscoveredTable) -> None:
    def discover(_self: OtherCatalog) -> Iterator[Discovery]:
        yield from found

    monkeypatch.setattr(OtherCatalog, "discover", discover)


def problems(kernel: Kernel, call: Call) -> list[str]:
    return [each.error.message for each in scan(kernel, call).failed]


class TestNames:
    def test_a_table_that_is_put_in_the_place_of_another(self, kernel: Kernel, call: Call, following: Call):
        create(kernel, call, "orders")
        create(kernel, call, "orders_new")
        scan(kernel, following)
        old, new = (entry_id(kernel, following, name) for name in ("orders", "orders_new"))
        rename(kernel, call, "orders", "orders_old")
        rename(kernel, call, "orders_new", "orders")
        assert changes(scan(kernel, following)) == [("renamed", "orders_old"), ("renamed", "orders")]
        assert entry_id(kernel, following, "orders_old") == old
        assert entry_id(kernel, following, "orders") == new
        assert changes(scan(kernel, following)) == []

    def test_a_table_that_takes_the_name_of_one_that_was_dropped(
        self, kernel: Kernel, call: Call, following: Call
    ):
        create(kernel, call, "a")
        create(kernel, call, "b")
        scan(kernel, following)
        identity = entry_id(kernel, following, "b")
        kernel.purge.drops.drop(call, table("a"), purge=False)
        rename(kernel, call, "b", "a")
        assert changes(scan(kernel, following)) == [("renamed", "a")]
        assert (names(kernel, following), entry_id(kernel, following, "a")) == (["a"], identity)

    def test_names_that_are_exchanged_are_told_and_nothing_is_lost(
        self, kernel: Kernel, call: Call, following: Call
    ):
        create(kernel, call, "a")
        create(kernel, call, "b")
        scan(kernel, following)
        identities = [entry_id(kernel, following, name) for name in "ab"]
        for name, to in (("a", "x"), ("b", "a"), ("x", "b")):
            rename(kernel, call, name, to)
        report = scan(kernel, following)
        assert (changes(report), len(report.failed)) == ([], 2)
        assert "exchanged names of tables: rename them here" in report.failed[0].error.message
        assert [entry_id(kernel, following, name) for name in "ab"] == identities
        for name, to in (("a", "x"), ("b", "a"), ("x", "b")):
            kernel.catalog.tables.rename(following, here(name), here(to))
        kernel.commits.tables.commit(call, set_property("a", "of", "a"))
        assert scan(kernel, following).failed == []
        assert [entry_id(kernel, following, name) for name in "ba"] == identities
        assert loaded(kernel, following, "a")["properties"]["of"] == "a"

    def test_a_new_name_that_is_taken_leaves_the_table(self, kernel: Kernel, call: Call, following: Call):
        create(kernel, call, "a")
        create(kernel, call, "mine")
        scan(kernel, following)
        identity = entry_id(kernel, following, "a")
        kernel.catalog.tables.rename(following, here("mine"), here("b"))
        rename(kernel, call, "a", "b")
        for _ in range(2):
            report = scan(kernel, following)
            assert ([type(each.error) for each in report.failed], changes(report)) == (
                [AlreadyExistsError],
                [],
            )
            assert entry_id(kernel, following, "a") == identity

    def test_a_name_twice_in_a_scan(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
    ):
        create(kernel, call, "a")
        scan(kernel, following)
        identity = entry_id(kernel, following, "a")
        found = DiscoveredTable("a", "https://there/ns.a", ("theirs",), format="iceberg")
        finds(monkeypatch, found, msgspec.structs.replace(found, kind="view"))
        assert problems(kernel, following) == [
            "The other catalog has two tables or views of the name mirror.theirs.a"
        ]
        assert entry_id(kernel, following, "a") == identity

    @pytest.mark.parametrize(
        "name", ["", "x\0y", "x\x1fy", "n" * 1001, "\n"], ids=["none", "nul", "separator", "long", "line"]
    )
    def test_names_that_cannot_be_had(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch, name: str
    ):
        create(kernel, call, "a")
        monkeypatch.setattr(
            OtherCatalog, "load", lambda _self, _found, _known: UpstreamDocument(place, place, document)
        )
        made = kernel.catalog.tables.load(call, table("a"))
        place, document = made.metadata_location or "", made.metadata
        finds(
            monkeypatch,
            DiscoveredTable(name, "https://there/x", ("theirs",), format="iceberg"),
            DiscoveredTable("a", "https://there/y", ("theirs", name), format="iceberg"),
        )
        report = scan(kernel, following)
        assert (len(report.failed), report.registered, report.error) == (2, [], None)


class TestDocuments:
    def test_a_view_that_becomes_a_table_of_its_uuid(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
    ):
        kernel.commits.views.create(call, ("ns",), VIEW)
        scan(kernel, following)
        view = kernel.catalog.views.load(call, table("v"))
        uuid = msgspec.json.decode(view.metadata)["view-uuid"]
        kernel.catalog.views.drop(call, table("v"))
        create(kernel, call, "v")

        def lie(found: UpstreamDocument) -> UpstreamDocument:
            document = msgspec.json.decode(found.document or b"") | {"table-uuid": uuid}
            return msgspec.structs.replace(found, document=msgspec.json.encode(document))

        lies(monkeypatch, lie)
        assert changes(scan(kernel, following)) == [("new", "v")]
        assert loaded(kernel, following, "v")["table-uuid"] == uuid

    def test_a_uuid_that_is_here_in_other_letters(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
    ):
        create(kernel, call, "a")
        scan(kernel, following)

        def lie(found: UpstreamDocument) -> UpstreamDocument:
            document = msgspec.json.decode(found.document or b"")
            document["table-uuid"] = document["table-uuid"].upper()
            return msgspec.structs.replace(found, document=msgspec.json.encode(document))

        lies(monkeypatch, lie)
        location = kernel.settings.warehouse_location
        kernel.connectors.connectors.create(following, NewConnector("second", KIND, location))
        report = kernel.connectors.scans.scan(following, "second")
        assert "which this catalog has already" in report.failed[0].error.message

    @pytest.mark.parametrize("field", ["metadata_location", "state"])
    def test_very_long_texts(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch, field: str
    ):
        create(kernel, call, "a")
        text = f"{kernel.settings.warehouse_location}/{'x' * (1 << 20)}.metadata.json"
        lies(monkeypatch, lambda found: msgspec.structs.replace(found, **{field: text}))
        report = scan(kernel, following)
        assert report.error is None
        assert len(report.summary or "") < 100_000


class TestMeanwhile:
    def test_a_table_that_is_adopted_while_a_scan_removes_it(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
    ):
        create(kernel, call, "a")
        kernel.commits.views.create(call, ("ns",), VIEW)
        scan(kernel, following)
        kernel.purge.drops.drop(call, table("a"), purge=False)
        kernel.catalog.views.drop(call, table("v"))
        followed = kernel.connectors.scans._followed
        remove = followed.remove

        def adopted_before(call_: Call, known: Any) -> None:
            kernel.connectors.adoption.adopt(following, "mirror", known.identifier)
            remove(call_, known)

        monkeypatch.setattr(followed, "remove", adopted_before)
        scan(kernel, following)
        assert kernel.catalog.tables.describe(following, here("a")).format == "iceberg"
        assert kernel.catalog.views.load(following, here("v"))

    def test_an_own_table_that_has_the_name_by_now(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
    ):
        create(kernel, call, "a")
        create(kernel, call, "other")
        file = kernel.catalog.tables.load(call, table("other")).metadata_location or ""
        scan(kernel, following)
        for name in ("a", "other"):
            kernel.purge.drops.drop(call, table(name), purge=False)
        followed = kernel.connectors.scans._followed
        remove = followed.remove

        def replaced_before(call_: Call, known: Any) -> None:
            if known.identifier == here("a"):
                kernel.purge.drops.drop(following, here("a"), purge=False)
                kernel.purge.drops.drop(following, here("other"), purge=False)
                kernel.commits.registration.register_table(following, here("a").namespace, "a", file)
            remove(call_, known)

        monkeypatch.setattr(followed, "remove", replaced_before)
        scan(kernel, following)
        assert names(kernel, following) == ["a"]

    def test_a_table_that_is_adopted_while_a_scan_reads_it(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
    ):
        create(kernel, call, "a")
        scan(kernel, following)
        once: list[int] = []

        def adopted_before(found: UpstreamDocument) -> UpstreamDocument:
            if not once:
                once.append(1)
                monkeypatch.setattr(OtherCatalog, "load", lambda *_: None)
                kernel.connectors.adoption.adopt(following, "mirror", here("a"))
                wanted = msgspec.structs.replace(set_property("a", "own", "1"), identifier=here("a"))
                kernel.commits.tables.commit(following, wanted)
            return found

        kernel.commits.tables.commit(call, set_property("a", "theirs", "1"))
        lies(monkeypatch, adopted_before)
        [problem] = problems(kernel, following)
        assert "was adopted meanwhile" in problem
        assert loaded(kernel, following, "a")["properties"].keys() & {"own", "theirs"} == {"own"}

    def test_an_account_adopts_one_at_a_time(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
    ):
        create(kernel, call, "a")
        scan(kernel, following)
        refused = []

        def load(_self: OtherCatalog, _found: DiscoveredTable, _known: str | None) -> None:
            with pytest.raises(UnavailableError, match="Another table is being adopted") as raised:
                kernel.connectors.adoption.adopt(following, "mirror", here("a"))
            refused.append(raised.value.retry_after_s)

        monkeypatch.setattr(OtherCatalog, "load", load)
        kernel.connectors.adoption.adopt(following, "mirror", here("a"))
        assert refused == [5, 5]

    def test_tables_that_answer_slowly_end_a_scan_in_time(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
    ):
        for number in range(3):
            create(kernel, call, f"t{number}")
        scans = kernel.connectors.scans
        limits = msgspec.structs.replace(scans._limits, connector_scan_time=Duration(0))
        monkeypatch.setattr(scans, "_limits", limits)
        report = scan(kernel, following)
        assert "floecat.limits.connector-scan-time" in str(report.error)
        assert OtherCatalog.loads == []


class TestLeftTables:
    def test_a_connector_that_is_made_again_follows_on(self, kernel: Kernel, call: Call, following: Call):
        create(kernel, call, "a")
        create(kernel, call, "b")
        kernel.commits.views.create(call, ("ns",), VIEW)
        scan(kernel, following)
        identity = entry_id(kernel, following, "a")
        kernel.connectors.connectors.drop(following, "mirror")
        kernel.commits.tables.commit(call, set_property("a", "k", "v"))
        location = kernel.settings.warehouse_location
        kernel.connectors.connectors.create(following, NewConnector("mirror", KIND, location))
        report = scan(kernel, following)
        assert (changes(report), report.failed) == ([("changed", "a")], [])
        assert entry_id(kernel, following, "a") == identity
        assert loaded(kernel, following, "a")["properties"]["k"] == "v"
        kernel.purge.drops.drop(call, table("b"), purge=False)
        assert changes(scan(kernel, following)) == [("removed", "b")]


class TestAdoptedFiles:
    def adopted(self, kernel: Kernel, call: Call, monkeypatch: pytest.MonkeyPatch, value: str) -> Any:
        create(kernel, call, "a")

        def lie(found: UpstreamDocument) -> UpstreamDocument:
            document = msgspec.json.decode(found.document or b"")
            document["properties"] = {**document["properties"], "k": value}
            return msgspec.structs.replace(found, document=msgspec.json.encode(document))

        if value:
            lies(monkeypatch, lie)
        return kernel.catalog.tables.load(call, table("a")).metadata_location

    def test_the_file_holds_what_the_catalog_answers(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
    ):
        there = self.adopted(kernel, call, monkeypatch, "v")
        scan(kernel, following)
        kernel.connectors.adoption.adopt(following, "mirror", here("a"))
        made = kernel.catalog.tables.load(following, here("a"))
        assert made.metadata_location != there
        file = Path(unquote(urlsplit(made.metadata_location or "").path)).read_bytes()
        assert msgspec.json.decode(file) == msgspec.json.decode(made.metadata)
        assert msgspec.json.decode(file)["metadata-log"][-1]["metadata-file"] == there

    def test_one_that_holds_it_stays(
        self, kernel: Kernel, call: Call, following: Call, monkeypatch: pytest.MonkeyPatch
    ):
        there = self.adopted(kernel, call, monkeypatch, "")
        scan(kernel, following)
        kernel.connectors.adoption.adopt(following, "mirror", here("a"))
        assert kernel.catalog.tables.load(following, here("a")).metadata_location == there

    def test_a_file_that_is_not_there_is_not_adopted(self, kernel: Kernel, call: Call, following: Call):
        create(kernel, call, "a")
        scan(kernel, following)
        Path(
            unquote(urlsplit(kernel.catalog.tables.load(call, table("a")).metadata_location or "").path)
        ).unlink()
        with pytest.raises(Exception, match="there is no file") as raised:
            kernel.connectors.adoption.adopt(following, "mirror", here("a"))
        assert not isinstance(raised.value, ConflictError)
        assert kernel.catalog.tables.describe(following, here("a")).format == "followed"
