"""Every test of this folder runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from floecat.store.catalogs import CatalogRow
from floecat.store.database.engine import Store
from floecat.store.namespaces import NamespaceRow
from floecat.store.schema import metadata
from tests.behaviour.store.rows import add_catalog, add_namespace
from tests.services.postgres import PostgresServer


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def empty_url(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The URL of a database without any table."""
    if backend == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/empty.db"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    store = Store.open(f"sqlite:///{path}")
    store.upgrade()
    store.close()
    return path


@pytest.fixture(scope="session")
def postgres_store_url(postgres_server: PostgresServer) -> str:
    url = postgres_server.url(postgres_server.create_database())
    store = Store.open(url)
    store.upgrade()
    store.close()
    return url


@pytest.fixture
def url(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The URL of an upgraded store without any row."""
    if backend == "sqlite":
        path = tmp_path / "store.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        return f"sqlite:///{path}"
    url = str(request.getfixturevalue("postgres_store_url"))
    _clear(url)
    return url


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


def _clear(url: str) -> None:
    """Empties all tables; in the role of a replica no foreign key minds the order, and TRUNCATE is slow."""
    deletes = "".join(f"DELETE FROM floecat.{name};" for name in metadata.tables)
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute(sql.SQL("SET session_replication_role = replica;" + deletes))
