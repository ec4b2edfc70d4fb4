"""Tables on S3, with the settings of the page."""

from __future__ import annotations

import pytest

from tests.engines.conftest import EngineReport
from tests.engines.spark.conftest import PLANNERS, Lake


@pytest.mark.s3
@pytest.mark.parametrize("planner", PLANNERS)
def test_a_table(s3_lake: Lake, engine: EngineReport, planner: str) -> None:
    lake = s3_lake
    table = f"{lake.create_namespace()}.t"
    is_signed = lake.warehouse.vends and lake.delegation == "remote-signing"
    whose = "signed" if is_signed else "keys of the catalog" if lake.warehouse.vends else "own keys"
    signatures = lake.signatures
    properties = "TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    with engine.step(f"a table on S3, {planner} plans, {whose}"):
        lake.spark.sql(f"CREATE TABLE {planner}.{table} (id int, s string) PARTITIONED BY (s) {properties}")
        lake.spark.sql(f"INSERT INTO {planner}.{table} VALUES (1, 'a'), (2, 'a'), (3, 'b')")
        lake.spark.sql(f"DELETE FROM {planner}.{table} WHERE id = 1")
        assert lake.rows(table) == [(2, "a"), (3, "b")]
        lake.spark.sql(f"ALTER TABLE {planner}.{table} ADD COLUMN amount int")
        lake.spark.sql(f"UPDATE {planner}.{table} SET amount = 7 WHERE id = 3")
        assert lake.rows(table) == [(2, "a", None), (3, "b", 7)]
        assert lake.pyiceberg.load_table(table).scan().count() == 2
        [[file]] = lake.spark.sql(f"SELECT file_path FROM client.{table}.files LIMIT 1")
        assert file.startswith(lake.warehouse.root)
        assert (lake.signatures > signatures) is is_signed
    with engine.step(f"DROP TABLE PURGE on S3, {planner} plans, {whose}"):
        lake.spark.sql(f"DROP TABLE {planner}.{table} PURGE")
        assert lake.warehouse.wait_until_empty(file.rpartition("/data/")[0]) == set()
