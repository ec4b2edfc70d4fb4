"""Structured Streaming from and to tables."""

from __future__ import annotations

import pytest

from tests.engines.conftest import EngineReport
from tests.engines.spark.conftest import Lake
from tests.engines.spark_process import SparkError


def test_from_table_to_table(lake: Lake, engine: EngineReport) -> None:
    namespace = lake.create_namespace()
    source, target = f"{namespace}.source", f"{namespace}.target"
    checkpoint = lake.folder / f"{namespace}-checkpoint"
    for table in (source, target):
        lake.spark.sql(f"CREATE TABLE client.{table} (id int, s string) PARTITIONED BY (bucket(2, id))")
    for batch in range(3):
        with engine.step("a stream appends what is new, once"):
            rows = ", ".join(f"({batch * 10 + each}, 'r')" for each in range(5))
            lake.spark.sql(f"INSERT INTO client.{source} VALUES {rows}")
            for _again in range(2):
                lake.spark.stream(f"client.{source}", f"client.{target}", checkpoint)
            assert lake.rows(target) == lake.rows(source)
    with engine.step("a stream goes on after the service was restarted"):
        lake.warehouse.server.restart()
        lake.spark.sql(f"INSERT INTO client.{source} VALUES (99, 'r')")
        lake.spark.stream(f"client.{source}", f"client.{target}", checkpoint)
        assert lake.rows(target) == lake.rows(source)


def test_the_target_may_be_planned_by_the_service(lake: Lake, engine: EngineReport) -> None:
    """The source not: pinned, and told on the page."""
    namespace = lake.create_namespace()
    for table in ("source", "target"):
        lake.spark.sql(f"CREATE TABLE client.{namespace}.{table} (id int)")
    lake.spark.sql(f"INSERT INTO client.{namespace}.source VALUES (1)")
    checkpoint = lake.folder / f"{namespace}-checkpoint"
    with (
        engine.step("a stream from a table that the service plans: Spark refuses"),
        pytest.raises(SparkError, match="FileIO is not available"),
    ):
        lake.spark.stream(f"server.{namespace}.source", f"client.{namespace}.target", checkpoint)
    with engine.step("a stream to a table that the service plans"):
        lake.spark.stream(f"client.{namespace}.source", f"server.{namespace}.target", checkpoint)
        assert lake.rows(f"{namespace}.target") == [(1,)]
