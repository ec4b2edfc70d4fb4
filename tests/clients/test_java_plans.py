"""Plans of random tables, compared with those of Iceberg's Java library and with the rows behind them.

Rows decide. Java is known to differ in these ways:

- It reads bounds of UUIDs as signed numbers, and loses files and deletes (`Comparators`: natural order).
- A partition that is null passes `lt` and `not-eq` there, so residuals say too much (`ResidualEvaluator`: its
  comparators sort null first).
- `truncate` of the least numbers overflows, and files are lost (`TruncateUtil.truncateInt`).
- Zeros of different sign differ there, and NaN is greater than all numbers in partitions, and less than none
  in metrics.
- Values of `in` are taken for microseconds where a partition is a time in nanoseconds.
- It loses deletes where manifests have lost partition values.
- It compares the literal of a transform with the values of identity partitions, which rules out files and
  deletes that we keep (`Identity.project` and `projectStrict` do not look at the term).
- It decides transforms by partitions of other transforms, so residuals say too little.
- It loses files by transforms: literals have no type there, and partitions of other transforms decide them.
- It keeps files of one value that `not-eq` rules out, and those that partition and metrics rule out together.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway

from tests.services.java_plans import JavaPlanner, JavaRefusal, JavaTask
from tests.unit.planning.planned_files import PlannedFile, new_planner, plan_table
from tests.unit.planning.random_columns import Column
from tests.unit.planning.random_filters import Filter, may_pass, passes, random_filter
from tests.unit.planning.random_tables import DataFile, RandomTable, random_table

_FILTERS = 20

_DROPPED_SOURCE = """
import java.util.*;
import java.util.function.*;
import org.apache.iceberg.*;
import org.apache.iceberg.hadoop.HadoopTables;
import org.apache.iceberg.types.Types;

public class DroppedSource {
  public static String write(String location, Object conf) {
    Types.NestedField p = Types.NestedField.optional(1, "p", Types.IntegerType.get());
    Types.NestedField id = Types.NestedField.optional(2, "id", Types.IntegerType.get());
    Schema schema = new Schema(Arrays.asList(new Types.NestedField[] {p, id}));
    PartitionSpec spec = PartitionSpec.builderFor(schema).identity("p").build();
    HadoopTables tables = new HadoopTables((org.apache.hadoop.conf.Configuration) conf);
    Map properties = Collections.singletonMap("format-version", "2");
    Table table = tables.create(schema, spec, properties, location);
    PartitionSpec by = table.spec();
    table.newAppend().appendFile(DataFiles.builder(by).withPath("data").withFormat(FileFormat.PARQUET)
        .withPartitionPath("p=1").withRecordCount(5L).withFileSizeInBytes(100L).build()).commit();
    table.newRowDelta().addDeletes(FileMetadata.deleteFileBuilder(by).ofPositionDeletes().withPath("deletes")
        .withFormat(FileFormat.PARQUET).withPartitionPath("p=1").withRecordCount(1L)
        .withFileSizeInBytes(100L).build()).commit();
    table.updateSpec().removeField("p").commit();
    table.updateSchema().deleteColumn("p").commit();
    table.rewriteManifests().clusterBy(new Function() {
      public Object apply(Object file) { return ""; }
    }).commit();
    return ((HasTableOperations) table).operations().current().metadataFileLocation();
  }
}
"""


@dataclass
class Comparison:
    """Counts differences; those that nothing explains are kept.

    Attributes:
        counts: cases, and known differences by their name.
        unexplained: the others, for the message.
    """

    counts: Counter[str] = field(default_factory=Counter)
    unexplained: list[Any] = field(default_factory=list)

    def compare(
        self, table: RandomTable, filter: Filter, ours: Sequence[PlannedFile], java: Sequence[JavaTask] | None
    ) -> None:
        """Compares two plans; `java` is None where Java refuses the filter."""
        self.counts["cases"] += 1
        planned = {file.path: file for file in ours}
        theirs = None if java is None else {task.path: task for task in java}
        if java is None:
            self.counts["Java refuses the filter"] += 1
        assert len(planned) == len(ours)
        for path, file in table.files.items():
            case = _Case(table, filter, file)
            self._compare_rows(case, planned.get(path))
            if theirs is not None:
                self._compare_java(case, planned.get(path), theirs.get(path))

    def _compare_rows(self, case: _Case, ours: PlannedFile | None) -> None:
        if ours is None:
            self._check(not any(case.kept), "a file is lost", case)
            return
        self._check(case.left(ours.residual) == case.matching, "a residual is wrong", case, ours.residual)
        self._check(case.needed <= ours.deletes, "a delete is lost", case, ours.deletes)

    def _compare_java(self, case: _Case, ours: PlannedFile | None, java: JavaTask | None) -> None:
        if ours is None and java is None:
            return
        if ours is None:
            # no row of it passes, as was checked
            self.counts["a file without matching rows is left out"] += 1
            return
        if java is None:
            if any(case.matching):
                self._check(case.is_at_fault or case.has_transform_of(""), "Java loses a file", case)
            else:
                # a file without rows stays where columns that are required decide the filter
                explained = case.is_at_fault or case.has_transform_of("") or not case.file.rows
                self._check(explained, "a file too many", case)
            return
        self._compare_deletes(case, ours, java)
        if isinstance(java.residual, str):
            self.counts["Java's residual() throws"] += 1
        elif case.left(java.residual) != case.matching:
            explained = case.has_nulls or case.is_at_fault or case.has_transform_of("")
            self._check(explained, "Java's residual is wrong", case, java.residual)

    def _compare_deletes(self, case: _Case, ours: PlannedFile, java: JavaTask) -> None:
        if more := ours.deletes - java.deletes:
            explained = case.may_have(more) or case.has_transform_of("")
            self._check(explained, "a delete too many", case, more)
        if java.deletes - ours.deletes:
            # none that matching rows need, as was checked
            self.counts["a delete of rows that the filter rules out is left out"] += 1

    def _check(self, holds: bool, what: str, case: _Case, *more: Any) -> None:
        if not holds:
            self.unexplained.append((what, json.dumps(case.filter.json), case.file, *more))
        elif what.startswith(("Java", "a file too", "a delete too")):
            self.counts[what] += 1


class _Case:
    """A file and a filter."""

    def __init__(self, table: RandomTable, filter: Filter, file: DataFile) -> None:
        self._table = table
        self.filter = filter
        self.file = file
        self.matching = self.left(filter.json)
        self.kept = [may_pass(filter.json, row, table.columns, filter.values) for row in file.rows]
        rows = [row for row, passed in zip(file.rows, self.matching, strict=True) if passed]
        self.needed = table.deletes_of(file, rows)

    def left(self, json: Any) -> list[bool]:
        """For each row whether it passes a filter or a residual."""
        return [passes(json, row, self._table.columns, self.filter.values) for row in self.file.rows]

    def may_have(self, keys: frozenset[str]) -> bool:
        """Whether the planner may list deletes that Java leaves out.

        Their partition was lost, or their keys are of a column that was dropped or that Java compares in its
        own way.
        """
        types = {column.id: column.type for column in self._table.columns}
        ids = {id for each in self._table.deletes if each.key in keys for row in each.rows for id in row}
        at_fault = any(types.get(id, "uuid").startswith(("uuid", "float", "double")) for id in ids)
        return at_fault or self._table.has_lost

    def has_transform_of(self, type: str) -> bool:
        """Whether the filter has a transform of a column of a type, or of any for no type."""
        text = json.dumps(self.filter.json)
        return any(
            f'"term": "{column.name}"}}' in text and column.type.startswith(type)
            for column in self._filtered
            if '"transform"' in text
        )

    @property
    def has_nulls(self) -> bool:
        return any(row.get(column.id) is None for row in self.file.rows for column in self._filtered)

    @property
    def is_at_fault(self) -> bool:
        """Whether the filter compares values that Java compares in its own way."""
        return any(self._is_at_fault(column) for column in self._filtered)

    def _is_at_fault(self, column: Column) -> bool:
        literals = [value for (name, _), value in self.filter.values.items() if name == column.name]
        values = [
            value
            for value in (*literals, *(row.get(column.id) for row in self.file.rows))
            if value is not None
        ]
        if column.type in ("float", "double"):
            return any(value == 0 or value != value for value in values)
        if column.type.endswith("_ns") and '"values"' in json.dumps(self.filter.json):
            return True
        is_integer = column.type in ("int", "long")
        return column.type == "uuid" or (is_integer and any(_is_among_least(value) for value in values))

    @property
    def _filtered(self) -> list[Column]:
        text = json.dumps(self.filter.json)
        return [column for column in self._table.columns if f'"{column.name}"' in text]


def _is_among_least(value: int) -> bool:
    """Whether truncation overflows, of an int or a long."""
    return any(least <= value < least + 10 for least in (-(2**31), -(2**63)))


def _run(gateway: JavaGateway, folder: Path, seeds: range) -> Comparison:
    java, comparison = JavaPlanner(gateway), Comparison()
    for seed in seeds:
        own = folder / str(seed)
        own.mkdir()
        source = Random(seed)
        table = random_table(source, own)
        planner, loaded = new_planner(), java.load(table.metadata_location)
        for _ in range(_FILTERS):
            filter = random_filter(source, table.columns, with_transforms=seed % 2 == 1)
            try:
                tasks = list(java.plan(loaded, filter.json, typed=not _has_nanoseconds(filter, table)))
            except JavaRefusal:
                tasks = None
            comparison.compare(table, filter, plan_table(planner, table.metadata, filter.json), tasks)
    return comparison


def _has_nanoseconds(filter: Filter, table: RandomTable) -> bool:
    names = {name for name, _ in filter.values}
    return any(column.name in names and column.type.endswith("_ns") for column in table.columns)


def test_plans_differ_from_java_only_where_rows_say_so(iceberg_java: JavaGateway, tmp_path: Path) -> None:
    comparison = _run(iceberg_java, tmp_path, range(25))
    _check(comparison)
    assert comparison.counts["cases"] == 500


def test_manifests_that_java_rewrites_after_a_source_column_was_dropped(
    iceberg_java: JavaGateway, tmp_path: Path
) -> None:
    java = JavaPlanner(iceberg_java)
    write = java.compile(_DROPPED_SOURCE, "DroppedSource")["write"]
    location = java.invoke(write, f"file://{tmp_path}/t", java.conf)
    metadata = Path(location.removeprefix("file:")).read_bytes()
    [planned] = plan_table(new_planner(), metadata)
    assert planned.deletes == {"deletes@null"}
    # it has overwritten the partition of the data file with null, and loses the delete
    [task] = java.plan(java.load(location), True)
    assert not task.deletes


@pytest.mark.scale
@pytest.mark.timeout(7200)
def test_many_plans(iceberg_java: JavaGateway, tmp_path: Path) -> None:
    comparison = _run(iceberg_java, tmp_path, range(1000, 2000))
    _check(comparison)


def _check(comparison: Comparison) -> None:
    print(comparison.counts)
    for each in comparison.unexplained[:40]:
        print(*each)
    assert not comparison.unexplained
