"""INSERT, DELETE, UPDATE and MERGE, planned by Spark and by the service; PyIceberg reads what they leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.engines.conftest import EngineReport
from tests.engines.spark.conftest import Lake

_COLUMNS = "id bigint, s string, d date, n int"
_PARTITIONS = ("", "s, days(d)", "bucket(3, id), truncate(1, s)")
_MODES = ("copy-on-write", "merge-on-read")
_DAYS = ("2026-01-01", "2026-01-02", "2026-02-01")

Row = tuple[int, str | None, str, int | None]
Rows = dict[int, Row]


def row(id: int) -> Row:
    return id, None if id % 7 == 0 else "abc"[id % 3] + str(id), _DAYS[id % 3], id * 10


def without(rows: Rows, is_gone: Callable[[Row], bool]) -> Rows:
    return {id: each for id, each in rows.items() if not is_gone(each)}


def values(rows: list[Row]) -> str:
    return ", ".join(
        f"({id}, {'NULL' if s is None else repr(s)}, DATE'{d}', {'NULL' if n is None else n})"
        for id, s, d, n in rows
    )


def seen_by_pyiceberg(lake: Lake, table: str) -> list[tuple[Any, ...]]:
    rows = lake.pyiceberg.load_table(table).scan().to_arrow().sort_by("id").to_pylist()
    return [(each["id"], each["s"], str(each["d"]), each["n"]) for each in rows]


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("partitions", _PARTITIONS, ids=["whole", "by-days", "by-buckets"])
@pytest.mark.parametrize(
    ("version", "planner"), [(2, "client"), (2, "server"), (3, "client")], ids=["v2", "v2-planned", "v3"]
)
def test_changes(
    lake: Lake, engine: EngineReport, planner: str, partitions: str, mode: str, version: int
) -> None:
    namespace = lake.create_namespace()
    table = f"{namespace}.t"
    properties = {f"write.{each}.mode": mode for each in ("delete", "update", "merge")}
    properties |= {"format-version": str(version)}
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    by = f"PARTITIONED BY ({partitions})" if partitions else ""
    rows: Rows = {}

    def run(name: str, statement: str, expected: Rows) -> None:
        with engine.step(f"{name}, {planner} plans, {mode}, v{version}, {partitions or 'no partitions'}"):
            lake.spark.sql(statement.replace("TABLE", f"{planner}.{table}"))
            assert lake.rows(table) == [expected[id] for id in sorted(expected)]
            assert seen_by_pyiceberg(lake, table) == [expected[id] for id in sorted(expected)]

    lake.spark.sql(f"CREATE TABLE client.{table} ({_COLUMNS}) {by} TBLPROPERTIES ({listed})")
    rows = {id: row(id) for id in range(20)}
    run("insert", f"INSERT INTO TABLE VALUES {values(list(rows.values()))}", rows)
    rows = without(rows, lambda each: each[0] in (3, 4) or each[1] is None)
    run("delete rows", "DELETE FROM TABLE WHERE id IN (3, 4) OR s IS NULL", rows)
    rows = without(rows, lambda each: each[2] == "2026-02-01")
    run("delete a partition", "DELETE FROM TABLE WHERE d = DATE'2026-02-01'", rows)
    rows |= {id: (id, "z" + str(id), each[2], None) for id, each in rows.items() if id < 10}
    run("update", "UPDATE TABLE SET s = concat('z', id), n = NULL WHERE id < 10", rows)
    gone, changed, added = 1, 10, 100
    rows = without(rows, lambda each: each[0] == gone)
    rows |= {changed: (*rows[changed][:3], -1), added: (added, "new", _DAYS[0], 0)}
    source = f"SELECT explode(array({gone}, {changed}, {added})) AS id"
    matched = f"WHEN MATCHED AND t.id = {gone} THEN DELETE WHEN MATCHED THEN UPDATE SET n = -1"
    inserted = f"WHEN NOT MATCHED THEN INSERT (id, s, d, n) VALUES (u.id, 'new', DATE'{_DAYS[0]}', 0)"
    run("merge", f"MERGE INTO TABLE t USING ({source}) u ON t.id = u.id {matched} {inserted}", rows)
    [[deletes]] = lake.spark.sql(f"SELECT count(*) FROM client.{table}.delete_files")
    assert (deletes > 0) == (mode == "merge-on-read")
    rows = without(rows, lambda each: each[2] == _DAYS[1])
    rows |= {200: (200, "over", _DAYS[1], 1)}
    kept = f"SELECT * FROM TABLE WHERE d <> DATE'{_DAYS[1]}' UNION ALL VALUES {values([rows[200]])}"
    run("overwrite", f"INSERT OVERWRITE TABLE {kept}", rows)
