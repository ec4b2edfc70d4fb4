"""A table and captures of it. It is on SQLite, where a test does not ask for both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from floecat.auth.principals import Principal
from floecat.entries.calls import Call
from floecat.runtime import Kernel, open_kernel
from floecat.settings import GatewaySettings, Settings, StatisticsSettings, StorageSettings, StoreSettings
from floecat.settings.kinds import Duration
from tests.behaviour.catalog.captures.bench import Bench
from tests.behaviour.catalog.conftest import COMMIT
from tests.clocks import SetClock


@pytest.fixture
def store_url(request: pytest.FixtureRequest, upgraded_store: Callable[[str], str]) -> str:
    """SQLite, where a test does not ask for both databases."""
    return upgraded_store(getattr(request, "param", "sqlite"))


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def open_catalog(
    store_url: str, tmp_path: Path, clock: SetClock
) -> Iterator[Callable[..., tuple[Kernel, Call]]]:
    opened: list[Kernel] = []

    def open_catalog(**statistics: Any) -> tuple[Kernel, Call]:
        settings = Settings(
            data_dir=str(tmp_path / "data"),
            gateway=GatewaySettings(commit=COMMIT),
            store=StoreSettings(url=store_url),
            storage=StorageSettings(fsync=False),
            statistics=StatisticsSettings(**{"publish_after": Duration(0)} | statistics),
        )
        kernel = open_kernel(settings, clock=clock)
        opened.append(kernel)
        account = settings.gateway.default_account_id
        kernel.catalog.catalogs.ensure(account, "floecat", settings.warehouse_location)
        call = kernel.catalog.calls.open(Principal("tester", account), "floecat")
        kernel.catalog.namespaces.create(call, ("ns",), {})
        return kernel, call

    yield open_catalog
    for kernel in opened:
        kernel.close()


@pytest.fixture
def open_bench(open_catalog: Callable[..., tuple[Kernel, Call]]) -> Callable[..., Bench]:
    return lambda **statistics: Bench(*open_catalog(**statistics))


@pytest.fixture
def bench(open_bench: Callable[..., Bench]) -> Bench:
    return open_bench()
