"""Plans of random tables, compared with those of Iceberg's Java library and with the rows behind them.

Rows decide. Java is known to differ in these ways:

- It reads bounds of UUIDs as signed numbers, and loses files and deletes.
- A partition that is null passes `lt` and `not-eq` there, so residuals say too much.
- `truncate` of the least number overflows, and files are lost.
- It keeps files of one value that `not-eq` rules out, and of partitions in which a pair of predicates fails.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway

from tests.services.java_plans import JavaPlanner, JavaRefusal, JavaTask
from tests.unit.planning.plans import PlannedFile, new_planner, plan_table
from tests.unit.planning.random_filters import Filter, passes, random_filter
from tests.unit.planning.random_tables import DataFile, RandomTable, random_table

_FILTERS = 20


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
            self._check(not any(case.matching), "a file is lost", case)
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
                self._check(case.has("uuid", "int", "long", "decimal"), "Java loses a file", case)
            elif case.has_nan_only:
                self.counts["a file of NaN is kept for gt"] += 1
            else:
                self._check(case.has("uuid", "int", "long", "decimal"), "a file too many", case)
            return
        self._compare_deletes(case, ours, java)
        if isinstance(java.residual, str):
            self.counts["Java's residual() throws"] += 1
        elif case.left(java.residual) != case.matching:
            self._check(case.has_nulls or case.has("uuid"), "Java's residual is wrong", case, java.residual)

    def _compare_deletes(self, case: _Case, ours: PlannedFile, java: JavaTask) -> None:
        if more := ours.deletes - java.deletes:
            self._check(case.has("uuid"), "a delete too many", case, more)
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
        rows = [row for row, passed in zip(file.rows, self.matching, strict=True) if passed]
        self.needed = table.deletes_of(file, rows)

    def left(self, json: Any) -> list[bool]:
        """For each row whether it passes a filter or a residual."""
        return [passes(json, row, self._table.columns, self.filter.values) for row in self.file.rows]

    def has(self, *types: str) -> bool:
        """Whether the table has a column of one of these types, in which Java has a fault."""
        return any(column.type.startswith(types) for column in self._table.columns)

    @property
    def has_nulls(self) -> bool:
        return any(value is None for row in self.file.rows for value in row.values())

    @property
    def has_nan_only(self) -> bool:
        columns: Mapping[int, set[str]] = {column.id: set() for column in self._table.columns}
        for row in self.file.rows:
            for id, value in row.items():
                columns[id].add(repr(value))
        return any(values <= {"nan", "None"} for values in columns.values())


def _run(gateway: JavaGateway, folder: Path, seeds: range) -> Comparison:
    java, comparison = JavaPlanner(gateway), Comparison()
    for seed in seeds:
        own = folder / str(seed)
        own.mkdir()
        source = Random(seed)
        table = random_table(source, own)
        planner, loaded = new_planner(), java.load(table.metadata_location)
        for _ in range(_FILTERS):
            filter = random_filter(source, table.columns)
            try:
                tasks = list(java.plan(loaded, filter.json))
            except JavaRefusal:
                tasks = None
            comparison.compare(table, filter, plan_table(planner, table.metadata, filter.json), tasks)
    return comparison


def test_plans_differ_from_java_only_where_rows_say_so(iceberg_java: JavaGateway, tmp_path: Path) -> None:
    comparison = _run(iceberg_java, tmp_path, range(25))
    assert not comparison.unexplained, comparison.unexplained[:3]
    assert comparison.counts["cases"] == 500


@pytest.mark.scale
@pytest.mark.timeout(7200)
def test_many_plans(iceberg_java: JavaGateway, tmp_path: Path) -> None:
    comparison = _run(iceberg_java, tmp_path, range(1000, 2000))
    print(comparison.counts)
    assert not comparison.unexplained, comparison.unexplained[:3]
