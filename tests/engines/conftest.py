"""Flows of real engines, run by `make test-engines`.

The table at the end says what ran, and what did not and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.clients.conftest import connections, disk_warehouse, keyless_warehouse, s3_warehouse
from tests.clients.warehouses import Warehouse
from tests.engines.programs import ProgramMissingError

__all__ = ["EngineReport", "connections", "disk_warehouse", "keyless_warehouse", "s3_warehouse", "warehouse"]

_REPORTS = pytest.StashKey[dict[str, "EngineReport"]]()


@dataclass
class EngineReport:
    """What was run of one engine."""

    version: str = ""
    steps: int = 0
    failures: list[str] = field(default_factory=list)
    not_run: str = ""

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Counts what a user would call one step; an error in it is a failure of the step."""
        self.steps += 1
        try:
            yield
        except (Exception, pytest.fail.Exception):
            self.failures.append(name)
            raise


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_REPORTS] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.engines)
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> EngineReport:
    """The report of the engine that the folder is named after: `tests/engines/trino/` is `trino`."""
    name = request.path.parent.name
    return request.config.stash[_REPORTS].setdefault(name, EngineReport())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """A missing program ends the part with its sentence; the part counts as not run."""
    try:
        yield
    except ProgramMissingError as error:
        reports = item.config.stash[_REPORTS]
        reports.setdefault(item.path.parent.name, EngineReport()).not_run = str(error)
        pytest.skip(f"not run: {error}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = config.stash[_REPORTS]
    if not reports:
        return
    terminalreporter.section("engines")
    terminalreporter.write_line(f"{'engine':<12} {'version':<28} {'steps':>5}  failures")
    for name, report in sorted(reports.items()):
        said = f"not run: {report.not_run}" if report.not_run else ", ".join(report.failures) or "none"
        terminalreporter.write_line(f"{name:<12} {report.version:<28} {report.steps:>5}  {said}")


_ON_S3 = [pytest.param(kind, marks=pytest.mark.s3) for kind in ("s3", "keyless")]


@pytest.fixture(scope="session", params=["disk", *_ON_S3])
def warehouse(request: pytest.FixtureRequest) -> Warehouse:
    """On the local disk, on S3, and on S3 without keys of the client's own."""
    found: Warehouse = request.getfixturevalue(f"{request.param}_warehouse")
    return found
