"""dbt on Trino: the project beside this file is built twice, with the settings of docs/clients/dbt.md."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.engines.conftest import EngineReport
from tests.engines.pages import blocks
from tests.engines.programs import python_with
from tests.engines.trino.conftest import Lake

_CORE, _ADAPTER = "1.11.16", "1.11.0"
_PROJECT = Path(__file__).parent / "dbt"


@pytest.fixture
def project(tmp_path: Path, lake: Lake) -> Path:
    """A copy of the project, for the schema of the test."""
    folder = shutil.copytree(_PROJECT, tmp_path / "dbt")
    [profile] = blocks("dbt", "yaml")
    for placeholder, value in {
        "port: 8080": f"port: {urlsplit(lake.trino.url).port}",
        "database: floecat": f"database: {lake.catalog}",
        "schema: analytics": f"schema: {lake.schema}",
    }.items():
        assert placeholder in profile
        profile = profile.replace(placeholder, value)
    (folder / "profiles.yml").write_text(profile)
    return folder


def dbt(project: Path, *arguments: str) -> None:
    """Runs a command of dbt."""
    program = python_with(
        f"dbt-{_CORE}-trino-{_ADAPTER}", f"dbt-core=={_CORE}", f"dbt-trino=={_ADAPTER}"
    ).with_name("dbt")
    done = subprocess.run(
        [str(program), "--no-use-colors", *arguments, "--profiles-dir", "."],
        cwd=project, env=os.environ | {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false"},
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_dbt(lake: Lake, engine: EngineReport, project: Path) -> None:
    with engine.step("dbt build"):
        dbt(project, "build", "--vars", "{run: 1}")
        assert lake.sql("SELECT * FROM orders ORDER BY id") == [
            [1, "east", 1.5],
            [2, "west", 2.25],
            [3, "west", None],
        ]
        assert lake.sql("SELECT * FROM regions ORDER BY 1") == [["east", 1, 1.5], ["west", 2, 2.25]]
        assert lake.sql("SELECT id FROM large") == [[2]]
    seed = project / "seeds" / "orders.csv"
    seed.write_text(seed.read_text().replace("3,west,", "3,west,9.00\n4,north,4.00"))
    with engine.step("dbt build with changed rows"):
        dbt(project, "build", "--vars", "{run: 3}")
    with engine.step("a table, and a view"):
        assert lake.sql("SELECT * FROM regions ORDER BY 1") == [
            ["east", 1, 1.5],
            ["north", 1, 4.0],
            ["west", 2, 11.25],
        ]
        assert lake.sql("SELECT id FROM large ORDER BY id") == [[2], [3], [4]]
    with engine.step("an incremental model that merges"):
        assert lake.sql("SELECT id, run FROM merged ORDER BY id") == [[1, 1], [2, 1], [3, 3], [4, 3]]
    with engine.step("one that appends, with partitions"):
        rows = [[1, 1], [2, 1], [3, 1], [1, 3], [2, 3], [3, 3], [4, 3]]
        assert lake.sql("SELECT id, run FROM appended ORDER BY run, id") == rows
        assert lake.sql('SELECT count(*) FROM "appended$partitions"') == [[3]]
    with engine.step("one that deletes and inserts, with a new column"):
        rows = [[1, 1, None], [2, 1, None], [3, 3, 9.0], [4, 3, 4.0]]
        assert lake.sql("SELECT id, run, amount FROM replaced ORDER BY id") == rows
    with engine.step("a snapshot"):
        history = "SELECT id, amount, dbt_valid_to IS NULL FROM orders_history ORDER BY id, dbt_valid_from"
        rows = [[1, 1.5, True], [2, 2.25, True], [3, None, False], [3, 9.0, True], [4, 4.0, True]]
        assert lake.sql(history) == rows
    with engine.step("descriptions are comments"):
        [[shown]] = lake.sql("SHOW CREATE TABLE regions")
        assert "COMMENT 'Orders of each region'" in shown
        assert "COMMENT 'Where it was ordered'" in shown
    with engine.step("dbt docs generate"):
        dbt(project, "docs", "generate", "--vars", "{run: 3}")
        found = json.loads((project / "target" / "catalog.json").read_text())["nodes"]
        assert list(found["model.flows.replaced"]["columns"]) == ["id", "run", "amount"]
