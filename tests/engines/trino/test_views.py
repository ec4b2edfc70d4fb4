"""Views: those of Trino, of PyIceberg and of the demo, in Trino and elsewhere."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from floecat_rest import demo_data
from tests.clients.connections import SparkCatalog
from tests.engines.conftest import EngineReport
from tests.engines.trino.conftest import Lake
from tests.engines.trino_server import TrinoError


def test_views(lake: Lake, engine: EngineReport) -> None:
    lake.sql("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'east'), (2, 'west')) AS v(id, region)")
    with engine.step("create a view"):
        lake.sql("CREATE VIEW v COMMENT 'regions' AS SELECT region FROM t")
        assert lake.sql("SELECT region FROM v ORDER BY 1") == [["east"], ["west"]]
    with engine.step("it is no table, and is listed"):
        listed = lake.sql(f"SELECT table_name, table_type FROM {lake.catalog}.information_schema.tables"
                          f" WHERE table_schema = '{lake.schema}' ORDER BY 1")  # fmt: skip
        assert listed == [["t", "BASE TABLE"], ["v", "VIEW"]]
    with engine.step("create a view that exists"), pytest.raises(TrinoError, match="already exists"):
        lake.sql("CREATE VIEW v AS SELECT 1 AS one")
    with engine.step("create or replace"):
        lake.sql("CREATE OR REPLACE VIEW v AS SELECT region, id FROM t WHERE id = 1")
        assert lake.sql("SELECT * FROM v") == [["east", 1]]
    with engine.step("show create"):
        [[shown]] = lake.sql("SHOW CREATE VIEW v")
        assert f"{lake.catalog}.{lake.schema}.v" in shown
    with engine.step("a view of a view, from another schema"):
        lake.sql("CREATE VIEW outer_view AS SELECT upper(region) AS r FROM v")
        name = f"{lake.catalog}.{lake.schema}.outer_view"
        assert lake.trino.run(f"SELECT r FROM {name}") == [["EAST"]]
    with engine.step("PyIceberg loads it with its history"):
        loaded = lake.pyiceberg().load_view(f"{lake.schema}.v")
        assert len(loaded.metadata.versions) == 2
        [representation] = loaded.metadata.versions[-1].representations
        assert representation.root.dialect == "trino"
        assert loaded.metadata.versions[-1].default_catalog == lake.catalog
    with engine.step("rename"):
        lake.sql("ALTER VIEW outer_view RENAME TO renamed")
        assert lake.sql("SELECT r FROM renamed") == [["EAST"]]
    with engine.step("a view of a column that is gone says so"):
        lake.sql("ALTER TABLE t DROP COLUMN region")
        with pytest.raises(TrinoError, match="region"):
            lake.sql("SELECT * FROM v")
    with engine.step("a view under the name of a table"), pytest.raises(TrinoError, match="already exists"):
        lake.sql("CREATE VIEW t AS SELECT 1 AS one")
    with engine.step("drop"):
        lake.sql("DROP VIEW renamed")
        lake.sql("DROP VIEW v")
        assert lake.sql("SHOW TABLES") == [["t"]]
    with engine.step("materialized views are not supported by REST catalogs of Trino"):
        with pytest.raises(TrinoError, match="not supported for Iceberg REST catalog"):
            lake.sql("CREATE MATERIALIZED VIEW m AS SELECT 1 AS one")
        assert lake.sql("SHOW TABLES") == [["t"]]


def test_views_of_others(lake: Lake, engine: EngineReport, spark: SparkSession) -> None:
    with engine.step("the view of the demo"):
        demo_data.load(lake.warehouse.uri, lake.warehouse.name, lambda _: None, lake.warehouse.access_keys)
        trips = lake.sql(f"SELECT city, trips FROM {lake.catalog}.demo.trips_by_city ORDER BY 2 DESC, 1")
        assert len(trips) > 3
    session = SparkCatalog(spark, lake.warehouse, lake.catalog)
    with engine.step("Spark reads the view of the demo, too"):
        rows = session.sql("SELECT city, trips FROM demo.trips_by_city ORDER BY 2 DESC, 1")
        assert [list(row) for row in rows] == trips
    with engine.step("Spark reads what Trino wrote, and the reverse"):
        lake.sql("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(id, name)")
        lake.sql("UPDATE t SET name = 'c' WHERE id = 2")
        assert session.sql(f"SELECT * FROM {lake.schema}.t ORDER BY id") == [(1, "a"), (2, "c")]
        session.sql(f"DELETE FROM {lake.schema}.t WHERE id = 1")
        session.sql(f"INSERT INTO {lake.schema}.t VALUES (3, 'spark')")
        assert lake.sql("SELECT * FROM t ORDER BY id") == [[2, "c"], [3, "spark"]]
    with engine.step("Trino refuses a view of Spark: it has no dialect trino"):
        session.sql(f"CREATE VIEW {lake.schema}.of_spark AS SELECT 1 AS one")
        with pytest.raises(TrinoError, match="dialect"):
            lake.sql("SELECT * FROM of_spark")
    with engine.step("Spark takes the text of a view of Trino for its own"):
        lake.sql("CREATE VIEW of_trino AS SELECT id FROM t WHERE id = 3")
        assert session.sql(f"SELECT * FROM {lake.schema}.of_trino") == [(3,)]
