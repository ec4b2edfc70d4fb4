"""Histories of Delta tables, written by Sail: an engine of its own, which writes real deletion vectors.

    python -m tests.clients.delta.sail FOLDER

writes every table of `HISTORIES` below FOLDER, and beside it what Sail itself reads after each statement. It
runs in a process of its own: its server and client would share settings with the Spark of other tests.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

__all__ = ["HISTORIES", "History", "SailTable", "write_with_sail"]

_TIMEOUT_S = 240
_DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}


class History(msgspec.Struct, frozen=True):
    """A table and what happens to it; `{t}` in a statement is its name."""

    name: str
    columns: str
    statements: tuple[str, ...]
    properties: Mapping[str, str] = {}
    partitions: str = ""


class SailTable(msgspec.Struct, frozen=True):
    """A table that was written."""

    name: str
    folder: Path
    rows: Mapping[int, pa.Table]
    """Its rows at each version, as Sail reads them."""


_NESTED = (
    "id BIGINT, `a b` STRING, st STRUCT<x: INT, y: ARRAY<STRING>, n: STRUCT<z: STRING>>, mp MAP<STRING, INT>,"
    " ls ARRAY<STRUCT<e: INT>>, p STRING, d DATE"
)
_NESTED_ROWS = (
    "SELECT id, concat('r', id), named_struct('x', cast(id AS INT), 'y', array('q', concat('w', id)),"
    " 'n', named_struct('z', concat('w', id))), map('k', cast(id AS INT)),"
    " array(named_struct('e', cast(id AS INT)), named_struct('e', 7)), concat('p ', id % 3, '%/='),"
    " date'2024-01-01' + cast(id % 2 AS INT) FROM "
)
_MAPPED = (
    f"INSERT INTO {{t}} {_NESTED_ROWS} range(60)",
    "DELETE FROM {t} WHERE id IN (1, 2, 3)",
    "UPDATE {t} SET `a b` = 'changed' WHERE id % 20 = 7",
    f"INSERT INTO {{t}} {_NESTED_ROWS} range(60, 70)",
    "DELETE FROM {t} WHERE st.x >= 65",
    "DELETE FROM {t} WHERE p = 'p 0%/='",
)

HISTORIES = (
    History(
        "plain",
        "id BIGINT, s STRING",
        (
            "INSERT INTO {t} SELECT id, concat('r', id) FROM range(1000)",
            "DELETE FROM {t} WHERE id % 7 = 3",
            "DELETE FROM {t} WHERE id % 7 = 4",
            "UPDATE {t} SET s = 'upd' WHERE id = 5",
            "MERGE INTO {t} t USING (SELECT id FROM range(990, 1010)) x ON t.id = x.id"
            " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, s) VALUES (x.id, 'new')",
            "MERGE INTO {t} t USING (SELECT id FROM range(0, 20)) x ON t.id = x.id"
            " WHEN MATCHED AND t.id < 10 THEN UPDATE SET s = concat(t.s, '+')",
            "DELETE FROM {t} WHERE id BETWEEN 100 AND 900",
            "DELETE FROM {t}",
            "INSERT INTO {t} VALUES (1, 'again')",
        ),
        _DELETION_VECTORS,
    ),
    History(
        "partitioned",
        "id BIGINT, p STRING, d DATE, v DECIMAL(12, 3)",
        (
            "INSERT INTO {t} SELECT id, concat('p', id % 3), date'2024-01-01' + cast(id % 2 AS INT),"
            " cast(id * 1.125 AS DECIMAL(12, 3)) FROM range(600)",
            "INSERT INTO {t} VALUES (1000, NULL, NULL, NULL), (1001, 'ä/=% +', date'1969-12-31', -0.001)",
            "DELETE FROM {t} WHERE id % 10 = 0",
            "DELETE FROM {t} WHERE p = 'p2'",
            "UPDATE {t} SET p = 'moved' WHERE id IN (1, 3)",
            "MERGE INTO {t} t USING (SELECT id FROM range(595, 605)) x ON t.id = x.id"
            " WHEN MATCHED THEN UPDATE SET v = -1.5"
            " WHEN NOT MATCHED THEN INSERT (id, p, d, v) VALUES (x.id, 'p0', date'2024-01-01', 1)",
            "DELETE FROM {t} WHERE p IS NULL",
        ),
        _DELETION_VECTORS,
        "PARTITIONED BY (p, d)",
    ),
    History(
        "mapped_by_name",
        _NESTED,
        _MAPPED,
        _DELETION_VECTORS | {"delta.columnMapping.mode": "name"},
        "PARTITIONED BY (p, d)",
    ),
    History("mapped_by_id", _NESTED, _MAPPED, _DELETION_VECTORS | {"delta.columnMapping.mode": "id"}),
    History(
        "widened",
        "id INT, f FLOAT, x DECIMAL(6, 2), p SMALLINT",
        (
            "INSERT INTO {t} VALUES (1, float('0.1'), 1.25, 7), (2147483647, float('1e10'), 9999.99, -32768)",
            "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
            "INSERT INTO {t} VALUES (5000000000, float('1.5'), 2, 8)",
            "ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE",
            "ALTER TABLE {t} ALTER COLUMN x TYPE DECIMAL(12, 2)",
            "INSERT INTO {t} VALUES (-5000000000, double('1e300'), 1234567890.12, 9)",
            "DELETE FROM {t} WHERE id = 1",
        ),
        _DELETION_VECTORS | {"delta.enableTypeWidening": "true"},
        "PARTITIONED BY (p)",
    ),
    History(
        "v2_checkpoints",
        "a INT, b STRING",
        (
            "INSERT INTO {t} SELECT cast(id AS INT), concat('b', id) FROM range(20)",
            "DELETE FROM {t} WHERE a % 3 = 0",
            "INSERT INTO {t} SELECT cast(id AS INT), concat('c', id) FROM range(20, 30)",
            "DELETE FROM {t} WHERE a IN (1, 21)",
            "UPDATE {t} SET b = 'changed' WHERE a = 2",
            "INSERT INTO {t} VALUES (100, NULL)",
            "DELETE FROM {t} WHERE b = 'changed'",
        ),
        _DELETION_VECTORS | {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"},
    ),
    History(
        "all_types",
        "id BIGINT, t TIMESTAMP_NTZ, u TIMESTAMP, de DECIMAL(30, 10), b BINARY, f FLOAT, g DOUBLE, dt DATE,"
        " bo BOOLEAN, ti TINYINT, si SMALLINT, i INT, s STRING, st STRUCT<u: TIMESTAMP, n: STRUCT<k: INT>>",
        (
            "INSERT INTO {t} SELECT id,"
            " timestamp_ntz'2024-01-01 00:00:00.123456' + make_interval(0, 0, 0, 0, 0, id) t,"
            " timestamp'2024-01-01 00:00:00.999999Z' + make_interval(0, 0, 0, 0, id) u,"
            " cast(id * 1.5 AS DECIMAL(30, 10)) de, cast(concat('x', id) AS BINARY) b,"
            " cast(id / 3 AS FLOAT) f, id / 7 g, date'2024-02-29' - cast(id AS INT) dt, id % 2 = 0 bo,"
            " cast(id - 5 AS TINYINT) ti,"
            " cast(id * 100 AS SMALLINT) si, cast(id AS INT) i, repeat('ü', 20 + cast(id AS INT)) s,"
            " named_struct('u', timestamp'1969-12-31 23:59:59.999999Z',"
            " 'n', named_struct('k', cast(id AS INT))) st FROM range(10)",
            "INSERT INTO {t} VALUES (100" + ", NULL" * 13 + ")",
            "DELETE FROM {t} WHERE id = 9",
            "UPDATE {t} SET u = timestamp'9999-12-31 23:59:59.999999Z', b = NULL WHERE id = 3",
        ),
        _DELETION_VECTORS,
    ),
    History(
        "vacuumed",
        "a BIGINT",
        (
            "INSERT INTO {t} SELECT id FROM range(10)",
            "DELETE FROM {t} WHERE a < 3",
            "INSERT INTO {t} VALUES (50)",
        ),
        _DELETION_VECTORS,
    ),
)


def write_with_sail(folder: Path) -> dict[str, SailTable]:
    """Writes the tables of all histories in a process of its own.

    Raises:
        RuntimeError: it did not succeed; with what it said.
    """
    command = [sys.executable, "-m", "tests.clients.delta.sail", str(folder)]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"Sail did not write the tables:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return {history.name: _written(folder, history.name) for history in HISTORIES}


def _written(folder: Path, name: str) -> SailTable:
    files = sorted((folder / f"{name}.versions").iterdir())
    rows = {int(file.stem): pa.ipc.open_file(file.read_bytes()).read_all() for file in files}
    return SailTable(name, folder / name, rows)


def _main(folder: Path) -> None:
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    server: Any = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    host, port = server.listening_address
    session = SparkSession.builder.remote(f"sc://{host}:{port}").getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        for history in HISTORIES:
            _write(session, folder, history)
    finally:
        session.stop()
        server.stop()


def _write(session: Any, folder: Path, history: History) -> None:
    location = folder / history.name
    answers = folder / f"{history.name}.versions"
    answers.mkdir(parents=True)
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in history.properties.items())
    _run(
        session,
        f"CREATE TABLE {history.name} ({history.columns}) USING delta {history.partitions}"
        f" LOCATION '{location}'" + (f" TBLPROPERTIES ({properties})" if properties else ""),
    )
    for statement in ("", *history.statements):
        if statement:
            _run(session, statement.replace("{t}", history.name))
        version = max(_versions(location))
        rows = _run(session, f"SELECT * FROM {history.name}")
        with pa.ipc.new_file(answers / f"{version:05}", rows.schema) as file:
            file.write_table(rows)


def _run(session: Any, statement: str) -> pa.Table:
    try:
        frame = session.sql(statement)
        # PySpark 3.5 has no public way to an Arrow table.
        rows, _ = session.client.to_table(frame._plan.to_proto(session.client))
    except Exception as error:
        raise RuntimeError(f"{statement}: {error}") from error
    return rows


def _versions(location: Path) -> Iterator[int]:
    for file in (location / "_delta_log").glob("*.json"):
        if file.stem.isdigit():
            yield int(file.stem)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
