"""Tables whose older commits were cleaned up, so that their state is in checkpoints alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.clients.delta.expectations import MISREAD, Outcome, tables_that_give
from tests.clients.delta.lake import ENGINES, DeltaLake, sql_name, table_name
from tests.clients.delta.oracles import NoOracleError, log_versions, oracle_rows, oracle_rows_at
from tests.clients.delta.probes import DUCKDB, leaves, probes
from tests.clients.delta.rows import check
from tests.delta_tables import delta_table, writable_copy

Cleaned = Callable[[str], tuple[str, Path]]

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\.(\d{10})\.(\d{10})|\.[0-9a-f-]{36})?\.(parquet|json)")


def _checkpoints(log: Path) -> list[int]:
    """The versions of complete checkpoints, ascending."""
    parts: dict[tuple[int, int], int] = {}
    for file in log.iterdir():
        if match := _CHECKPOINT.fullmatch(file.name):
            key = (int(match[1]), int(match[4] or 1))
            parts[key] = parts.get(key, 0) + 1
    return sorted({version for (version, wanted), found in parts.items() if found >= wanted})


_NAMES = [
    facts.name
    for facts in tables_that_give(Outcome.ROWS)
    if _checkpoints(delta_table(facts.name) / "_delta_log")
]


@pytest.fixture(scope="session", params=["commit of the checkpoint", "checkpoint alone"])
def cleaned(delta_lake: DeltaLake, request: pytest.FixtureRequest) -> Cleaned:
    """Gives the name and the folder of a table without the commits before its newest checkpoint."""
    made = {}
    namespace = re.sub(r"\W+", "_", request.param)
    for name in _NAMES:
        folder = writable_copy(name, Path(delta_lake.root) / namespace / name)
        first_kept = _checkpoints(folder / "_delta_log")[-1] + (request.param == "checkpoint alone")
        for commit in (folder / "_delta_log").glob("*.json"):
            if commit.stem.isdigit() and int(commit.stem) < first_kept:
                commit.unlink()
        made[name] = (delta_lake.register(namespace, table_name(name), folder), folder)
    return made.__getitem__


def _can_be_rebuilt(log: Path, version: int) -> bool:
    commits = {int(file.stem) for file in log.glob("*.json") if file.stem.isdigit()}
    starts = (start for start in _checkpoints(log) if start <= version)
    return any(set(range(start + 1, version + 1)) <= commits for start in starts)


@pytest.mark.parametrize("name", _NAMES)
def test_rows(delta_lake: DeltaLake, cleaned: Cleaned, name: str) -> None:
    table, folder = cleaned(name)
    misread = [*MISREAD.get(("pyiceberg", name), ())]
    for version in log_versions(delta_table(name)):
        if delta_lake.pyiceberg(table).snapshot_by_id(version) is None:
            # Versions before a gap are not offered.
            assert version < _checkpoints(folder / "_delta_log")[-1]
            continue
        found = ENGINES["pyiceberg"](delta_lake, table, version)
        assert _can_be_rebuilt(folder / "_delta_log", version)
        expected = _expected(name, folder, version)
        check(found.drop_columns(misread), expected.drop_columns(misread), f"version {version}")


@pytest.mark.parametrize("name", _NAMES)
def test_filters(delta_lake: DeltaLake, cleaned: Cleaned, name: str) -> None:
    """Checkpoints have statistics in two forms."""
    table, folder = cleaned(name)
    expected = _expected(name, folder, log_versions(delta_table(name))[-1])
    asked = [probe for leaf in leaves(expected) for probe in probes(leaf)]
    source = f"lake.{sql_name(table, DUCKDB.quote)}"
    statements = [
        f"SELECT {at} AS probe, count(*) AS found FROM {source} WHERE {probe.sql(DUCKDB)}"
        for at, probe in enumerate(asked)
    ]
    if statements:
        answer = delta_lake.duckdb(" UNION ALL ".join(statements))
        found = dict(zip(answer["probe"].to_pylist(), answer["found"].to_pylist(), strict=True))
        assert [(str(probe), found[at]) for at, probe in enumerate(asked)] == [
            (str(probe), probe.count + probe.nans) for probe in asked
        ]


def _expected(name: str, folder: Path, version: int) -> pa.Table:
    """What readers of Delta find in the whole table, or in the cleaned one if that has a column more."""
    rows = oracle_rows(name, version)
    try:
        cleaned = oracle_rows_at(folder, version)
    except NoOracleError:
        return rows
    return cleaned if set(cleaned.column_names) > set(rows.column_names) else rows
