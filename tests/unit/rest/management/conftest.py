from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from floecat.errors import FloecatError
from floecat.runtime import Kernel


class RefusingEngine:
    """Reads no Delta table, and says what it was told to say."""

    def __init__(self) -> None:
        self.problem: FloecatError = FloecatError("no problem was set")

    def due(self, row):
        return True

    def refresh(self, table):
        raise self.problem

    def await_pipeline(self, table):
        raise self.problem

    def materialise(self, table, progress):
        raise self.problem


@pytest.fixture
def engine(opened_kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> RefusingEngine:
    """An engine in the place of the real one, which is tested by others."""
    made = RefusingEngine()
    monkeypatch.setattr(opened_kernel.delta_loads, "_engine", made)
    return made


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
