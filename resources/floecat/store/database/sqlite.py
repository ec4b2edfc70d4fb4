"""How a SQLite store is opened.

WAL lets readers go on while one writer commits; `synchronous=FULL` makes a commit survive a power cut. The
driver stays in autocommit: `engine` sends BEGIN and COMMIT.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from threading import Lock
from typing import Any, Final

import sqlalchemy as sa

from floecat.errors import SettingsError
from floecat.store.database.errors import StoreUnavailableError

__all__ = ["create_engine", "create_file"]

_CACHE_KIB: Final = 8192
_JOURNAL_SIZE_LIMIT_BYTES: Final = 64 * 1024 * 1024
_CACHED_STATEMENTS: Final = 256

_creating: Final = Lock()


def create_file(url: sa.URL) -> None:
    """Creates the file of a URL, readable by its owner only, where it is missing.

    An existing file is never opened here: closing it would release every POSIX lock that the process holds on
    it, including those of SQLite's own connections. Another process would then take the store for unused and
    delete the WAL while it is in use.

    Raises:
        SettingsError: the URL names no file.
        StoreUnavailableError: the file cannot be created.
    """
    path = _file_of(url)
    with _creating:  # no other thread connects to a file before it is closed here
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _create_exclusively(path)
        except OSError as error:
            raise StoreUnavailableError("The store cannot open its file") from error


def create_engine(
    url: sa.URL, *, timeout_s: float, pool: dict[str, Any], foreign_keys: bool = True
) -> sa.Engine:
    """An engine on a file that `create_file` has been called for.

    Args:
        url: `sqlite:///relative/path` or `sqlite:////absolute/path`.
        timeout_s: how long to wait for a lock.
        pool: settings of the connection pool.
        foreign_keys: whether foreign keys hold. Only a migration that rebuilds a table turns them off.

    Raises:
        SettingsError: the URL names no file.
    """
    _file_of(url)
    engine = sa.create_engine(
        url,
        connect_args={
            "timeout": timeout_s,
            "isolation_level": None,
            "cached_statements": _CACHED_STATEMENTS,
        },
        hide_parameters=True,
        # otherwise the row count of an INSERT with a conflict clause is not always kept
        execution_options={"preserve_rowcount": True},
        **pool,
    )
    sa.event.listen(engine, "connect", lambda connection, _record: _configure(connection, foreign_keys))
    return engine


def _create_exclusively(path: Path) -> None:
    try:
        created = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    os.close(created)


def _file_of(url: sa.URL) -> Path:
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise SettingsError("The URL of a SQLite store must name a file, as in sqlite:////var/lib/floecat.db")
    return Path(url.database)


def _configure(connection: sqlite3.Connection, foreign_keys: bool) -> None:
    connection.execute("PRAGMA journal_mode=WAL").close()
    connection.execute("PRAGMA synchronous=FULL").close()
    connection.execute(f"PRAGMA foreign_keys={'ON' if foreign_keys else 'OFF'}").close()
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}").close()
    connection.execute(f"PRAGMA journal_size_limit={_JOURNAL_SIZE_LIMIT_BYTES}").close()
