"""Tables of others in Trino: PyIceberg's, and Delta tables; and what a registration brings."""

from __future__ import annotations

from decimal import Decimal

import httpx
import pyarrow as pa
import pytest
from pyiceberg.exceptions import NoSuchTableError

from tests.delta_tables import delta_table, table_facts
from tests.engines.conftest import EngineReport
from tests.engines.trino.conftest import Lake, page_settings
from tests.engines.trino_server import TrinoError

_DELTA = [
    "kernel-rs/table-with-dv-small",
    "golden/dv-with-columnmapping/delta",
    "golden/dv-partitioned-with-checkpoint/delta",
    "golden/table-with-columnmapping-mode-id/delta",
    "delta/table-with-dv-large",
    "golden/data-reader-primitives/delta",
]


def test_pyiceberg(lake: Lake, engine: EngineReport) -> None:
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "name": ["a", None, "ü"],
            "amount": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(9, 2)),
            "tags": pa.array([["x"], [], None], pa.list_(pa.string())),
        }
    )
    catalog = lake.pyiceberg()
    with engine.step("Trino reads what PyIceberg wrote"):
        table = catalog.create_table(f"{lake.schema}.t", rows.schema)
        table.append(rows)
        assert lake.sql("SELECT * FROM t ORDER BY id") == [
            [1, "a", "1.50", ["x"]], [2, None, None, []], [3, "ü", "-2.25", None],
        ]  # fmt: skip
    with engine.step("both write in turns"):
        lake.sql("INSERT INTO t (id, name) VALUES (4, 'trino')")
        lake.sql("DELETE FROM t WHERE id = 1")
        table.refresh().append(rows.slice(0, 1))
        with table.update_schema() as change:
            change.rename_column("name", "title")
        lake.sql(
            "MERGE INTO t USING (VALUES 4) AS s(id) ON t.id = s.id WHEN MATCHED THEN UPDATE SET title = 'x'"
        )
        expected = [[1, "a"], [2, None], [3, "ü"], [4, "x"]]
        assert lake.sql("SELECT id, title FROM t ORDER BY id") == expected
        found = catalog.load_table(f"{lake.schema}.t").scan().to_arrow().sort_by("id").to_pylist()
        assert [[row["id"], row["title"]] for row in found] == expected
    with engine.step("a table that is dropped is gone for both"):
        lake.sql("DROP TABLE t")
        with pytest.raises(NoSuchTableError):
            catalog.load_table(f"{lake.schema}.t")
    with engine.step("a registration is read and written"):
        made = catalog.create_table(f"{lake.schema}.source", rows.schema)
        made.append(rows)
        file = made.metadata_location
        lake.sql(f"CALL {lake.catalog}.system.unregister_table('{lake.schema}', 'source')")
        catalog.register_table(f"{lake.schema}.registered", file)
        lake.sql("INSERT INTO registered (id) VALUES (9)")
        assert lake.sql("SELECT id FROM registered ORDER BY id") == [[1], [2], [3], [9]]


def test_registration(lake: Lake, engine: EngineReport) -> None:
    lake.sql("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v(id, name)")
    lake.sql("DELETE FROM t WHERE id = 2")
    folder, _, file = (
        lake.pyiceberg().load_table(f"{lake.schema}.t").metadata_location.rpartition("/metadata/")
    )
    lake.sql(f"CALL {lake.catalog}.system.unregister_table('{lake.schema}', 't')")
    catalog = f"{lake.catalog}_registers"
    allowed = {"iceberg.register-table-procedure.enabled": "true"}
    lake.trino.add_catalog(catalog, page_settings(lake.warehouse) | allowed)

    def register(*arguments: str) -> None:
        listed = ", ".join(f"'{each}'" for each in (lake.schema, *arguments))
        lake.trino.run(f"CALL {catalog}.system.register_table({listed})")

    try:
        with engine.step("register_table with the name of a metadata file"):
            register("named", folder, file)
            assert lake.sql("SELECT * FROM named") == [[1, "a"]]
            lake.sql("INSERT INTO named VALUES (3, 'c')")
            assert lake.sql("SELECT id FROM named ORDER BY id") == [[1], [3]]
        with (
            engine.step("of a file that is not there is refused"),
            pytest.raises(TrinoError, match="not exist"),
        ):
            register("missing", folder, "none.metadata.json")
        with engine.step("register_table of the newest file of a folder"):
            lake.sql(f"CALL {lake.catalog}.system.unregister_table('{lake.schema}', 'named')")
            if lake.warehouse.s3:
                register("newest", folder)
                assert lake.sql("SELECT id FROM newest ORDER BY id") == [[1], [3]]
            else:
                # it names the file local:///…, which is no location of Iceberg
                with pytest.raises(TrinoError, match="local:///"):
                    register("newest", folder)
    finally:
        lake.trino.remove_catalog(catalog)


@pytest.mark.parametrize("name", _DELTA)
def test_delta(lake: Lake, engine: EngineReport, name: str) -> None:
    location = f"{lake.warehouse.root}/delta-{lake.schema}"
    folder = delta_table(name)
    for file in folder.rglob("*"):
        if file.is_file():
            lake.warehouse.put(f"{location}/{file.relative_to(folder)}", file.read_bytes())
    path = f"/management/v1/catalogs/{lake.warehouse.name}/namespaces/{lake.schema}/tables"
    body = {"name": "d", "format": "delta", "location": location}
    headers = {"x-client-version": "test"}
    httpx.post(f"{lake.warehouse.uri}{path}", json=body, headers=headers, timeout=120).raise_for_status()
    with engine.step(f"read the Delta table {name}"):
        count = table_facts(name).read["duckdb"]
        assert lake.sql("SELECT count(*) FROM d") == [[count]]
        read = lake.sql("SELECT * FROM d")
        assert len(read) == count
        found = lake.pyiceberg().load_table(f"{lake.schema}.d").scan().to_arrow()
        # a row that is null is a row of nulls to PyIceberg
        plain = [n for n, field in enumerate(found.schema) if not pa.types.is_nested(field.type)]
        assert [found.column(n).null_count for n in plain] == [
            sum(row[n] is None for row in read) for n in plain
        ]
        if "id" in found.column_names:
            number = found.column_names.index("id")
            assert sorted(row[number] for row in read) == sorted(found["id"].to_pylist())
    with engine.step(f"writes to the Delta table {name} are refused"):
        with pytest.raises(TrinoError):
            lake.sql("DELETE FROM d")
        assert lake.sql("SELECT count(*) FROM d") == [[count]]
