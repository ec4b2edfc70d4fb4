"""Every test of this folder runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.catalogs.namespaces import NamespaceRow
from floecat.store.database.engine import Store
from tests.behaviour.store.rows import add_catalog, add_namespace


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def empty_url(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The URL of a database without any table."""
    if backend == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/empty.db"


@pytest.fixture
def url(backend: str, upgraded_store: Callable[[str], str]) -> str:
    """The URL of an upgraded store without any row."""
    return upgraded_store(backend)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = Store.open(url, pool_size=12)
    yield store
    store.close()


@pytest.fixture
def catalog(store: Store) -> CatalogRow:
    return add_catalog(store)


@pytest.fixture
def namespace(store: Store, catalog: CatalogRow) -> NamespaceRow:
    return add_namespace(store, catalog.id, "sales")
