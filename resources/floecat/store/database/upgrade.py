"""The schema comes into a store by Alembic, from the migrations of this package."""

from __future__ import annotations

import sqlalchemy as sa

from floecat.errors import SettingsError
from floecat.store.schema import HEAD_REVISION, POSTGRESQL_SCHEMA, VERSION_TABLE

__all__ = ["check_revision", "current_revision", "upgrade"]

# any number will do that no other program on this database takes for its own locks
_ADVISORY_LOCK = 0x666C6F65636174


def current_revision(connection: sa.Connection) -> str | None:
    """The revision of the store, or `None` for one that is empty."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    query = sa.select(sa.column("version_num", sa.Text())).select_from(sa.table(VERSION_TABLE))
    revision: str | None = connection.execute(query).scalar()
    return revision


def check_revision(revision: str | None) -> None:
    """Refuses a store that this code cannot work with.

    Raises:
        SettingsError: the store is empty, or another version of Floecat made it.
    """
    if revision is None:
        raise SettingsError("The store has no schema yet: run `floecat db upgrade`")
    if revision != HEAD_REVISION:
        raise SettingsError(
            f"Another version of Floecat made the store (schema {revision}; this one needs {HEAD_REVISION}). "
            "Before the first release stores are not upgraded: use that version, or an empty store"
        )


def upgrade(connection: sa.Connection) -> None:
    """Runs the migrations that are missing, in one transaction; one process at a time, the others wait.

    Args:
        connection: in autocommit.

    Raises:
        SettingsError: another version of Floecat made the store.
    """
    sqlite = connection.dialect.name == "sqlite"
    connection.exec_driver_sql("BEGIN IMMEDIATE" if sqlite else "BEGIN")
    try:
        if not sqlite:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
            # not IF NOT EXISTS, which needs the right to create one even where it exists
            if not sa.inspect(connection).has_schema(POSTGRESQL_SCHEMA):
                connection.exec_driver_sql(f"CREATE SCHEMA {POSTGRESQL_SCHEMA}")
        revision = current_revision(connection)
        if revision is None:
            _run_migrations(connection)
        else:
            check_revision(revision)
    except BaseException:
        connection.exec_driver_sql("ROLLBACK")
        raise
    connection.exec_driver_sql("COMMIT")


def _run_migrations(connection: sa.Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "floecat.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
