"""The connector `delta`: what it takes for a table, how it names tables, and what a search costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from floecat.connectors.spi import ConnectorSource, DiscoveredTable, UnreadablePlace
from floecat.delta.connector import DeltaConnector
from floecat.errors import (
    BadRequestError,
    FileMissingError,
    LocationNotAllowedError,
    StorageUnavailableError,
)
from floecat.fileio.opening import open_fileio
from tests.services.faults import FaultyFileIO
from tests.storages import storage_at


class Lake:
    """A folder with Delta tables, as far as a search looks at them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = FaultyFileIO(open_fileio(fsync=False))

    def add(self, *paths: str) -> None:
        for path in paths:
            log = self.root / path / "_delta_log"
            log.mkdir(parents=True)
            (log / "00000000000000000000.json").write_text("{}")

    def put(self, path: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")

    def connector(self, path: str = "", allowed: str = "", **options: str) -> DeltaConnector:
        location = (self.root / path).as_uri()
        roots = [(self.root / allowed).as_uri()]
        named = {key.replace("_", "-"): value for key, value in options.items()}
        return DeltaConnector(ConnectorSource(location, named, storage_at(roots, self.files)))

    def search(
        self, path: str = "", allowed: str = "", **options: str
    ) -> list[DiscoveredTable | UnreadablePlace]:
        return list(self.connector(path, allowed, **options).discover())

    def names(self, path: str = "", **options: str) -> list[str]:
        found = self.search(path, **options)
        assert all(isinstance(table, DiscoveredTable) for table in found), found
        return [".".join((*table.namespace, table.name)) for table in found]  # type: ignore[union-attr]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    root = tmp_path / "lake"
    root.mkdir()
    return Lake(root)


def test_folders_are_namespaces(lake: Lake) -> None:
    lake.add("orders", "sales/eu/orders", "sales/us/orders", "sales/customers")
    (orders, *_) = lake.search()
    assert orders == DiscoveredTable("orders", (lake.root / "orders").as_uri())
    assert lake.names() == ["orders", "sales.customers", "sales.eu.orders", "sales.us.orders"]


def test_flat_names_tell_the_folders(lake: Lake) -> None:
    lake.add("orders", "sales/eu/orders")
    assert lake.names(namespaces="flat") == ["orders", "sales_eu_orders"]


def test_a_single_table(lake: Lake) -> None:
    lake.add("sales/orders")
    assert lake.names("sales/orders") == ["orders"]
    assert lake.names("sales/orders", name="first") == ["first"]
    assert lake.names("sales", name="not-this") == ["orders"]


def test_no_table_there(lake: Lake) -> None:
    lake.put("readme.txt")
    assert lake.search() == []
    (lake.root / "empty" / "folder").mkdir(parents=True)
    assert lake.search("empty") == []


@pytest.mark.parametrize("root", ["", "none", "file"])
def test_a_root_with_nothing_in_it_is_told(lake: Lake, root: str) -> None:
    if root == "file":
        lake.put(root)
    (place,) = lake.search(root)
    assert isinstance(place, UnreadablePlace)
    assert isinstance(place.error, FileMissingError)
    assert place.location in place.error.message
    with pytest.raises(FileMissingError):
        lake.connector(root).check_root()


def test_a_look_at_the_root_alone(lake: Lake) -> None:
    lake.add("a/b/t")
    lake.connector().check_root()
    assert lake.files.counters.counts.calls == 1


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ("", ["a.tmp.t", "a.x1", "a.x2", "staging.a.t", "t"]),
        ("staging", ["a.tmp.t", "a.x1", "a.x2", "t"]),
        ("staging/", ["a.tmp.t", "a.x1", "a.x2", "t"]),
        ("a/x?", ["a.tmp.t", "staging.a.t", "t"]),
        ("a/x[2-9]", ["a.tmp.t", "a.x1", "staging.a.t", "t"]),
        ("x?", ["a.tmp.t", "a.x1", "a.x2", "staging.a.t", "t"]),
        ("**/tmp", ["a.x1", "a.x2", "staging.a.t", "t"]),
        ("**/t", ["a.x1", "a.x2"]),
        ("a/**", ["staging.a.t", "t"]),
        ("**/a/**/t, a/*1", ["a.x2", "t"]),
        ("A/x1", ["a.tmp.t", "a.x1", "a.x2", "staging.a.t", "t"]),
        ("*", []),
    ],
)
def test_folders_are_excluded(lake: Lake, patterns: str, found: list[str]) -> None:
    lake.add("t", "a/x1", "a/x2", "a/tmp/t", "staging/a/t")
    assert lake.names(exclude=patterns) == found


def test_what_is_excluded_is_not_looked_into(lake: Lake) -> None:
    lake.add("t", "staging/t")
    lake.names(exclude="staging")
    assert [location for _, location in lake.files.calls if "staging" in location] == []


def test_a_table_is_not_looked_into(lake: Lake) -> None:
    lake.add("t", "t/inner")
    lake.put("t/part-00000.parquet")
    assert lake.names() == ["t"]
    assert [location for _, location in lake.files.calls if "inner" in location] == []


def test_what_is_no_table(lake: Lake) -> None:
    lake.put("empty/_delta_log/_last_checkpoint")
    lake.put("nested/_delta_log/deeper/00000000000000000000.json")
    lake.put("short/_delta_log/0.json")
    lake.put("file/_delta_log_backup/00000000000000000000.json")
    lake.add("_hidden/t", ".trash/t", "hive/date=2026-01-01/t")
    assert lake.search() == []


@pytest.mark.parametrize("name", ["00000000000000000003.checkpoint.parquet", "00000000000000000012.json"])
def test_a_log_may_begin_anywhere(lake: Lake, name: str) -> None:
    lake.put(f"t/_delta_log/{name}")
    assert lake.names() == ["t"]


def test_a_folder_below_one_that_only_looks_like_a_table(lake: Lake) -> None:
    lake.put("sales/_delta_log/readme.txt")
    lake.add("sales/orders")
    assert lake.names() == ["sales.orders"]


def test_links_are_not_followed(lake: Lake, tmp_path: Path) -> None:
    lake.add("orders")
    outside = Lake(tmp_path / "outside")
    outside.add("secret")
    (lake.root / "link").symlink_to(outside.root)
    (lake.root / "again").symlink_to(lake.root)
    assert lake.names() == ["orders"]


def test_a_search_costs_a_listing_for_each_folder(lake: Lake) -> None:
    lake.add("a/t", "b/t")
    for number in range(50):
        lake.put(f"a/t/part-{number}.parquet")
        lake.put(f"a/t/date={number}/part.parquet")
    before = lake.files.counters.counts
    assert len(lake.search()) == 2
    # the root, two folders, two tables, and a look into the log of each
    assert (lake.files.counters.counts - before).calls == 7


def test_depth(lake: Lake) -> None:
    lake.add("1/2/t")
    assert lake.names(max_depth="2") == []
    assert lake.names(max_depth="3") == ["1.2.t"]


def test_a_place_outside_is_not_looked_at(lake: Lake) -> None:
    lake.add("sales/t")
    (place,) = lake.search("sales", allowed="other")
    assert isinstance(place, UnreadablePlace)
    assert isinstance(place.error, LocationNotAllowedError)
    assert lake.files.calls == []


def test_one_bad_folder_does_not_hide_the_others(lake: Lake) -> None:
    lake.add("a/t", "b/t", "c/t")
    lake.files.refuse("/lake/b")
    found = lake.search()
    assert [type(each) for each in found] == [DiscoveredTable, UnreadablePlace, DiscoveredTable]
    assert found[1].location.endswith("/b")


def test_a_search_ends_when_storage_is_away(lake: Lake) -> None:
    lake.add("a/t", "b/t", "c/t", "d/t", "e/t")
    lake.files.fail("list_folders", nth=2, times=99)
    with pytest.raises(StorageUnavailableError):
        lake.search()
    # the root, and three folders in a row
    assert len(lake.files.calls) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": "1"}, "Unknown option: 'depth' .*namespaces, name, max-depth"),
        ({"namespaces": "deep"}, "nested or flat"),
        ({"max-depth": "0"}, "from 1 to 32"),
        ({"max-depth": "33"}, "from 1 to 32"),
        ({"max-depth": "many"}, "from 1 to 32"),
        ({"max-depth": "²"}, "from 1 to 32"),
        ({"max-depth": "1" * 5_000}, "from 1 to 32"),
        ({"name": "a\x1fb"}, "Invalid option name: holds a control character"),
        ({"name": " "}, "Invalid option name: must not be empty"),
        ({"exclude": "a,,b"}, "Invalid option exclude: '' must be a path below the root"),
        ({"exclude": "/a"}, "must be a path below the root"),
        ({"exclude": "s3://lake/a"}, "must be a path below the root"),
        ({"exclude": "a/../b"}, "must not hold '.' or '..'"),
        ({"exclude": "a**"}, "must stand between slashes"),
        ({"exclude": "a\x1fb"}, "holds a control character"),
        ({"exclude": ",".join(["a"] * 101)}, "more than 100 patterns"),
    ],
)
def test_options_are_checked(lake: Lake, options: dict[str, str], message: str) -> None:
    source = ConnectorSource(lake.root.as_uri(), options, storage_at([], lake.files))
    with pytest.raises(BadRequestError, match=message):
        DeltaConnector(source)
