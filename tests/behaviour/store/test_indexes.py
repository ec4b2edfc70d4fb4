"""No statement reads a whole table, however many rows there are."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import floecat.store
from floecat.store.database.engine import Store
from floecat.store.database.prepared_statements import PerDialect, TwoChanges

READS_EVERYTHING = {
    "catalogs.connectors._DUE",  # those that are due, by turns of catalogs
    "entries.followed_entries._COUNTS",  # of all accounts
    "commits.metrics._BEYOND",  # once a sweep, to weigh the reports of each catalog, from an index alone
    "catalogs.catalogs._COMMIT_VERSIONS",  # few rows
    "catalogs.catalogs._DELETE",  # by an operator; that no entry names the catalog is seen by looking at all
    "catalogs.catalogs._LIST_ALL_ACCOUNTS",
    "entries.entry_areas._NEAR",  # whose areas are out of date is seen by comparing all of them
    "jobs.jobs._COUNT",
    "jobs.jobs._OLDEST_OPEN",  # from an index of open jobs alone
    "jobs.purge_batches._LOCK_CATALOGS",
    "statistics.captures._BEHIND",  # few rows
    "jobs.purge_batches._SET_PURGING",
    "catalogs.connectors._WITH_CREDENTIALS",  # when secrets are encrypted anew
    "catalogs.storage_authorities._ALL",  # when secrets are encrypted anew
    "jobs.purge_batches._UNDER_WAY",  # from an index of nothing else
}
"""Statements that are meant to."""

BEGINNINGS = {
    "entries.followed_entries._FOLLOWED",
    "catalogs.accounts._SELECT",
    "catalogs.catalogs._SELECT",
    "entries.entry_names._SELECT",
    "catalogs.namespaces._SELECT",
    "catalogs.namespaces._PAGE",
    "entries.staged_tables._SELECT",
    *(f"jobs.{module}.{name}" for module in ("jobs", "job_trees") for name in ("CANCELLED", "RETRIED")),
    "jobs.job_trees._STOPPED",
}
"""Parts that others are made from."""

SORTS = {
    "jobs.job_claims._CLAIM_ABOUT",  # jobs about one subject
    "commits.commit_log._WRITERS_OF",
    "jobs.jobs._CHILDREN_SIZES",
    "jobs.jobs._LIST_CHILDREN",
    "jobs.job_trees._LEVEL",  # the jobs below a few
    "jobs.jobs._LIST_FINISHED",  # those that ended in the same millisecond
    "jobs.jobs._WITH_OPEN",
    "entries.entry_paths._TABLE_OF",  # tables in each other's folders
    "entries.staged_tables._FIND",
    "entries.snapshots._LIST",
    "statistics.captures._NEWEST",
    "statistics.captures._NEWEST_SNAPSHOTS",
    "statistics.captures._UNCAPTURED",
}
"""Statements that sort what they found, which is little."""


def statements() -> dict[str, sa.Select[*tuple[Any, ...]] | sa.Update | sa.Delete]:
    return {
        f"{name.removeprefix('floecat.store.')}.{variable}{part}": statement
        for _, name, _ in pkgutil.walk_packages(floecat.store.__path__, "floecat.store.")
        if not name.startswith("floecat.store.migrations.")
        for variable, value in vars(importlib.import_module(name)).items()
        for part, statement in parts(value).items()
        if isinstance(statement, sa.Select | sa.Update | sa.Delete)
    }


def parts(value: object) -> dict[str, object]:
    if isinstance(value, TwoChanges):
        return {".first": value.first, ".second": value.second}
    return {"": value.sqlite if isinstance(value, PerDialect) else value}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> sa.Connection:
    path: Path = tmp_path_factory.mktemp("plans") / "floecat.db"
    store = Store.open(f"sqlite:///{path}")
    store.upgrade()
    return store._engine.connect()


def plan(connection: sa.Connection, statement: sa.ClauseElement) -> list[str]:
    text = re.sub(r"__\[POSTCOMPILE_\w+\]", "?", str(statement.compile(dialect=connection.dialect)))
    parameters = tuple([1] * text.count("?"))
    rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", parameters).all()
    return [row[3] for row in rows]


@pytest.mark.parametrize("name", sorted(statements().keys() - READS_EVERYTHING - BEGINNINGS))
def test_a_statement_finds_its_rows_by_an_index(connection: sa.Connection, name: str) -> None:
    steps = plan(connection, statements()[name])
    scans = [step for step in steps if step.startswith("SCAN") and not _is_bounded(step)]
    assert scans == []
    assert not [step for step in steps if "AUTOMATIC" in step]
    assert any("TEMP B-TREE" in step for step in steps) == (name in SORTS)


def test_a_scan_would_be_found(connection: sa.Connection) -> None:
    for name in READS_EVERYTHING:
        assert any("SCAN" in step for step in plan(connection, statements()[name]))


def test_reports_are_weighed_from_an_index_alone(connection: sa.Connection) -> None:
    steps = plan(connection, statements()["commits.metrics._BEYOND"])
    assert [step for step in steps if "metrics_reports" in step] == [
        "SCAN metrics_reports USING COVERING INDEX ix_metrics_reports_catalog_id_received_at_ms_size_bytes"
    ]
    assert not any("ORDER BY" in step for step in steps)


def _is_bounded(step: str) -> bool:
    # a parameter, a constant row, rows that a limited part of the statement found
    return any(part in step for part in ("VIRTUAL TABLE", "CONSTANT ROW", "SCAN due", "SCAN earlier"))
