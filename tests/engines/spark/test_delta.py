"""Delta tables, some with deletion vectors, read as Iceberg tables."""

from __future__ import annotations

from typing import Any

import pytest

from tests.delta_tables import expected_rows, writable_copy
from tests.engines.conftest import EngineReport
from tests.engines.spark.conftest import PLANNERS, Lake
from tests.engines.spark_process import SparkError

_TABLES = (
    "golden/dv-partitioned-with-checkpoint/delta",
    "golden/dv-with-columnmapping/delta",
    "golden/data-reader-partition-values/delta",
)


@pytest.mark.parametrize("name", _TABLES)
def test_rows(lake: Lake, engine: EngineReport, name: str) -> None:
    namespace = lake.create_namespace()
    folder = writable_copy(name, lake.warehouse.server.data_dir / "warehouse" / namespace / "t")
    path = f"/management/v1/catalogs/{lake.warehouse.name}/namespaces/{namespace}/tables"
    body = {"name": "t", "format": "delta", "location": f"file://{folder}"}
    assert lake.http.http.post(path, json=body).is_success
    expected = expected_rows(name)
    assert expected is not None
    column = expected.column_names[0]
    values = expected[column].to_pylist()
    with engine.step(f"the Delta table {name.split('/')[1]}"):
        [value] = [value for value in values if value is not None][:1]
        for planner in PLANNERS:
            found = lake.spark.sql(f"SELECT {column} FROM {planner}.{namespace}.t")
            assert ordered([row[0] for row in found]) == ordered(values)
            where = f"WHERE {column} = {value!r}"
            [[count]] = lake.spark.sql(f"SELECT count(*) FROM {planner}.{namespace}.t {where}")
            assert count == values.count(value)
    with engine.step("a Delta table is read-only"), pytest.raises(SparkError):
        lake.spark.sql(f"DELETE FROM client.{namespace}.t")


def ordered(values: list[Any]) -> list[str]:
    return sorted(str(value) for value in values)
