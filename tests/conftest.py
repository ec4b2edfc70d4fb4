from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.services.azure import azure_server
from tests.services.catalog import catalog_server, pytest_runtest_makereport, start_catalog
from tests.services.gcs import gcs_server
from tests.services.postgres import own_postgres_server, postgres_server, postgres_url
from tests.services.s3 import other_s3_server, s3_bucket, s3_server
from tests.services.stores import upgraded_database, upgraded_store

__all__ = [
    "azure_server",
    "catalog_server",
    "gcs_server",
    "other_s3_server",
    "own_postgres_server",
    "postgres_server",
    "postgres_url",
    "pytest_runtest_makereport",
    "s3_bucket",
    "s3_server",
    "start_catalog",
    "upgraded_database",
    "upgraded_store",
]

# How long an example takes says how busy the machine is.
settings.register_profile("floecat", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("floecat")

_LONG_FIRST = ("clients", "orchestration", "attacks", "faults", "fuzz", "behaviour", "contract")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the folders whose files take long: the last file of a worker is then a short one."""
    here = Path(__file__).parent
    places = {here / folder: place for place, folder in enumerate(_LONG_FIRST)}

    def place(item: pytest.Item) -> int:
        return min((places[each] for each in item.path.parents if each in places), default=len(places))

    items.sort(key=place)
