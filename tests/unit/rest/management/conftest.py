from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from floecat.delta.refresh.delta_table import DeltaTableEntry
from floecat.delta.refresh.refresh_service import DeltaRefreshService
from floecat.errors import FloecatError
from floecat.runtime import Kernel


class RefusedReads:
    """Why no Delta table can be read."""

    problem = FloecatError("no problem was set")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> RefusedReads:
    """Refuses to read any Delta table, with a problem that a test chooses."""
    refused = RefusedReads()

    def refuse(_service: DeltaRefreshService, _table: DeltaTableEntry) -> bool:
        raise refused.problem

    monkeypatch.setattr(DeltaRefreshService, "due", lambda _service, _row: True)
    monkeypatch.setattr(DeltaRefreshService, "refresh", refuse)
    monkeypatch.setattr(DeltaRefreshService, "await_pipeline", refuse)
    return refused


@pytest.fixture
def delta_table(opened_kernel: Kernel) -> Callable[[str], str]:
    """Makes the log of a Delta table below a folder that no other test has; returns its location."""
    root = f"{opened_kernel.settings.warehouse_location}/{uuid4().hex}"

    def make(name: str = "") -> str:
        location = f"{root}/{name}" if name else root
        log = Path(location.removeprefix("file://")) / "_delta_log"
        log.mkdir(parents=True)
        (log / "00000000000000000000.json").write_text("{}")
        return location

    return make
