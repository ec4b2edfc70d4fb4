"""Tables of format version 3: row lineage, deletion vectors, variant and default values."""

from __future__ import annotations

import pytest

from tests.engines.conftest import EngineReport
from tests.engines.spark.conftest import PLANNERS, Lake
from tests.engines.spark_process import SparkError

_LINEAGE = "id, s, _row_id, _last_updated_sequence_number"
_MERGE_ON_READ = "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read'"


def lineage(lake: Lake, table: str) -> list[tuple[object, ...]]:
    return lake.spark.sql(f"SELECT {_LINEAGE} FROM client.{table} ORDER BY id")


@pytest.fixture
def table(lake: Lake) -> str:
    """Rows 2 (changed), 3 and 4, whose ids are 1, 2, 3, and a deletion vector."""
    table = f"{lake.create_namespace()}.t"
    properties = f"'format-version' = '3', {_MERGE_ON_READ}"
    lake.spark.sql(f"CREATE TABLE client.{table} (id bigint, s string) TBLPROPERTIES ({properties})")
    lake.spark.sql(
        f"INSERT INTO client.{table} SELECT /*+ COALESCE(1) */ * FROM VALUES (1,'a'), (2,'b'), (3,'c')"
    )
    lake.spark.sql(f"INSERT INTO client.{table} VALUES (4, 'd')")
    lake.spark.sql(f"DELETE FROM client.{table} WHERE id = 1")
    lake.spark.sql(f"UPDATE client.{table} SET s = 'B' WHERE id = 2")
    return table


def test_a_plan_tells_ids_and_deletion_vectors(lake: Lake, engine: EngineReport, table: str) -> None:
    with engine.step("row ids and deletion vectors"):
        assert lineage(lake, table) == [(2, "B", 1, 4), (3, "c", 2, 1), (4, "d", 3, 2)]
        assert lake.rows(table, "id, s, _row_id") == [(2, "B", 1), (3, "c", 2), (4, "d", 3)]
        [[kind]] = lake.spark.sql(f"SELECT DISTINCT file_format FROM client.{table}.delete_files")
        assert kind == "PUFFIN"


def test_a_plan_does_not_tell_when_rows_were_changed(lake: Lake, engine: EngineReport, table: str) -> None:
    """The protocol has no sequence numbers of files, so Spark would take nulls."""
    refused = pytest.raises(SparkError, match="Set scan-planning-mode to client")
    with engine.step("the sequence number of the last change, planned by the service: refused"), refused:
        lake.spark.sql(f"SELECT {_LINEAGE} FROM server.{table}")
    with engine.step("copy-on-write of unchanged rows, planned by the service: refused"):
        lake.spark.sql(
            f"ALTER TABLE client.{table} SET TBLPROPERTIES ('write.update.mode' = 'copy-on-write')"
        )
        with pytest.raises(SparkError, match="Set scan-planning-mode to client"):
            lake.spark.sql(f"UPDATE server.{table} SET s = 'C' WHERE id = 3")
        assert lineage(lake, table)[1] == (3, "c", 2, 1)


@pytest.mark.parametrize("planner", PLANNERS)
def test_compaction(lake: Lake, engine: EngineReport, table: str, planner: str) -> None:
    """The table says who plans, and goes before Spark's own setting."""
    lake.spark.sql(f"ALTER TABLE client.{table} SET TBLPROPERTIES ('scan-planning-mode' = '{planner}')")
    with engine.step(f"rewrite_data_files, {planner} plans"):
        other = next(each for each in PLANNERS if each != planner)
        options = "map('rewrite-all', 'true')"
        lake.spark.sql(f"CALL {other}.system.rewrite_data_files(table => '{table}', options => {options})")
    lake.spark.sql(f"ALTER TABLE client.{table} SET TBLPROPERTIES ('scan-planning-mode' = 'client')")
    kept = [(2, "B", 1, 4), (3, "c", 2, 1), (4, "d", 3, 2)]
    assert [row[:3] for row in lineage(lake, table)] == [row[:3] for row in kept]
    # Pinned: when plans keep the numbers of rows, docs/clients/spark.md may forget it.
    assert (lineage(lake, table) == kept) == (planner == "client")


def test_variants(lake: Lake, engine: EngineReport) -> None:
    table = f"{lake.create_namespace()}.t"
    with engine.step("variant"):
        lake.spark.sql(
            f"CREATE TABLE client.{table} (id int, v variant) TBLPROPERTIES ('format-version' = '3')"
        )
        values = "(1, parse_json('{\"a\": [1, true]}')), (2, NULL), (3, parse_json('\"x\"'))"
        lake.spark.sql(f"INSERT INTO client.{table} VALUES {values}")
        expected = [(1, '{"a":[1,true]}'), (2, None), (3, '"x"')]
        assert lake.rows(table) == expected
        field = "variant_get(v, '$.a[0]', 'int')"
        assert lake.spark.sql(f"SELECT {field} FROM server.{table} WHERE id = 1") == [(1,)]


_OF_DEFAULTS = ("n = 7", "n > 6 AND id < 2", "n IS NULL", "n IS NOT NULL", "n <> 7", "n IN (7, 8)", "n < 7")


def test_default_values(lake: Lake, engine: EngineReport) -> None:
    """Spark reads initial defaults; it makes none in tables of a catalog."""
    table = f"{lake.create_namespace()}.t"
    lake.spark.sql(f"CREATE TABLE client.{table} (id int) TBLPROPERTIES ('format-version' = '3')")
    lake.spark.sql(f"INSERT INTO client.{table} VALUES (1), (2)")
    namespace, name = table.split(".")
    path = f"{lake.http.tables_path((namespace,))}/{name}"
    schema = lake.http.get(path).json()["metadata"]["schemas"][0]
    added = {"id": 2, "name": "n", "type": "int", "required": False}
    schema["fields"].append({**added, "initial-default": 7, "write-default": 8})
    updates = [
        {"action": "add-schema", "schema": {**schema, "schema-id": 1}},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    assert lake.http.post(path, {"requirements": [], "updates": updates}).is_success

    def check(when: str, rows: list[tuple[int, int | None]], found: list[list[int]]) -> None:
        with engine.step(f"initial default, {when}"):
            assert lake.rows(table) == rows
        pyiceberg = lake.pyiceberg.load_table(table)
        for condition, expected in zip(_OF_DEFAULTS, found, strict=True):
            with engine.step(f"{condition}, {when}"):
                for planner in PLANNERS:
                    ids = lake.spark.sql(f"SELECT id FROM {planner}.{table} WHERE {condition} ORDER BY id")
                    assert [id for (id,) in ids] == expected, (planner, condition)
            with engine.step(f"{condition} by PyIceberg, {when}"):
                ids = pyiceberg.scan(row_filter=condition).to_arrow()["id"].to_pylist()
                assert sorted(ids) == expected, condition

    check("before the next snapshot", [(1, 7), (2, 7)], [[1, 2], [1], [], [1, 2], [], [1, 2], []])
    lake.spark.sql(f"INSERT INTO client.{table} VALUES (3, NULL), (4, 9)")
    rows = [(1, 7), (2, 7), (3, None), (4, 9)]
    check("after it", rows, [[1, 2], [1], [3], [1, 2, 4], [4], [1, 2], []])
