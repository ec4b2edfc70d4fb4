"""The connector `iceberg`: which folders are tables, which metadata file is the newest, what it costs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from floecat.connectors.kinds.iceberg_folders import IcebergFoldersConnector
from floecat.connectors.selection import Selection
from floecat.connectors.spi import ConnectorSource, DiscoveredTable, LoadsTables, UnreadablePlace
from floecat.errors import FloecatError, NoSuchTableError
from floecat.fileio.opening import open_fileio
from floecat.store.catalogs.connector_policies import ConnectorPolicy
from tests.services.faults import FaultyFileIO
from tests.services.s3 import S3Server
from tests.storages import storage_at

EVERYTHING = ConnectorPolicy()


class Lake:
    """A folder or bucket with tables, as far as a search looks at them."""

    def __init__(self, root: str, files: FaultyFileIO) -> None:
        self.root = root
        self.files = files

    def put(self, folder: str, *names: str, content: str = "{}") -> None:
        for name in names:
            self.files.write_new(f"{self.root}/{folder}/{name}", content.encode())

    def table(self, path: str, *names: str, hint: str | None = None) -> None:
        self.put(f"{path}/metadata", *names)
        if hint is not None:
            self.put(f"{path}/metadata", "version-hint.text", content=hint)

    def connector(
        self, path: str = "", policy: ConnectorPolicy = EVERYTHING, **options: str
    ) -> IcebergFoldersConnector:
        location = f"{self.root}/{path}".rstrip("/")
        storage = storage_at([self.root], self.files)
        return IcebergFoldersConnector(
            ConnectorSource(location, options, storage, selection=Selection(policy))
        )

    def found(self, path: str = "", **options: str) -> list[DiscoveredTable | UnreadablePlace]:
        return list(self.connector(path, **options).discover())

    def newest(self, path: str) -> str:
        (found,) = self.found(path)
        assert isinstance(found, DiscoveredTable), found
        return str(found.state).removeprefix(f"{self.root}/{path}/metadata/")


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "local":
        return Lake(tmp_path.as_uri(), FaultyFileIO(open_fileio(fsync=False)))
    server: S3Server = request.getfixturevalue("s3_server")
    bucket = request.getfixturevalue("s3_bucket")
    return Lake(f"s3://{bucket}", FaultyFileIO(open_fileio(server.options())))


def test_tables_are_folders_with_metadata_files(lake: Lake) -> None:
    lake.table("orders", "v1.metadata.json")
    lake.table("sales/eu/orders", "00000-a.metadata.json", "00001-b.metadata.json", "snap-1.avro")
    lake.table("no-table", "snap-1.avro", "metadata.json", "v1.metadata.json.crc", ".v2.metadata.json.crc")
    lake.put("no-table/metadata/deeper", "v1.metadata.json")
    lake.table("uniform", "v1.metadata.json")
    lake.put("uniform/_delta_log", "00000000000000000000.json")
    first, second = lake.found()
    assert first == DiscoveredTable(
        "orders",
        f"{lake.root}/orders",
        format="iceberg",
        state=f"{lake.root}/orders/metadata/v1.metadata.json",
    )
    assert isinstance(second, DiscoveredTable)
    assert (second.namespace, second.name) == (("sales", "eu"), "orders")


def test_names_and_exclusions_are_those_of_every_search(lake: Lake) -> None:
    lake.table("a/orders", "v1.metadata.json")
    lake.table("b/orders", "v1.metadata.json")
    (found,) = lake.found(namespaces="flat", exclude="b")
    assert isinstance(found, DiscoveredTable)
    assert (found.namespace, found.name) == ((), "a_orders")
    (single,) = lake.found("a/orders", name="first")
    assert isinstance(single, DiscoveredTable)
    assert single.name == "first"


def test_folders_of_what_is_not_taken_are_not_listed(lake: Lake) -> None:
    for path in ("orders", "sales/orders", "sales/eu/orders", "sales/eu/tmp", "raw/deep/orders"):
        lake.table(path, "v1.metadata.json")

    def found(*patterns: str, **options: str) -> tuple[list[str], int]:
        policy = ConnectorPolicy(namespaces=patterns)
        before = lake.files.counters.counts.calls
        places = [each.location for each in lake.connector(policy=policy, **options).discover()]
        calls = lake.files.counters.counts.calls - before
        return [each.removeprefix(f"{lake.root}/") for each in places], calls

    everything, calls = found()
    assert len(everything) == 5
    eu, calls_of_eu = found("sales.eu")
    # the table `sales` of the root would be one of no namespace, and is not taken
    assert eu == ["sales/eu/orders", "sales/eu/tmp"]
    assert calls_of_eu < calls
    assert found("!raw")[0] == [each for each in everything if not each.startswith("raw/")]
    flat, calls_of_flat = found("sales", namespaces="flat")
    assert (len(flat), calls_of_flat) == (5, calls)


@pytest.mark.parametrize(
    ("names", "hint", "newest"),
    [
        (["v9.metadata.json", "v10.metadata.json"], None, "v10.metadata.json"),
        (["v1.metadata.json", "v2.gz.metadata.json"], None, "v2.gz.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json.gz"], None, "v2.metadata.json.gz"),
        (["00009-z.metadata.json", "00010-a.gz.metadata.json"], None, "00010-a.gz.metadata.json"),
        (["99999-z.metadata.json", "100000-a.metadata.json"], None, "100000-a.metadata.json"),
        # the hint of a Hadoop catalog is written after the file
        (["v1.metadata.json", "v2.metadata.json", "v3.metadata.json"], "2", "v3.metadata.json"),
        # beyond a gap lies what is left of an earlier table
        (["v1.metadata.json", "v2.metadata.json", "v7.metadata.json"], "1\n", "v2.metadata.json"),
        (["v1.metadata.json", "v7.metadata.json"], None, "v7.metadata.json"),
        (["00001-a.metadata.json", "00002-b.metadata.json"], "00001-a", "00001-a.metadata.json"),
        (
            ["00001-a.metadata.json", "00002-b.metadata.json"],
            "00001-a.metadata.json",
            "00001-a.metadata.json",
        ),
        (["00001-a.metadata.json", "00002-b.metadata.json"], "7", "00002-b.metadata.json"),
    ],
)
def test_the_newest_metadata(lake: Lake, names: list[str], hint: str | None, newest: str) -> None:
    lake.table("t", *names, hint=hint)
    assert lake.newest("t") == newest


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ("5", "names version 5, which is not there"),
        ("00004-x", "names a metadata file that is not there: '00004-x'"),
        ("../../secret/v1", "not there"),
        ("x" * 1_001, "Not a version hint"),
    ],
)
def test_a_hint_that_leads_nowhere_is_told(lake: Lake, hint: str, message: str) -> None:
    lake.table("t", "v1.metadata.json", "v3.metadata.json", hint=hint)
    lake.table("u", "v1.metadata.json")
    place, table = lake.found()
    assert isinstance(place, UnreadablePlace)
    assert message in place.error.message
    assert isinstance(table, DiscoveredTable)


def test_of_two_files_the_one_written_last_is_taken(tmp_path: Path) -> None:
    lake = Lake(tmp_path.as_uri(), FaultyFileIO(open_fileio(fsync=False)))
    # a commit that failed left its file, and a table moved from a Hadoop catalog to another one
    lake.table("t", "00001-b.metadata.json", "00001-a.metadata.json", "v7.metadata.json", hint="7")
    for age, name in enumerate(("00001-a", "00001-b", "v7")):
        os.utime(tmp_path / f"t/metadata/{name}.metadata.json", (1e9 - age, 1e9 - age))
    assert lake.newest("t") == "00001-a.metadata.json"


def test_a_second_search_costs_the_listings(lake: Lake) -> None:
    for number in range(3):
        lake.table(f"ns/t{number}", "v1.metadata.json", "v2.metadata.json", hint="2")
        lake.put(f"ns/t{number}/data", "1.parquet", "2.parquet")
    connector = lake.connector()
    before = lake.files.counters.counts
    found = list(connector.discover())
    # the root, the namespace, and of each table its folder and its metadata
    assert (lake.files.counters.counts - before).calls == 2 + 2 * 3
    assert isinstance(connector, LoadsTables)
    for table in found:
        assert isinstance(table, DiscoveredTable)
        assert connector.load(table, table.state) is None
    assert (lake.files.counters.counts - before).calls == 2 + 2 * 3


def test_a_changed_table_is_loaded_by_its_location(lake: Lake) -> None:
    lake.table("t", "v1.metadata.json")
    connector = lake.connector()
    (found,) = connector.discover()
    assert isinstance(found, DiscoveredTable)
    document = connector.load(found, f"{lake.root}/t/metadata/v0.metadata.json")
    assert document is not None
    assert (document.metadata_location, document.state) == (found.state, found.state)
    assert document.document is None


def test_a_table_that_is_gone(lake: Lake) -> None:
    with pytest.raises(NoSuchTableError):
        lake.connector().load(DiscoveredTable("t", f"{lake.root}/t", format="iceberg"), None)


def test_what_lies_outside_is_not_looked_at(lake: Lake) -> None:
    elsewhere = DiscoveredTable("t", f"{lake.root}-other/t", format="iceberg")
    with pytest.raises(FloecatError, match="allowed"):
        lake.connector().load(elsewhere, None)
