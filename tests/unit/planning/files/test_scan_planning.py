"""Plans of random tables, compared with the rows behind them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.unit.planning.planned_files import new_planner, plan_table
from tests.unit.planning.random_filters import may_pass, passes, random_filter
from tests.unit.planning.random_tables import random_table

_FILTERS = 20


@pytest.mark.parametrize("seed", range(12))
def test_no_row_and_no_delete_is_lost_and_residuals_are_exact(seed: int, tmp_path: Path) -> None:
    source = Random(seed)
    table = random_table(source, tmp_path)
    planner = new_planner()
    for _ in range(_FILTERS):
        filter = random_filter(source, table.columns, with_transforms=seed % 2 == 1)
        planned = {file.path: file for file in plan_table(planner, table.metadata, filter.json)}
        assert planned.keys() <= table.files.keys()
        for path, file in table.files.items():
            matching = [passes(filter.json, row, table.columns, filter.values) for row in file.rows]
            if path not in planned:
                kept = [may_pass(filter.json, row, table.columns, filter.values) for row in file.rows]
                assert not any(kept), filter.json
                continue
            residual = planned[path].residual
            left = [passes(residual, row, table.columns, filter.values) for row in file.rows]
            assert left == matching, (filter.json, residual, file.rows)
            needed = table.deletes_of(
                file, [row for row, passed in zip(file.rows, matching, strict=True) if passed]
            )
            assert needed <= planned[path].deletes, filter.json


def test_without_filter_every_file_is_planned_once(tmp_path: Path) -> None:
    table = random_table(Random(3), tmp_path)
    planned = plan_table(new_planner(), table.metadata)
    assert sorted(file.path for file in planned) == sorted(table.files)
    assert {file.residual for file in planned} == {True}
