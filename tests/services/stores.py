"""Stores without any row, at the schema of this version, in a fraction of the time that migrations take.

A store on SQLite is a copy of a file. On PostgreSQL each worker of a test session has one store, which is
emptied before each test that takes it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from floecat.store.all_tables import metadata
from floecat.store.database.engine import Store
from tests.services.postgres import PostgresServer

__all__ = ["copy_sqlite_store", "upgraded_database", "upgraded_store"]


@pytest.fixture(scope="session")
def upgraded_database(postgres_server: PostgresServer) -> str:
    """The URL of the one database."""
    url = postgres_server.url(postgres_server.create_database())
    _upgrade(url)
    return url


@pytest.fixture
def upgraded_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Gives the URL of a store on `sqlite` or `postgresql`, which may be called once for each in a test."""

    def make(backend: str) -> str:
        if backend == "sqlite":
            return f"sqlite:///{copy_sqlite_store(tmp_path / 'floecat.db')}"
        url = str(request.getfixturevalue("upgraded_database"))
        _clear(url)
        return url

    return make


def copy_sqlite_store(path: Path) -> Path:
    """Puts a store at a path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_sqlite_store())
    return path


@cache
def _sqlite_store() -> bytes:
    folder = Path(tempfile.mkdtemp(prefix="floecat-store-"))
    try:
        _upgrade(f"sqlite:///{folder / 'floecat.db'}")
        return (folder / "floecat.db").read_bytes()
    finally:
        shutil.rmtree(folder)


def _upgrade(url: str) -> None:
    store = Store.open(url)
    store.upgrade()
    store.close()


def _clear(url: str) -> None:
    """Empties all tables; in the role of a replica no foreign key minds the order, and TRUNCATE is slow."""
    deletes = "".join(f"DELETE FROM floecat.{name};" for name in metadata.tables)
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute(sql.SQL("SET session_replication_role = replica;" + deletes))
