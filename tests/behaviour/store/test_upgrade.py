"""The schema: how it comes into a store, and what happens when it does not fit."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from floecat.errors import SettingsError
from floecat.store.all_tables import metadata
from floecat.store.database.engine import Store
from floecat.store.schema import HEAD_REVISION, VERSION_TABLE
from tests.behaviour.store.rows import account_ids, add_catalog


@pytest.fixture
def empty_store(empty_url: str) -> Iterator[Store]:
    store = Store.open(empty_url)
    yield store
    store.close()


def test_an_empty_store_is_upgraded(empty_store: Store) -> None:
    assert not empty_store.is_current()
    with pytest.raises(SettingsError, match=r"no schema yet.*floecat db upgrade"):
        empty_store.check_schema()
    empty_store.upgrade()
    assert empty_store.is_current()
    empty_store.check_schema()
    catalog = add_catalog(empty_store)
    empty_store.upgrade()
    with empty_store.read() as conn:
        assert account_ids(conn) == [catalog.account_id]


def test_the_newest_migration_is_the_one_that_the_code_names() -> None:
    config = Config()
    config.set_main_option("script_location", "floecat.store:migrations")
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD_REVISION]


def test_the_revision_is_the_digest_of_the_schema() -> None:
    digest = hashlib.sha256()
    for dialect in (sqlite.dialect(), postgresql.dialect()):
        for table in metadata.sorted_tables:
            indexes = sorted(table.indexes, key=lambda index: str(index.name))
            for statement in (CreateTable(table), *map(CreateIndex, indexes)):
                digest.update(str(statement.compile(dialect=dialect)).encode())
    assert digest.hexdigest()[:12] == HEAD_REVISION, "the schema changed: HEAD_REVISION changes with it"


def test_a_store_of_another_version_is_refused_by_name_and_left_alone(empty_store: Store) -> None:
    empty_store.upgrade()
    with _sql(empty_store) as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '0014'")
    assert not empty_store.is_current()
    for refused in (empty_store.check_schema, empty_store.upgrade):
        with pytest.raises(SettingsError, match=r"Another version of Floecat .*schema 0014; this one needs"):
            refused()
    empty_store.ping()


def test_an_upgrade_that_fails_leaves_nothing(empty_store: Store, backend: str) -> None:
    # in the way of a table of the schema
    with _sql(empty_store) as connection:
        if backend == "postgresql":
            connection.exec_driver_sql("CREATE SCHEMA floecat")
        connection.exec_driver_sql("CREATE TABLE metrics_reports (id INTEGER)")
    with pytest.raises(Exception, match="The store failed"):
        empty_store.upgrade()
    with _sql(empty_store) as connection:
        assert sa.inspect(connection).get_table_names() == ["metrics_reports"]
        connection.exec_driver_sql("DROP TABLE metrics_reports")
    empty_store.upgrade()
    assert empty_store.is_current()


def test_several_processes_upgrade_at_once(empty_store: Store, empty_url: str) -> None:
    program = "import sys; from floecat.store.database.engine import Store; Store.open(sys.argv[1]).upgrade()"
    processes = [
        subprocess.Popen([sys.executable, "-c", program, empty_url], stderr=subprocess.PIPE) for _ in range(4)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert empty_store.is_current()


def _sql(store: Store) -> sa.Connection:
    return store._engine.connect()
