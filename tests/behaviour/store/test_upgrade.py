"""The schema: how it comes into a store, and what happens when it does not fit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest
import sqlalchemy as sa
import uuid_utils.compat as uuids
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import floecat.store.purger_rows  # its tables belong to the schema, as those of the next
import floecat.store.statistics.schema  # noqa: F401
from floecat.errors import SettingsError
from floecat.purge.purge_jobs import PurgePayload
from floecat.store import jobs, tables
from floecat.store.database.engine import Store
from floecat.store.migrations import HEAD_REVISION, VERSION_TABLE
from floecat.store.schema import metadata
from tests.behaviour.store.rows import NOW_MS, account_ids, add_catalog, add_namespace


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


def test_migrations_make_the_schema_of_the_code(store: Store) -> None:
    assert _differences(store, metadata) == []


def test_a_difference_would_be_found(store: Store) -> None:
    other = sa.MetaData()
    for table in metadata.tables.values():
        table.to_metadata(other)
    other.tables["leases"].append_column(sa.Column("token", sa.BigInteger()))
    assert [difference[0] for difference in _differences(store, other)] == ["add_column"]


def test_the_newest_migration_is_the_one_that_the_code_names() -> None:
    config = Config()
    config.set_main_option("script_location", "floecat.store:migrations")
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD_REVISION]


@pytest.mark.parametrize(
    ("revision", "message"),
    [("9999", "install the newer version"), ("0000", "schema 0000.*floecat db upgrade")],
)
def test_a_store_of_another_version(empty_store: Store, revision: str, message: str) -> None:
    empty_store.upgrade()
    _set_revision(empty_store, revision)
    assert not empty_store.is_current()
    with pytest.raises(SettingsError, match=message):
        empty_store.check_schema()


def test_a_newer_store_is_left_alone(empty_store: Store) -> None:
    empty_store.upgrade()
    _set_revision(empty_store, "9999")
    with pytest.raises(SettingsError, match="install the newer version"):
        empty_store.upgrade()
    empty_store.ping()


def test_an_upgrade_that_fails_leaves_nothing(empty_store: Store, backend: str) -> None:
    # a table that is in the way of the last one
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


def test_a_store_of_the_first_schema_keeps_its_tables(empty_store: Store, backend: str) -> None:
    with _sql(empty_store) as connection:
        if backend == "postgresql":
            connection.exec_driver_sql("CREATE SCHEMA floecat")
        config = Config()
        config.set_main_option("script_location", "floecat.store:migrations")
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    namespace = add_namespace(empty_store, add_catalog(empty_store).id, "sales")
    ids = (uuids.uuid7(), uuids.uuid7())
    old = sa.table("entries", *(sa.column(name, sa.Uuid()) for name in ("id", "catalog_id", "namespace_id")))
    texts = ("name", "kind", "object_uuid", "location", "metadata_location")
    numbers = ("version", "format_version", "created_at_ms", "updated_at_ms")
    for name in (*texts, *numbers):
        old.append_column(sa.column(name))
    with _sql(empty_store) as connection:
        for entry_id in ids:
            values = {"id": entry_id, "catalog_id": namespace.catalog_id, "namespace_id": namespace.id}
            values |= dict.fromkeys(texts, "table") | dict.fromkeys(numbers, NOW_MS)
            connection.execute(sa.insert(old).values(values | {"name": str(entry_id)}))
    empty_store.upgrade()
    assert empty_store.is_current()
    with empty_store.read() as conn:
        rows = tables.scan(conn, "table", None, 10)
    assert [(row.id, row.format) for row in rows] == [(entry_id, "iceberg") for entry_id in sorted(ids)]


def test_open_purge_jobs_survive_the_upgrade(empty_store: Store, backend: str) -> None:
    with _sql(empty_store) as connection:
        if backend == "postgresql":
            connection.exec_driver_sql("CREATE SCHEMA floecat")
        config = Config()
        config.set_main_option("script_location", "floecat.store:migrations")
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        command.upgrade(config, "0005")
        texts = (
            "object_uuid",
            "identifier",
            "location",
            "metadata_location",
            "state",
            "last_error",
            "format",
        )
        numbers = ("attempts", "next_attempt_at_ms", "deleted_files", "created_at_ms", "finished_at_ms")
        old = sa.table(
            "purge_jobs",
            *[sa.column(name) for name in (*texts, *numbers, "format")],
            *[sa.column(name, sa.Uuid()) for name in ("id", "catalog_id", "entry_id", "lease_owner")],
            sa.column("document", sa.LargeBinary()),
            sa.column("lease_expires_at_ms"),
        )
    catalog = add_catalog(empty_store)
    ids = {state: uuids.uuid7() for state in ("pending", "running", "done", "dead")}
    with _sql(empty_store) as connection:
        for state, job_id in ids.items():
            finished_at_ms = NOW_MS + 9 if state in ("done", "dead") else None
            row = {
                "id": job_id,
                "catalog_id": catalog.id,
                "entry_id": job_id,
                "object_uuid": "AB",
                "identifier": f"ns.{state}",
                "location": "s3://lake/t",
                "metadata_location": "s3://lake/t/metadata/1.json",
                "state": state,
                "last_error": "503",
                "format": "delta" if state == "running" else "iceberg",
                "attempts": 2,
                "next_attempt_at_ms": NOW_MS,
                "deleted_files": 5,
                "created_at_ms": NOW_MS,
                "finished_at_ms": finished_at_ms,
                "lease_owner": job_id if state == "running" else None,
                "lease_expires_at_ms": NOW_MS if state == "running" else None,
                "document": b"document",
            }
            connection.execute(sa.insert(old).values(row))
    empty_store.upgrade()
    with empty_store.read() as conn:
        moved = {row.id: row for row in jobs.list_all(conn, catalog.id, ["purge"])}
        assert jobs.attachment(conn, ids["dead"]) == b"document"
    assert {job_id: row.state for job_id, row in moved.items()} == {
        ids["pending"]: "queued",
        ids["running"]: "waiting",
        ids["dead"]: "failed",
    }
    pending, delta = moved[ids["pending"]], moved[ids["running"]]
    assert (pending.account_id, pending.title, pending.subject) == (catalog.account_id, "ns.pending", "ab")
    assert (pending.resource, delta.resource) == ("s3://lake/t/metadata/1.json", "s3://lake/t")
    payload = msgspec.json.decode(pending.payload, type=PurgePayload)
    assert payload == PurgePayload(
        ids["pending"], "AB", "s3://lake/t", "s3://lake/t/metadata/1.json", "iceberg"
    )
    assert (pending.progress, pending.attempts, pending.not_before_ms) == ('{"deleted_files": 5}', 2, NOW_MS)


def test_several_processes_upgrade_at_once(empty_store: Store, empty_url: str) -> None:
    program = "import sys; from floecat.store.database.engine import Store; Store.open(sys.argv[1]).upgrade()"
    processes = [
        subprocess.Popen([sys.executable, "-c", program, empty_url], stderr=subprocess.PIPE) for _ in range(4)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert empty_store.is_current()


def _differences(store: Store, wanted: sa.MetaData) -> list[tuple[object, ...]]:
    with _sql(store) as connection:
        context = MigrationContext.configure(
            connection,
            opts={"version_table": VERSION_TABLE, "compare_type": True, "compare_server_default": True},
        )
        return list(compare_metadata(context, wanted))


def _set_revision(store: Store, revision: str) -> None:
    with _sql(store) as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'")


def _sql(store: Store) -> sa.Connection:
    return store._engine.connect()
