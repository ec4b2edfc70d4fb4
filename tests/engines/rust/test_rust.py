from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.warehouses import Warehouse
from tests.engines.client_flows import ClientFlows, properties_for
from tests.engines.conftest import EngineReport
from tests.engines.line_client import LineClient
from tests.engines.programs import ProgramMissingError, cache_folder, program

_SOURCE = Path(__file__).parent / "client"
_BUILD_S = 1500


@pytest.fixture(scope="session")
def rust_client() -> Path:
    """The client, built; the crates come from crates.io."""
    cargo = program("cargo", "rustup brings it, 1.94 or newer")
    target = cache_folder() / "rust-target"
    done = subprocess.run(
        [str(cargo), "build", "--locked", "--quiet"],
        cwd=_SOURCE,
        capture_output=True,
        text=True,
        timeout=_BUILD_S,
        env=os.environ | {"CARGO_TARGET_DIR": str(target)},
        check=False,
    )
    if "download" in done.stderr and "failed" in done.stderr:
        raise ProgramMissingError(f"crates.io was not reached: {done.stderr.splitlines()[-1].strip()}")
    assert not done.returncode, done.stderr
    return target / "debug" / "floecat-engines"


@pytest.fixture(scope="module")
def client(rust_client: Path, warehouse: Warehouse, engine: EngineReport) -> Iterator[LineClient]:
    """iceberg-rust, connected."""
    engine.version = "iceberg-rust 0.10.1"
    with LineClient(rust_client, properties_for(warehouse)) as started:
        yield started


class TestRust(ClientFlows):
    """The common flows. It reads no deletion vectors."""

    reads_deletes_of_duckdb = frozenset({"2"})
