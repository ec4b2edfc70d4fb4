from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.attacks.attacked_service import LONG, SHORT, AttackedService, Form
from tests.services.catalog import CatalogServer


@pytest.fixture(
    params=[pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.scale)]
)
def form(request: pytest.FixtureRequest) -> Form:
    """How attacks are made and judged: short in `make test`, long in `make test-scale`."""
    form: Form = request.param
    return form


@pytest.fixture
def start_attacked(start_catalog: Callable[..., CatalogServer], form: Form) -> Callable[..., AttackedService]:
    """Starts services; takes settings as `start_catalog` does.

    Caches are small, so that memory which an attack leaves behind is not taken for theirs.
    """
    return lambda **environment: AttackedService(
        start_catalog(FLOECAT_CACHE_MEMORY="16MiB", FLOECAT_PLANNING_MEMORY="16MiB", **environment), form
    )


@pytest.fixture
def attacked_service(start_attacked: Callable[..., AttackedService]) -> AttackedService:
    """A service with its default settings."""
    return start_attacked()
