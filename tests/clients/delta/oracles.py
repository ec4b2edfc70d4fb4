"""The rows of Delta tables by readers that have nothing to do with this catalog.

Three of them, none without faults, so that each table has one that is right about it:

- DuckDB's delta extension reads all, but gives NULL for partition columns under column mapping, and ends its
  connection on legacy lists.
- polars-deltalake is right there, has no maps (they become lists of structs) and no timestamps after 2262.
- deltalake refuses newer features, and has no timestamps after 2262 either.

Before them come the rows that Spark wrote down, where a table has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from tests.delta_tables import delta_table, expected_rows

__all__ = ["READERS", "NoOracleError", "log_versions", "oracle_rows", "oracle_rows_at", "schema_at"]

# A timestamp in the partition was written in the zone of the writer.
_EXPECTED_IN_ANOTHER_ZONE = {"golden/data-reader-partition-values/delta"}
# They remove their only file by another spelling of its path, which these readers take for another file.
_NOTHING_LEFT = {"golden/canonicalized-paths-normal-a/delta", "golden/canonicalized-paths-normal-b/delta"}
_READER = {"golden/parquet-all-types-legacy-format/delta": "deltalake", "kernel-rs/void-column": "polars"}
# Their checkpoint has columns that no commit added.
_NOT_IN_COMMITS = {"kernel-rs/parquet_row_group_skipping": ["missing"]}
_VERSION_FILE = re.compile(r"(\d{20})\.json")


class NoOracleError(Exception):
    """No reader gives the rows of that version, e.g. since its data files are gone."""


@cache
def oracle_rows(name: str, version: int | None = None) -> pa.Table:
    """The rows of a packed table.

    Args:
        name: as of `tests.delta_tables.delta_table`.
        version: a version of the table; None is the newest one.

    Raises:
        NoOracleError: nobody can read it.
    """
    folder = delta_table(name)
    if version is None or version == log_versions(folder)[-1]:
        if name in _NOTHING_LEFT:
            return pa.table({"id": pa.array([], pa.int32())})
        expected = None if name in _EXPECTED_IN_ANOTHER_ZONE else expected_rows(name)
        if expected is not None:
            return expected
    rows = oracle_rows_at(folder, version, reader=_READER.get(name))
    return rows.drop_columns([each for each in _NOT_IN_COMMITS.get(name, ()) if each in rows.column_names])


def oracle_rows_at(folder: Path, version: int | None = None, *, reader: str | None = None) -> pa.Table:
    """The rows of any table on the local disk.

    Args:
        folder: the folder of the table.
        version: a version of the table; None is the newest one.
        reader: a key of `READERS`; the one that is right about such tables if None.

    Raises:
        NoOracleError: it cannot read it.
    """
    chosen = reader or ("polars" if _has_mapped_partitions(folder, version) else "duckdb")
    try:
        return READERS[chosen](folder, version)
    except Exception as error:
        # The kernel adds its stack to the text.
        [first, *_] = str(error).splitlines() or [""]
        raise NoOracleError(f"{chosen} at {version} of {folder}: {first}") from error


def log_versions(folder: Path) -> list[int]:
    """The versions that have a commit file or a checkpoint, ascending."""
    names = [file.name for file in (folder / "_delta_log").iterdir()]
    found = {int(match[1]) for name in names if (match := _VERSION_FILE.fullmatch(name))}
    found |= {int(name[:20]) for name in names if ".checkpoint." in name}
    return sorted(found)


def schema_at(folder: Path, version: int | None = None) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The schema and the whole metadata action in force at a version, by the commit files.

    Raises:
        NoOracleError: the commit files do not tell.
    """
    last = log_versions(folder)[-1] if version is None else version
    for number in range(last, -1, -1):
        commit = folder / "_delta_log" / f"{number:020}.json"
        if not commit.exists():
            break
        for line in reversed(commit.read_bytes().splitlines()):
            if line.strip() and (metadata := msgspec.json.decode(line).get("metaData")):
                if "schemaString" not in metadata:
                    raise NoOracleError(f"{folder.name} has no schema at {last}")
                return msgspec.json.decode(metadata["schemaString"]), metadata
    raise NoOracleError(f"The commit files of {folder.name} do not tell its schema at {last}")


def _has_mapped_partitions(folder: Path, version: int | None) -> bool:
    try:
        _, metadata = schema_at(folder, version)
    except NoOracleError:
        return False
    mode = metadata.get("configuration", {}).get("delta.columnMapping.mode", "none")
    return bool(metadata["partitionColumns"]) and mode != "none"


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "threads": "1"})
    [extension] = Path(str(files("duckdb_extension_delta"))).rglob("*.duckdb_extension")
    connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _read_with_duckdb(folder: Path, version: int | None) -> pa.Table:
    at = "" if version is None else f", version => {version}"
    source = f"delta_scan({_literal(str(folder))}{at})"
    described = _duckdb().execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    columns = [_without_variant(name, kind) for name, kind, *_ in described]
    return _duckdb().execute(f"SELECT {', '.join(columns)} FROM {source}").to_arrow_table()


def _without_variant(name: str, kind: str) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    # Arrow has no type for it.
    return f"CAST({quoted} AS JSON)::VARCHAR AS {quoted}" if "VARIANT" in kind else quoted


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _read_with_polars(folder: Path, version: int | None) -> pa.Table:
    import polars_deltalake

    return polars_deltalake.read_delta(str(folder), version=version).to_arrow()


def _read_with_deltalake(folder: Path, version: int | None) -> pa.Table:
    from deltalake import DeltaTable, QueryBuilder

    table = DeltaTable(str(folder), version=version)
    return pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())


READERS: dict[str, Callable[[Path, int | None], pa.Table]] = {
    "duckdb": _read_with_duckdb,
    "polars": _read_with_polars,
    "deltalake": _read_with_deltalake,
}
"""What each reader gives."""
