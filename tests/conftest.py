from __future__ import annotations

from tests.services.catalog import catalog_server, pytest_runtest_makereport, start_catalog
from tests.services.postgres import own_postgres_server, postgres_server, postgres_url
from tests.services.s3 import other_s3_server, s3_bucket, s3_server
from tests.services.stores import upgraded_database, upgraded_store

__all__ = [
    "catalog_server",
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
