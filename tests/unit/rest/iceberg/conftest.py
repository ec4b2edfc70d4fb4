"""A kernel on each database, for the modules that do not make one of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import Settings, StorageSettings, StoreSettings


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def kernel(
    tmp_path: Path, request: pytest.FixtureRequest, upgraded_store: Callable[[str], str]
) -> Iterator[Kernel]:
    url = upgraded_store(request.param)
    settings = Settings(
        data_dir=str(tmp_path), storage=StorageSettings(fsync=False), store=StoreSettings(url=url)
    )
    prepare_store(settings)
    opened = open_kernel(settings)
    yield opened
    opened.close()
