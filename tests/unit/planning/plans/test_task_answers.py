"""File scan tasks in JSON, of random tables: as the specification has them, and as clients read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.compute as pc
import pytest
from py4j.java_gateway import JavaGateway
from pyiceberg.catalog.rest.scan_planning import ScanTasks

from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.planning.files.scan_planning import ScanPlanner
from floecat.planning.files.scans import ScanPlan, ScanRequest
from floecat.planning.files.targets import resolve, spec_types
from floecat.planning.filters.expression_json import parse_filter, write_expression
from floecat.planning.plans.pyiceberg_partitions import pyiceberg_partitions
from floecat.planning.plans.task_answers import (
    ChunkSize,
    Partitions,
    PartitionTypes,
    client_types,
    render_tasks,
)
from floecat.store.documents import decompress
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
) -> list[dict[str, Any]]:
    metadata = TableMetadata.parse(table.metadata)
    names = tuple(column.name for column in table.columns)
    target = resolve(metadata, ScanRequest(filter=parse_filter(filter), stats_fields=names))
    plan: ScanPlan = planner.plan(storage_at(["file:///"]), target)
    types: PartitionTypes = client_types(metadata)
    if partitions is not None:
        types = {spec_id: found.types for spec_id, found in spec_types(metadata).items()}
    chunks = render_tasks(
        plan, types=types, most=ChunkSize(files_per_chunk, chunk_bytes), partitions=partitions
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
        for answer in answers(planner, table, filter, partitions=_for_pyiceberg):
            read = ScanTasks.model_validate_json(json.dumps(answer))
            for sent, task in zip(answer["file-scan-tasks"], read.file_scan_tasks, strict=True):
                assert task.data_file.file_path == sent["data-file"]["file-path"]
                assert task.residual_filter is not None
                written = parse_filter(json.loads(task.residual_filter.model_dump_json()))
                assert _shape(write_expression(written)) == _shape(sent["residual-filter"])


def _for_pyiceberg(files: Any, types: Any) -> Any:
    return pyiceberg_partitions(files, types, are_absent=False)


def test_a_null_partition_for_pyiceberg(planner: ScanPlanner, tmp_path: Path) -> None:
    table = SmallTable(tmp_path, [{1: ("p", "string")}], [spec(0), spec(1, ("p", "identity", 1))])
    files = [data_file(str(value), partition={"p": value}) for value in (None, "a")]
    table.add(*files, spec_id=1, types=["string"])
    target = resolve(TableMetadata.parse(table.metadata()), ScanRequest())
    [tasks] = planner.plan(storage_at(["file:///"]), target)
    spec_ids, partitions = pyiceberg_partitions(tasks.files, target.specs[1].types, are_absent=False)
    # it takes a column that the file lacks for null if it does not know the spec, and reads no null
    assert pc.binary_join_element_wise(spec_ids, partitions, " ").to_pylist() == ["-1 []", '1 ["a"]']


def _shape(filter: Any) -> Any:
    """A filter without its literals; a list of one is the value."""
    if isinstance(filter, dict):
        if len(filter.get("values", "..")) == 1:
            filter = {"type": {"in": "eq", "not-in": "not-eq"}[filter["type"]], "term": filter["term"]}
        return {key: _shape(value) for key, value in filter.items() if key not in ("value", "values")}
    return filter
