from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.services.azure import azure_server, azure_with_logins
from tests.services.catalog import catalog_server, pytest_runtest_makereport, start_catalog
from tests.services.gcs import gcs_server
from tests.services.postgres import own_postgres_server, postgres_server, postgres_url
from tests.services.programs import pytest_report_collectionfinish
from tests.services.s3 import other_s3_server, s3_bucket, s3_server
from tests.services.stores import upgraded_database, upgraded_store

__all__ = [
    "azure_server",
    "azure_with_logins",
    "catalog_server",
    "gcs_server",
    "other_s3_server",
    "own_postgres_server",
    "postgres_server",
    "postgres_url",
    "pytest_report_collectionfinish",
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

_MEMORY_DISK = Path("/dev/shm")
_DISK_BYTES, _MEMORY_BYTES = 8 << 30, 12 << 30

_LONG_FIRST = ("clients", "orchestration", "attacks", "faults", "fuzz", "behaviour", "contract")


def pytest_configure() -> None:
    """Has tests write to memory where there is enough of it, for they sync thousands of commits."""
    if "TMPDIR" not in os.environ and _has_memory_disk():
        os.environ["TMPDIR"] = str(_MEMORY_DISK)
        tempfile.tempdir = None  # is looked for again


def _has_memory_disk() -> bool:
    if not _MEMORY_DISK.is_dir():
        return False
    disk = os.statvfs(_MEMORY_DISK)
    meminfo = Path("/proc/meminfo").read_text()
    available = int(meminfo.partition("MemAvailable:")[2].split()[0]) << 10
    room = disk.f_bavail * disk.f_frsize > _DISK_BYTES and available > _MEMORY_BYTES
    return room and not disk.f_flag & os.ST_NOEXEC


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the folders whose files take long: the last file of a worker is then a short one."""
    here = Path(__file__).parent
    places = {here / folder: place for place, folder in enumerate(_LONG_FIRST)}

    def place(item: pytest.Item) -> int:
        return min((places[each] for each in item.path.parents if each in places), default=len(places))

    items.sort(key=place)
