"""Clients have scans planned by the service, and read what they read when they plan themselves."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import httpx
import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError
from pyiceberg.expressions import (
    AlwaysFalse,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    Not,
    NotEqualTo,
    NotIn,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.io import FileIO, InputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import DecimalType, LongType, StringType

from floecat.iceberg.manifests.partition_tuples import PartitionSummary
from tests.clients.connections import Connections, connect_duckdb, connect_pyiceberg
from tests.clients.kit.java import Iceberg
from tests.clients.spark_lake import new_lake
from tests.clients.warehouses import Warehouse, unique
from tests.services.java_answers import JavaAnswers
from tests.unit.planning.small_tables import SmallTable, data_file, spec

_ID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
COLUMNS = pa.schema(
    [
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("n", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("t", pa.time64("us")),
        ("ts", pa.timestamp("us")),
        ("tz", pa.timestamp("us", "UTC")),
        ("u", pa.uuid()),
        ("y", pa.binary()),
        ("x", pa.binary(3)),
    ]
)
LITERALS: list[BooleanExpression] = [
    GreaterThan("i", 3),
    LessThan("l", 2**40),
    GreaterThanOrEqual("f", 1.5),
    And(LessThan("d", 3.0), Not(IsNaN("d"))),
    IsNaN("d"),
    EqualTo("b", True),
    EqualTo("s", "ü2"),
    StartsWith("s", "ü"),
    NotStartsWith("s", "ü1"),
    In("s", {"ü1", "ü4", "none"}),
    NotIn("i", {1, 2}),
    NotEqualTo("n", Decimal("2.50")),
    In("n", {Decimal("1.50"), Decimal("3.50")}),
    EqualTo("day", date(2024, 1, 3)),
    LessThan("t", time(3, 0, 0, 1)),
    GreaterThanOrEqual("ts", datetime(2024, 1, 3)),
    LessThan("tz", datetime(2024, 1, 3, tzinfo=UTC)),
    EqualTo("y", b"\x00\xff2"),
    EqualTo("x", b"\x00\xff2"),
    Or(IsNull("s"), EqualTo("i", 2)),
    And(NotNull("s"), Not(Or(EqualTo("i", 2), GreaterThan("day", date(2024, 1, 4))))),
    AlwaysFalse(),
]
FILTERS_OF_CHANGED: dict[str, Callable[[int | None, Decimal | None], bool]] = {
    "id > 0 or id is null": lambda *_: True,
    "id > 4": lambda id, _: id is not None and id > 4,
    "id is null": lambda id, _: id is None,
    "amount <= 3.50 or id = 10": lambda id, n: (n is not None and n <= Decimal("3.50")) or id == 10,
    "more is not null": lambda id, _: id == 10,
    "day >= '2024-01-03' and id < 9": lambda id, _: id is not None and 3 <= id < 9,
}
PARTITIONS: dict[str, Any] = {
    "s": IdentityTransform(),
    "ts": DayTransform(),
    "l": BucketTransform(8),
    "y": TruncateTransform(2),
    "n": IdentityTransform(),
}


class WatchedFiles(PyArrowFileIO):
    """Files of PyIceberg that say which Avro files were opened."""

    opened: list[str]

    def __init__(self, files: FileIO) -> None:
        super().__init__(files.properties)
        self.opened = []

    def new_input(self, location: str) -> InputFile:
        if location.endswith(".avro"):
            self.opened.append(location)
        return super().new_input(location)


def rows(first: int, last: int) -> pa.Table:
    """Rows of which the first one has nulls."""
    made: list[dict[str, Any]] = [
        {
            "i": number,
            "l": number << 38,
            "f": number / 2,
            "d": float("nan") if number == 4 else number / 2,
            "b": number % 2 == 0,
            "s": f"ü{number}",
            "n": Decimal(number) + Decimal("0.50"),
            "day": date(2024, 1, number + 1),
            "t": time(number, 0, 0, 1),
            "ts": datetime(2024, 1, number + 1, 12),
            "tz": datetime(2024, 1, number + 1, 12, tzinfo=UTC),
            "u": _ID if number == 2 else uuid.UUID(int=number),
            "y": b"\x00\xff%d" % number,
            "x": b"\x00\xff%d" % number,
        }
        for number in range(first, last)
    ]
    made.append(dict.fromkeys(COLUMNS.names) | {"i": 100 + first})
    for row in made:
        row["u"] = None if row["u"] is None else row["u"].bytes
    return pa.Table.from_pylist(made, schema=COLUMNS)


@pytest.fixture(scope="module")
def planned(connections: Connections, disk_warehouse: Warehouse) -> RestCatalog:
    """A catalog of PyIceberg that has its scans planned."""
    return connections.planned(disk_warehouse)


@pytest.fixture(
    scope="module", params=[[], ["l"], ["s", "ts", "y", "n"]], ids=["unpartitioned", "bucket", "evolved"]
)
def both(
    request: pytest.FixtureRequest,
    connections: Connections,
    disk_warehouse: Warehouse,
    planned: RestCatalog,
) -> tuple[Table, Table]:
    """A table with two snapshots, planned by the service and planned by the client."""
    here = connections.pyiceberg(disk_warehouse)
    namespace = unique("planned")
    here.create_namespace(namespace)
    name = f"{namespace}.t"
    table = here.create_table(name, COLUMNS)
    for column in request.param:
        with table.update_spec() as update:
            update.add_field(column, PARTITIONS[column], f"by_{column}")
        table.append(rows(1, 4))
    table.append(rows(2, 7))
    table.manage_snapshots().create_tag(table.metadata.current_snapshot_id or 0, "then").commit()
    table.append(rows(7, 9))
    return planned.load_table(name), here.load_table(name)


def same(left: pa.Table, right: pa.Table) -> bool:
    order = [("i", "ascending"), ("l", "ascending")]
    return str(left.sort_by(order).to_pylist()) == str(right.sort_by(order).to_pylist())


def test_every_form_of_literal(both: tuple[Table, Table]) -> None:
    there, here = both
    for filter in LITERALS:
        scan = there.scan(row_filter=filter, selected_fields=("i", "l"))
        own = here.scan(row_filter=filter, selected_fields=("i", "l")).to_arrow()
        assert same(scan.to_arrow(), own), filter
        # where a file has nulls for a negated filter, the client's own plan counts more rows than it reads
        assert scan.count() == own.num_rows, filter


def test_uuids(both: tuple[Table, Table]) -> None:
    """PyIceberg plans scans by UUID, and cannot filter the rows that it reads."""
    planned, own = (
        {task.file.file_path for task in table.scan(row_filter=EqualTo("u", _ID)).plan_files()}
        for table in both
    )
    assert planned
    assert planned <= own


def test_the_client_reads_no_manifest(both: tuple[Table, Table]) -> None:
    there, here = both
    for table, reads in ((there, False), (here, True)):
        files = WatchedFiles(table.io)
        watched = Table(table.name(), table.metadata, table.metadata_location, files, table.catalog)
        assert same(watched.scan().to_arrow(), here.scan().to_arrow())
        assert bool(files.opened) == reads


def test_tags_and_snapshots(both: tuple[Table, Table]) -> None:
    there, here = both
    for snapshot in here.metadata.snapshots:
        at = {"snapshot_id": snapshot.snapshot_id}
        assert same(there.scan(**at).to_arrow(), here.scan(**at).to_arrow())  # type: ignore[arg-type]
    assert there.scan().use_ref("then").count() == here.scan().use_ref("then").count()


def test_a_partition_column_that_was_dropped_and_returns(
    connections: Connections, disk_warehouse: Warehouse, planned: RestCatalog
) -> None:
    """Java rewrote a manifest while the column was gone, and lost its values: whoever takes them for nulls
    rules the file out. PyIceberg does."""
    here, namespace = connections.pyiceberg(disk_warehouse), unique("planned")
    here.create_namespace(namespace)
    location = f"{disk_warehouse.root}/{namespace}"
    written = SmallTable(
        Path(urlsplit(location).path),
        [{1: ("x", "string"), 2: ("y", "long")}, {2: ("y", "long")}],
        [spec(1, ("x", "identity", 1)), spec(0)],
    )
    written.folder.mkdir(parents=True)
    file = data_file(f"{location}/a.parquet", partition={"x": None})
    nothing = PartitionSummary(False, False, None, None)
    written.add(file, spec_id=1, types=["string"], lost=["x"], summaries=[nothing])
    (written.folder / "m.metadata.json").write_bytes(written.metadata())
    here.register_table(f"{namespace}.t", f"{location}/m.metadata.json")
    back = {"requirements": [], "updates": [{"action": "set-current-schema", "schema-id": 0}]}
    path = f"{disk_warehouse.uri}/v1/{disk_warehouse.name}/namespaces/{namespace}/tables/t"
    assert httpx.post(path, json=back).status_code == 200

    def files(catalog: RestCatalog, filter: str) -> list[str]:
        scan = catalog.load_table(f"{namespace}.t").scan(row_filter=filter)
        return [task.file.file_path.removeprefix(location) for task in scan.plan_files()]

    for filter in ("x = 'p'", "x is null"):
        assert files(planned, filter) == ["/a.parquet"]
        assert files(here, filter) == []


@pytest.mark.parametrize("version", ["1", "2"])
def test_tables_that_have_changed(
    connections: Connections, disk_warehouse: Warehouse, planned: RestCatalog, version: str
) -> None:
    """Columns were promoted, renamed, added and dropped, one that files were partitioned by among them."""
    here = connections.pyiceberg(disk_warehouse)
    namespace = unique("planned")
    here.create_namespace(namespace)
    schema = pa.schema(
        [("id", pa.int32()), ("kind", pa.string()), ("n", pa.decimal128(9, 2)), ("day", pa.date32())]
    )
    table = here.create_table(f"{namespace}.t", schema, properties={"format-version": version})
    with table.update_spec() as spec:
        spec.add_identity("kind").add_field("n", TruncateTransform(200), "tens")
    old = [(n, "ab"[n % 2], Decimal(n) + Decimal("0.50"), date(2024, 1, n)) for n in range(1, 10)]
    written = [dict(zip(schema.names, row, strict=True)) for row in old] + [dict.fromkeys(schema.names)]
    for part in (written[:5], written[5:]):
        table.append(pa.Table.from_pylist(part, schema))
    table.delete("id = 5")
    if version == "2":
        with connect_duckdb(disk_warehouse) as duck:
            duck.execute(f"DELETE FROM lake.{namespace}.t WHERE id = 2")
        table = here.load_table(f"{namespace}.t")
    with table.update_spec() as spec:
        spec.remove_field("kind").add_field("id", BucketTransform(4), "shard")
    with table.update_schema() as change:
        change.update_column("id", LongType()).update_column("n", DecimalType(12, 2))
        change.rename_column("n", "amount").add_column("more", StringType())
        if version == "2":
            # of version 1 PyIceberg cannot write the table then
            change.delete_column("kind")
    new = {"id": 10, "amount": Decimal("10.50"), "day": date(2024, 1, 10), "more": "m"}
    table.append(pa.Table.from_pylist([new], schema=table.schema().as_arrow()))
    gone = (5, 2) if version == "2" else (5,)
    rows = [(n, amount) for n, _, amount, _ in old if n not in gone] + [(None, None), (10, Decimal("10.50"))]
    changed = planned.load_table(f"{namespace}.t")
    for filter, keep in FILTERS_OF_CHANGED.items():
        scan = changed.scan(row_filter=filter, selected_fields=("id", "amount"))
        found = [tuple(row.values()) for row in scan.to_arrow().to_pylist()]
        expected = [row for row in rows if keep(*row)]
        assert sorted(map(str, found)) == sorted(map(str, expected)), filter
        assert scan.count() == len(expected), filter


def test_duckdb_of_this_version_plans_itself(
    connections: Connections, disk_warehouse: Warehouse, planned: RestCatalog
) -> None:
    """A failure means that it has learned the mode: then a test of its own takes the place of the replay.

    It takes any configuration of a table for credentials.
    """
    namespace = unique("planned")
    connections.pyiceberg(disk_warehouse).create_namespace(namespace)
    properties = {"scan-planning-mode": "server"}
    table = connections.pyiceberg(disk_warehouse).create_table(
        f"{namespace}.t", COLUMNS, properties=properties
    )
    table.append(rows(1, 4))
    count = f"SELECT count(*) FROM lake.{namespace}.t"
    with connect_duckdb(disk_warehouse) as duck, pytest.raises(duckdb.Error, match="No region"):
        duck.execute(count)
    with connect_duckdb(disk_warehouse, "ACCESS_DELEGATION_MODE 'none'") as duck:
        settings = "SELECT name FROM duckdb_settings() WHERE name LIKE '%scan_planning%'"
        assert duck.execute(settings).fetchall() == []
        assert duck.execute(count).fetchall() == [(4,)]
    assert planned.load_table(f"{namespace}.t").scan().count() == 4


def test_mistakes_reach_the_user(both: tuple[Table, Table]) -> None:
    there, _ = both
    with pytest.raises(BadRequestError, match="nothing"):
        there.scan(row_filter="nothing = 1").plan_files()


def test_a_client_that_is_to_plan_itself_posts_nothing(
    disk_warehouse: Warehouse, both: tuple[Table, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect_pyiceberg(disk_warehouse, **{"scan-planning-mode": "client"}) as catalog:
        table = catalog.load_table(both[1].name()[-2:])
        posted: list[str] = []
        post = catalog._session.post
        monkeypatch.setattr(
            catalog._session, "post", lambda url, **more: posted.append(url) or post(url, **more)
        )
        assert table.scan().count() == both[0].scan().count()
    assert posted == []


@pytest.fixture(scope="module")
def deletes(iceberg_java: JavaGateway, disk_warehouse: Warehouse) -> str:
    """A table of format version 3 by Java, of which no file exists: its name as `namespace.t`.

    Files 1 and 2 are of partition a, 3 of b, 4 of null. Vectors of 1, 3 and 4 share a Puffin file; an
    equality delete is of partition a.
    """
    iceberg = Iceberg(iceberg_java)
    api, schema = iceberg.api, iceberg.schema()
    spec = api.PartitionSpec.builderFor(schema).identity("data").build()
    name = unique("deletes")
    catalog = iceberg.catalog(disk_warehouse)
    catalog.createNamespace(iceberg.namespace(name))
    properties = iceberg.map({"format-version": "3"})
    table = catalog.createTable(iceberg.identifier(name, "t"), schema, spec, properties)
    spec = table.spec()
    files = []
    append = table.newFastAppend()
    for number, partition in enumerate(("a", "a", "b", "__HIVE_DEFAULT_PARTITION__"), start=1):
        builder = api.DataFiles.builder(spec).withPath(f"file:/d/{number}.parquet").withFileSizeInBytes(9)
        files.append(builder.withRecordCount(5).withPartitionPath(f"data={partition}").build())
        append.appendFile(files[-1])
    append.commit()
    change = table.newRowDelta()
    for number in (0, 2, 3):
        vector = (
            api.FileMetadata.deleteFileBuilder(spec).ofPositionDeletes().withPath("file:/d/shared.puffin")
        )
        vector = vector.withFormat("PUFFIN").withPartition(files[number].partition()).withFileSizeInBytes(99)
        vector = vector.withReferencedDataFile(str(files[number].path())).withRecordCount(1)
        change.addDeletes(vector.withContentOffset(4 + 40 * number).withContentSizeInBytes(40).build())
    ids = iceberg.jvm.java.lang.reflect.Array.newInstance(iceberg.jvm.java.lang.Integer.TYPE, 1)
    ids[0] = schema.findField("id").fieldId()
    equality = api.FileMetadata.deleteFileBuilder(spec).ofEqualityDeletes(ids).withPath("file:/d/eq.parquet")
    equality = equality.withPartition(files[0].partition()).withFileSizeInBytes(9).withRecordCount(1)
    change.addDeletes(equality.build())
    change.commit()
    catalog.close()
    return f"{name}.t"


def test_java_reads_every_answer(iceberg_java: JavaGateway, disk_warehouse: Warehouse, deletes: str) -> None:
    java = JavaAnswers(iceberg_java)
    path = f"/v1/{disk_warehouse.name}/namespaces/{deletes.partition('.')[0]}/tables/t"
    with httpx.Client(
        base_url=disk_warehouse.uri + path, headers={"x-client-version": "test"}, timeout=60
    ) as http:
        metadata = http.get("").json()["metadata"]
        request = {"filter": {"type": "lt", "term": "id", "value": 5}, "stats-fields": ["id", "data"]}
        for body in ({}, request):
            answer = http.post("/plan", json=body).json()
            read = java.read("plan", answer, metadata)
            found = {task.path: sorted(task.deletes) for task in read.tasks}
            assert found == {
                "file:/d/1.parquet": ["file:/d/eq.parquet@null", "file:/d/shared.puffin@4"],
                "file:/d/2.parquet": ["file:/d/eq.parquet@null"],
                "file:/d/3.parquet": ["file:/d/shared.puffin@84"],
                "file:/d/4.parquet": ["file:/d/shared.puffin@124"],
            }
            assert len(answer["delete-files"]) == 4
            assert {json.dumps(task.residual) for task in read.tasks} == {
                json.dumps(body["filter"]) if body else "true"  # type: ignore[dict-item]
            }
            plan = f"/plan/{answer['plan-id']}"
            again = java.read(
                "result", http.get(plan, params={"X-Header": "as Java sends it"}).json(), metadata
            )
            assert again.tasks == read.tasks
            assert http.delete(plan).status_code == 204
            assert java.read("result", http.get(plan).json(), metadata).status == "CANCELLED"


def test_equality_deletes_are_refused_by_pyiceberg(planned: RestCatalog, deletes: str) -> None:
    with pytest.raises(NotImplementedError, match=r"eq\.parquet"):
        planned.load_table(deletes).scan().plan_files()
    # the others are planned, each with its own
    tasks = planned.load_table(deletes).scan(row_filter="data = 'b'").plan_files()
    assert [[file.file_path for file in task.delete_files] for task in tasks] == [["file:/d/shared.puffin"]]


@pytest.mark.spark
@pytest.mark.s3
def test_deletion_vectors_that_share_a_file(connections: Connections, s3_warehouse: Warehouse) -> None:
    """By Spark: vectors of many data files in one Puffin file, and of two snapshots."""
    lake = new_lake(connections, s3_warehouse)
    lake.sql(
        "CREATE TABLE {ns}.t (id BIGINT, shard BIGINT) USING iceberg PARTITIONED BY (shard) TBLPROPERTIES"
        " ('format-version' = '3', 'write.delete.mode' = 'merge-on-read',"
        " 'write.delete.distribution-mode' = 'none', 'read.split.adaptive-size.enabled' = 'false',"
        " 'read.split.open-file-cost' = '1')"
    )
    lake.sql("INSERT INTO {ns}.t SELECT id, id % 20 FROM range(0, 200, 1, 1)")
    lake.sql("DELETE FROM {ns}.t WHERE id < 100")
    lake.sql("DELETE FROM {ns}.t WHERE id = 150 OR id = 170")
    kept = [number for number in range(100, 200) if number not in (150, 170)]
    there = connections.planned(s3_warehouse).load_table(f"{lake.ns}.t")
    vectors = [file for task in there.scan().plan_files() for file in task.delete_files]
    assert len(vectors) == 20
    assert len({file.file_path for file in vectors}) <= 4
    for filter, expected in (
        ("id >= 0", kept),
        ("shard = 10", [number for number in kept if number % 20 == 10]),
        ("shard < 4 and id >= 180", [180, 181, 182, 183]),
    ):
        scan = there.scan(row_filter=filter)
        assert sorted(scan.to_arrow()["id"].to_pylist()) == expected
        assert scan.count() == len(expected)
