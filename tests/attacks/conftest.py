from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.attacks.attacked_service import AttackedService
from tests.services.catalog import CatalogServer


@pytest.fixture
def start_attacked(start_catalog: Callable[..., CatalogServer]) -> Callable[..., AttackedService]:
    """Starts services; takes settings as `start_catalog` does.

    Caches are small, so that memory which an attack leaves behind is not taken for theirs.
    """
    return lambda **environment: AttackedService(start_catalog(FLOECAT_CACHE_MEMORY="16MiB", **environment))


@pytest.fixture
def attacked_service(start_attacked: Callable[..., AttackedService]) -> AttackedService:
    """A service with its default settings."""
    return start_attacked()


@pytest.fixture(
    params=[pytest.param(1.0, id="short"), pytest.param(20.0, id="long", marks=pytest.mark.scale)]
)
def seconds(request: pytest.FixtureRequest) -> float:
    """How long an attack lasts at least."""
    return float(request.param)
