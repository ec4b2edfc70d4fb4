"""Bringing the schema of a store up to date with Alembic, from the files of this package."""

from __future__ import annotations

import sqlalchemy as sa

from floecat.errors import SettingsError
from floecat.store.migrations import HEAD_REVISION, VERSION_TABLE
from floecat.store.schema import POSTGRESQL_SCHEMA

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
        SettingsError: the store is older or newer than the code.
    """
    if revision is not None and revision > HEAD_REVISION:
        raise SettingsError(
            f"The store has schema {revision} and this version of Floecat knows {HEAD_REVISION}: "
            "install the newer version of Floecat that upgraded it"
        )
    if revision != HEAD_REVISION:
        found = "no schema yet" if revision is None else f"schema {revision}"
        raise SettingsError(
            f"The store has {found} and this version of Floecat needs {HEAD_REVISION}: "
            "run `floecat db upgrade`"
        )


def upgrade(connection: sa.Connection) -> None:
    """Runs the migrations that are missing, in one transaction; one process at a time, the others wait.

    Args:
        connection: in autocommit, without foreign keys on SQLite.

    Raises:
        SettingsError: the store is newer than the code.
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
        if revision is not None and revision >= HEAD_REVISION:
            check_revision(revision)
        else:
            _run_migrations(connection)
        if sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
            raise SettingsError("The upgrade would leave rows that point at nothing; nothing was changed")
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
