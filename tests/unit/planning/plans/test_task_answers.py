"""File scan tasks in JSON, of random tables: as the specification has them, and as clients read them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.java_gateway import JavaGateway
from pyiceberg.catalog.rest.scan_planning import ScanTasks
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadataUtil

from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.planning.files.scan_planning import ScanPlanner
from floecat.planning.files.scans import ScanPlan, ScanRequest
from floecat.planning.files.targets import resolve, spec_types
from floecat.planning.filters.expression_json import parse_filter, write_expression
from floecat.planning.plans.json_columns import single_values
from floecat.planning.plans.pyiceberg_partitions import pyiceberg_partitions
from floecat.planning.plans.residual_texts import insert_sets, sets_of
from floecat.planning.plans.task_answers import (
    ChunkSize,
    Partitions,
    PartitionTypes,
    client_types,
    render_tasks,
)
from floecat.store.entries.documents import decompress
from tests.services.java_answers import JavaAnswers
from tests.services.spark import iceberg_java
from tests.storages import storage_at
from tests.unit.planning.planned_files import new_planner, plan_table
from tests.unit.planning.random_filters import random_filter
from tests.unit.planning.random_tables import RandomTable, random_table
from tests.unit.planning.small_tables import SmallTable, data_file, spec

__all__ = ["iceberg_java"]

SEEDS = range(30)
_HEX = re.compile("(?:[0-9A-F]{2})*")


@pytest.fixture(scope="module")
def java(iceberg_java: JavaGateway) -> JavaAnswers:
    return JavaAnswers(iceberg_java)


@pytest.fixture
def planner() -> Iterator[ScanPlanner]:
    made = new_planner()
    yield made
    made.close()


def sample(seed: int, folder: Path) -> tuple[RandomTable, Any]:
    source = Random(seed)
    (folder / str(seed)).mkdir()
    table = random_table(source, folder / str(seed))
    return table, random_filter(source, table.columns).json


def answers(
    planner: ScanPlanner,
    table: RandomTable,
    filter: Any,
    *,
    partitions: Partitions | None = None,
    files_per_chunk: int = 3,
    chunk_bytes: int = 1 << 20,
    task_bytes: int = 1 << 20,
) -> list[dict[str, Any]]:
    metadata = TableMetadata.parse(table.metadata)
    names = tuple(column.name for column in table.columns)
    target = resolve(metadata, ScanRequest(filter=parse_filter(filter), stats_fields=names))
    plan: ScanPlan = planner.plan(storage_at(["file:///"]), target)
    types: PartitionTypes = client_types(metadata)
    if partitions is not None:
        types = {spec_id: found.types for spec_id, found in spec_types(metadata).items()}
    chunks = render_tasks(
        plan, types=types, most=ChunkSize(files_per_chunk, chunk_bytes, task_bytes), partitions=partitions
    )
    return [json.loads(b"{%b}" % decompress(chunk.answer)) for chunk in chunks]


def test_tasks_are_those_of_the_plan(planner: ScanPlanner, tmp_path: Path) -> None:
    for seed in SEEDS:
        table, filter = sample(seed, tmp_path)
        expected = plan_table(planner, table.metadata, filter)
        found = []
        for answer in answers(planner, table, filter):
            deletes = answer.get("delete-files", [])
            used: set[int] = set()
            for task in answer["file-scan-tasks"]:
                references = task.get("delete-file-references", [])
                used.update(references)
                names = {
                    f"{deletes[at]['file-path']}@{deletes[at].get('content-offset', 'null')}"
                    for at in references
                }
                found.append((task["data-file"]["file-path"], names, task["residual-filter"]))
            # each once, and none that no task refers to
            assert used == set(range(len(deletes)))
            assert len(answer["file-scan-tasks"]) <= 3
        assert found == [(each.path, set(each.deletes), each.residual) for each in expected]


def test_content_files_have_the_shape_of_the_specification(planner: ScanPlanner, tmp_path: Path) -> None:
    for seed in SEEDS:
        table, _ = sample(seed, tmp_path)
        specs = {spec["spec-id"]: spec["fields"] for spec in json.loads(table.metadata)["partition-specs"]}
        for answer in answers(planner, table, None):
            files = [task["data-file"] for task in answer["file-scan-tasks"]]
            for file in (*files, *answer.get("delete-files", ())):
                assert len(file["partition"]) == len(specs[file["spec-id"]])
                assert file["content"] in ("data", "position-deletes", "equality-deletes")
                assert (file["content"] == "data") == (file in files)
                assert file["file-format"] in ("parquet", "puffin")
                assert ("equality-ids" in file) == (file["content"] == "equality-deletes")
                assert ("content-offset" in file) == (file["file-format"] == "puffin")
                for name in ("lower-bounds", "upper-bounds", "value-counts"):
                    pairs = file.get(name, {"keys": [], "values": []})
                    assert len(pairs["keys"]) == len(pairs["values"])
                    assert name == "value-counts" or all(map(_HEX.fullmatch, pairs["values"]))


def test_java_reads_them(planner: ScanPlanner, tmp_path: Path, java: JavaAnswers) -> None:
    for seed in SEEDS:
        table, filter = sample(seed, tmp_path)
        metadata = json.loads(table.metadata)
        bytes_ = [column.name for column in table.columns if column.type in ("binary", "fixed[2]")]
        if any(f'"{name}"' in json.dumps(filter) for name in bytes_):
            filter = None  # Java reads no literal of these types without a schema, and gives its parser none
        expected = plan_table(planner, table.metadata, filter)
        sent = answers(planner, table, filter, files_per_chunk=100)
        if '"NaN"' in json.dumps(sent):
            continue  # Java does not read its own spelling of a partition that is not a number
        read = [task for answer in sent for task in java.read("fetched", answer, metadata).tasks]
        assert [(task.path, set(task.deletes)) for task in read] == [
            (each.path, set(each.deletes)) for each in expected
        ]
        # Java evaluates what it is told for the partition of the file once more
        assert all(
            task.residual == each.residual
            for task, each in zip(read, expected, strict=True)
            if isinstance(each.residual, bool)
        )


def test_pyiceberg_reads_them(planner: ScanPlanner, tmp_path: Path) -> None:
    for seed in SEEDS:
        table, filter = sample(seed, tmp_path)
        specs = spec_types(TableMetadata.parse(table.metadata))
        partitions = partial(pyiceberg_partitions, specs=specs, are_absent=False)
        for answer in answers(planner, table, filter, partitions=partitions):
            read = ScanTasks.model_validate_json(json.dumps(answer))
            for sent, task in zip(answer["file-scan-tasks"], read.file_scan_tasks, strict=True):
                assert task.data_file.file_path == sent["data-file"]["file-path"]
                assert task.residual_filter is not None
                written = parse_filter(json.loads(task.residual_filter.model_dump_json()))
                assert _shape(write_expression(written)) == _shape(sent["residual-filter"])


@pytest.mark.parametrize("name", ["float", "double"])
def test_an_infinite_partition_is_a_number(iceberg_java: JavaGateway, name: str) -> None:
    values = pa.array([math.inf, -math.inf, 1.5], {"float": pa.float32(), "double": pa.float64()}[name])
    written = single_values(values, PrimitiveType(name)).to_pylist()
    assert written == ["1e999", "-1e999", "1.5"]
    jvm: Any = iceberg_java.jvm
    type = jvm.org.apache.iceberg.types.Types.fromPrimitiveString(name)
    read = [jvm.org.apache.iceberg.SingleValueParser.fromJson(type, text) for text in written]
    assert read == [float(text) for text in written] == values.to_pylist()


def test_files_of_hive_that_pyiceberg_reads(planner: ScanPlanner, tmp_path: Path) -> None:
    # neither has its partition columns; those of other transforms are not read
    columns = {1: ("p", "string"), 2: ("q", "int"), 3: ("id", "long")}
    by_all = spec(1, ("p", "identity", 1), ("q", "identity", 2), ("b", "bucket[4]", 3), ("v", "void", 1))
    table = SmallTable(tmp_path, [columns], [spec(0), by_all])
    pq.write_table(pa.table({"id": pa.array([7, None])}), tmp_path / "f.parquet")
    name_mapping = json.dumps([{"field-id": id, "names": [name]} for id, (name, _) in columns.items()])
    partitions = [("a", 5), (None, None), (None, 5), ("a", None)]
    files = [
        data_file(f"{tmp_path}/f.parquet", partition={"p": p, "q": q, "b": None, "v": None}, record_count=2)
        for p, q in partitions
    ]
    table.add(*files, spec_id=1, types=["string", "int", "int", "string"])
    document = TableMetadata.parse(table.metadata())
    specs = spec_types(document)
    plan = planner.plan(storage_at(["file:///"]), resolve(document, ScanRequest()))
    [chunk] = render_tasks(
        plan,
        types={spec_id: found.types for spec_id, found in specs.items()},
        most=ChunkSize(10, 1 << 20, 1 << 20),
        partitions=partial(pyiceberg_partitions, specs=specs, are_absent=False),
    )
    answer = json.loads(b"{%b}" % decompress(chunk.answer))
    read = ScanTasks.model_validate_json(json.dumps(answer))
    metadata = TableMetadataUtil.parse_raw(document.to_bytes().decode()).model_copy(
        update={"properties": {"schema.name-mapping.default": name_mapping}}
    )

    def rows(place: int, *selected: str) -> list[dict[str, object]]:
        task = FileScanTask.from_rest_response(read.file_scan_tasks[place], [])
        schema = metadata.schema().select(*selected) if selected else metadata.schema()
        scan = ArrowScan(metadata, PyArrowFileIO(), schema, AlwaysTrue())
        found: list[dict[str, object]] = scan.to_table([task]).to_pylist()
        return found

    assert rows(0) == [{"p": "a", "q": 5, "id": 7}, {"p": "a", "q": 5, "id": None}]
    assert rows(1) == [{"p": None, "q": None, "id": 7}, {"p": None, "q": None, "id": None}]
    # nothing stands for a null beside other values
    for place in (2, 3):
        with pytest.raises(IndexError):
            rows(place)
        assert rows(place, "id") == [{"id": 7}, {"id": None}]


def _shape(filter: Any) -> Any:
    """A filter without its literals; a list of one is the value."""
    if isinstance(filter, dict):
        if len(filter.get("values", "..")) == 1:
            filter = {"type": {"in": "eq", "not-in": "not-eq"}[filter["type"]], "term": filter["term"]}
        return {key: _shape(value) for key, value in filter.items() if key not in ("value", "values")}
    return filter


@pytest.mark.parametrize("predicates", [1, 150])
def test_a_long_filter_is_put_in_where_an_answer_is_sent(
    planner: ScanPlanner, tmp_path: Path, predicates: int
) -> None:
    table = SmallTable(tmp_path, [{1: ("x", "string")}])
    table.add(*(data_file(str(number)) for number in range(20)))
    filter: Any = {"type": "eq", "term": "x", "value": "v" * (20_000 // predicates)}
    for number in range(1, predicates):
        other = {"type": "eq", "term": "x", "value": f"{number:0{20_000 // predicates}}"}
        filter = {"type": "or", "left": filter, "right": other}
    metadata = TableMetadata.parse(table.metadata())
    target = resolve(metadata, ScanRequest(filter=parse_filter(filter)))
    plan = planner.plan(storage_at(["file:///"]), target)
    size = ChunkSize(100, 1 << 20, 1 << 20)
    (chunk,) = render_tasks(plan, types=client_types(metadata), most=size)
    stored = decompress(chunk.answer)
    assert chunk.has_references
    assert len(stored) < 20_000
    answer = json.loads(b"{%b}" % insert_sets(stored, sets_of(plan.whole)))
    assert [task["residual-filter"] for task in answer["file-scan-tasks"]] == [filter] * 20
