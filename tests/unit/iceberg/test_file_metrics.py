from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from floecat.iceberg.file_metrics import ColumnMetrics


def test_nothing_is_known_unless_it_is_told() -> None:
    column = ColumnMetrics(7)
    assert dataclasses.astuple(column) == (7, *[None] * 6)


def test_metrics_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ColumnMetrics(7).field_id = 8  # type: ignore[misc]


def test_the_module_loads_without_arrow() -> None:
    code = "import sys, floecat.iceberg.file_metrics; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
