"""Opening of a SQLite store.

WAL lets readers go on while one writer commits; `synchronous=FULL` makes a commit survive a power cut. The
driver stays in autocommit: `engine` sends BEGIN and COMMIT.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final

import sqlalchemy as sa

from floecat.errors import SettingsError
from floecat.store.database.errors import StoreUnavailableError

__all__ = ["ProcessTurns", "busy_timeout", "create_engine", "create_file", "is_open", "require_file"]

_CACHE_KIB: Final = 8192
_JOURNAL_SIZE_LIMIT_BYTES: Final = 64 * 1024 * 1024
_CACHED_STATEMENTS: Final = 256

_creating: Final = Lock()

_TURN: Final = 0
_NEXT: Final = 1
_POLL_S: Final = 0.0005


class ProcessTurns:
    """Turns of processes that write to one file, in the order in which they ask.

    With SQLite alone a process that writes all the time keeps others waiting: they sleep, up to 0.1 s at a
    time, and find the lock taken when they wake. Here a process first takes the place of the next writer, and
    keeps it until the turn is its own. Both are locks on bytes of a file beside the database, which end with
    their process. They order writers and no more: the lock of SQLite still decides.
    """

    def __init__(self, url: sa.URL) -> None:
        self._path = f"{_file_of(url)}-turns"
        self._file: int | None = None

    @contextmanager
    def hold(self, ends_at: float) -> Iterator[None]:
        """Holds the turn of this process; for one thread at a time. Waits until a `time.monotonic`.

        Raises:
            StoreUnavailableError: the turn did not come in time.
        """
        if self._file is None:
            self._file = _open_turns(self._path)
        self._lock(_NEXT, ends_at)
        try:
            self._lock(_TURN, ends_at)
        finally:
            self._unlock(_NEXT)
        try:
            yield
        finally:
            self._unlock(_TURN)

    def close(self) -> None:
        """Closes the file; the next turn opens it again."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _lock(self, byte: int, ends_at: float) -> None:
        while (file := self._file) is not None:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except (BlockingIOError, PermissionError):
                if time.monotonic() >= ends_at:
                    raise StoreUnavailableError("The store is locked by another process") from None
                time.sleep(_POLL_S)
            except OSError:  # a file system without locks: SQLite's own wait is all there is
                return
            else:
                return

    def _unlock(self, byte: int) -> None:
        file = self._file
        if file is not None:
            # after COMMIT an error would be taken for a failed change
            with suppress(OSError):
                fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)


def busy_timeout(timeout_s: float) -> str:
    """The statement that sets how long a connection waits for the lock of the file."""
    return f"PRAGMA busy_timeout={max(0, round(timeout_s * 1000))}"


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
            raise StoreUnavailableError(
                f"The store cannot open its file: {error.filename or path}: {error.strerror}"
            ) from error


def require_file(url: sa.URL) -> None:
    """Refuses a URL whose file is missing; nothing is created.

    Raises:
        SettingsError: there is no such file, or the URL names none.
        StoreUnavailableError: its folder cannot be read.
    """
    path = _file_of(url)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise SettingsError(
            f"There is no store at {path.absolute()}: `floecat db upgrade` creates one, floecat.data-dir and"
            " floecat.store.url name another"
        ) from None
    except OSError as error:
        raise StoreUnavailableError(f"The store cannot open its file: {path}: {error.strerror}") from error


def is_open(url: sa.URL) -> bool:
    """Whether this process has the file of a URL open.

    In a child that was just forked: whether SQLite remembers locks on it that only the parent has.
    """
    path = _file_of(url)
    if not path.exists():
        return False
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # the descriptor of the listing itself is closed already
            if os.path.samestat(os.fstat(int(name)), path.stat()):
                return True
    return False


def create_engine(url: sa.URL, *, timeout_s: float, pool: dict[str, Any]) -> sa.Engine:
    """An engine on a file that `create_file` or `require_file` has been called for.

    Args:
        url: `sqlite:///relative/path` or `sqlite:////absolute/path`.
        timeout_s: how long to wait for a lock.
        pool: settings of the connection pool.

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
    sa.event.listen(engine, "connect", lambda connection, _record: _configure(connection))
    return engine


def _open_turns(path: str) -> int | None:
    """The file; None if it cannot be opened, as one that another user created: SQLite's own wait remains."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


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


def _configure(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL").close()
    connection.execute("PRAGMA synchronous=FULL").close()
    connection.execute("PRAGMA foreign_keys=ON").close()
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}").close()
    connection.execute(f"PRAGMA journal_size_limit={_JOURNAL_SIZE_LIMIT_BYTES}").close()
