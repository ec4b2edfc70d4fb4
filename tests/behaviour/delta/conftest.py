"""Kernels over Delta tables on the local disk."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from floecat.auth.principals import Principal
from floecat.delta import delta_rows as delta_tables
from floecat.delta.delta_rows import DeltaTableRow
from floecat.delta.refresh.delta_table import DeltaTableEntry
from floecat.entries.calls import LoadedTable
from floecat.errors import LeftToPipelineError, UnavailableError
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import load_settings
from floecat.store.entries import tables
from tests.clients.delta.writer import DeltaWriter
from tests.services.stores import copy_sqlite_store

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string())])

OpenLake = Callable[..., "Lake"]


class Lake:
    """A catalog of its own, with Delta tables in it."""

    def __init__(self, kernel: Kernel, root: Path) -> None:
        self.kernel = kernel
        self.root = root
        account = kernel.settings.gateway.default_account_id
        self.call = kernel.catalog.calls.open(Principal("tester", account), "floecat")
        kernel.catalog.namespaces.create(self.call, ("ns",), {})

    def register(self, folder: Path, name: str = "t") -> TableIdentifier:
        """Registers a table and has it read once."""
        made = self.kernel.delta.registration.register(self.call, ("ns",), name, folder.as_uri())
        return made.identifier

    def load(self, identifier: TableIdentifier) -> LoadedTable:
        """A load, as of the REST service."""
        return self.kernel.catalog.tables.load(self.call, identifier)

    def rows(self, identifier: TableIdentifier, version: int | None = None) -> list[tuple[Any, ...]]:
        """The rows that a reader of Iceberg finds, sorted."""
        from pyiceberg.table import StaticTable

        location = self.load(identifier).metadata_location
        assert location is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scan = StaticTable.from_metadata(location).scan(snapshot_id=version)
            return as_rows(scan.to_arrow())

    def versions(self, identifier: TableIdentifier) -> list[int]:
        """Versions that are snapshots."""
        import msgspec

        metadata = msgspec.json.decode(self.load(identifier).metadata)
        return [snapshot["snapshot-id"] for snapshot in metadata["snapshots"]]

    def state(self, identifier: TableIdentifier) -> DeltaTableRow:
        """What the store keeps."""
        with self.kernel.store.read() as conn:
            entry = tables.find(conn, self.call.catalog.id, identifier)
            assert entry is not None
            found = delta_tables.get(conn, entry.id)
        assert found is not None
        return found

    def delta_entry(self, identifier: TableIdentifier) -> DeltaTableEntry:
        """The table as the engine wants it."""
        with self.kernel.store.read() as conn:
            entry = tables.find(conn, self.call.catalog.id, identifier)
        assert entry is not None
        return DeltaTableEntry(entry, identifier, self.call.catalog.storage, "tester")

    def materialise(self, identifier: TableIdentifier) -> bool:
        """What the pipeline does."""
        assert self.kernel.delta.refresh_service is not None
        return self.kernel.delta.refresh_service.materialise(self.delta_entry(identifier), lambda *_: None)


class Engines:
    """PyIceberg, and DuckDB over one connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection

    def pyiceberg(self, lake: Lake, table: TableIdentifier, version: int | None = None) -> pa.Table:
        """Rows that PyIceberg finds."""
        from pyiceberg.table import StaticTable

        location = lake.load(table).metadata_location
        assert location is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return StaticTable.from_metadata(location).scan(snapshot_id=version).to_arrow()

    def duckdb(self, lake: Lake, table: TableIdentifier, version: int | None = None) -> pa.Table:
        """Rows that DuckDB finds."""
        at = "" if version is None else f", snapshot_from_id => {version}"
        location = lake.load(table).metadata_location
        return self.connection.execute(f"SELECT * FROM iceberg_scan('{location}'{at})").to_arrow_table()

    def check(self, lake: Lake, table: TableIdentifier, writer: DeltaWriter) -> None:
        """The newest version, and every older one."""
        for read in (self.pyiceberg, self.duckdb):
            assert by_id(read(lake, table)) == by_id(writer.rows[writer.version])
            for version in lake.versions(table):
                # PyIceberg takes snapshot 0 for none
                if version:
                    expected = writer.rows[version]
                    found = read(lake, table, version)
                    assert by_id(found.select(expected.column_names)) == by_id(expected)


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    """Engines that read whole tables."""
    with duckdb.connect(config={"autoinstall_known_extensions": "false", "threads": "2"}) as connection:
        for extension in ("avro", "iceberg"):
            [file] = Path(str(files(f"duckdb_extension_{extension}"))).rglob("*.duckdb_extension")
            connection.execute(f"LOAD '{file}'")
        yield Engines(connection)


@pytest.fixture
def open_lake(tmp_path: Path) -> Iterator[OpenLake]:
    """Opens catalogs with stores of their own, over one folder of tables."""
    numbers = itertools.count()
    opened: list[Kernel] = []

    def open_one(limits: Mapping[str, object] | None = None, **settings: object) -> Lake:
        given = {
            "floecat.data-dir": str(tmp_path / f"data-{next(numbers)}"),
            "floecat.storage.fsync": False,
            "floecat.storage.allowed-locations": [str(tmp_path)],
            "floecat.gateway.delta-compat.refresh-after": "PT0S",
        }
        delta = {
            f"floecat.gateway.delta-compat.{key.replace('_', '-')}": value for key, value in settings.items()
        }
        bounds = {f"floecat.limits.{key}": value for key, value in (limits or {}).items()}
        loaded = load_settings(environ={}, overrides=given | delta | bounds)
        copy_sqlite_store(loaded.data_path / "floecat.db")
        prepare_store(loaded)
        kernel = open_kernel(loaded)
        opened.append(kernel)
        return Lake(kernel, tmp_path)

    yield open_one
    for kernel in opened:
        kernel.close()


@pytest.fixture
def lake(open_lake: OpenLake) -> Lake:
    """A catalog that looks for new versions with every load."""
    return open_lake()


def refusal(lake: Lake, table: TableIdentifier) -> UnavailableError:
    """What loads fail with once the work has begun: that it is left to the pipeline."""
    for _ in range(100):
        with pytest.raises(UnavailableError) as raised:
            lake.load(table)
        if isinstance(raised.value, LeftToPipelineError):
            break
    return raised.value


def rows_of(*ids: int, text: str = "r") -> pa.Table:
    """Rows of `SCHEMA`."""
    return pa.table({"id": pa.array(ids, pa.int64()), "s": [f"{text}{id}" for id in ids]}, schema=SCHEMA)


def as_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows as sorted tuples."""
    return sorted(tuple(row.values()) for row in table.to_pylist())


def delta_table(folder: Path, files: int = 2, rows: int = 10, **options: Any) -> DeltaWriter:
    """A table with some files, each of its own version."""
    writer = DeltaWriter(folder, SCHEMA, **options)
    for number in range(files):
        writer.append(rows_of(*range(number * rows, (number + 1) * rows)))
    return writer


def artifacts(folder: Path) -> dict[str, bytes]:
    """Content of every artifact of a table, but for metadata files, which know the catalog."""
    return {
        path.name: path.read_bytes() for path in folder.glob("metadata/*compat*") if path.suffix != ".json"
    }


def by_id(table: pa.Table) -> list[dict[str, Any]]:
    """Rows, sorted."""
    rows: list[dict[str, Any]] = sorted(table.to_pylist(), key=lambda row: row["id"])
    return rows
