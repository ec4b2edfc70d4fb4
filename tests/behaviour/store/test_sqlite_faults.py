"""A SQLite file on a full disk, one that is damaged, one that may not be written."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
import uuid_utils.compat as uuids

from floecat.errors import SettingsError, StoreUnavailableError
from floecat.store.catalogs import accounts
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import StoreFaultError
from floecat.store.entries.documents import compress
from floecat.store.entries.entry_changes import insert
from tests.behaviour.store.rows import NOW_MS, add_catalog, add_namespace, entry_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "deeper" / "floecat.db"


@pytest.fixture
def lite(path: Path) -> Store:
    store = Store.open(f"sqlite:///{path}")
    store.upgrade()
    return store


def test_a_new_file_is_private(lite: Store, path: Path) -> None:
    lite.ping()
    for each in path.parent.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    assert {each.name for each in path.parent.iterdir()} >= {"floecat.db", "floecat.db-wal"}
    lite.close()
    assert [each.name for each in path.parent.iterdir()] == ["floecat.db"]


def test_how_a_file_is_opened(lite: Store) -> None:
    found = {}
    with lite._engine.connect() as connection:
        for pragma in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout"):
            found[pragma] = connection.exec_driver_sql(f"PRAGMA {pragma}").scalar()
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}
    lite.close()


def test_another_store_on_the_file_gives_up_no_lock(lite: Store, path: Path) -> None:
    """The last connection to close deletes the WAL, and would take one without a lock for gone."""
    lite.ping()
    with lite.write() as conn:
        conn.change(sa.text("CREATE TABLE kept (x INTEGER)"))
    Store.open(f"sqlite:///{path}").close()
    lite.upgrade()
    read = (
        f"import sqlite3; other = sqlite3.connect({str(path)!r});"
        "print(*other.execute('SELECT x FROM kept')); other.close()"
    )
    subprocess.run([sys.executable, "-c", read], check=True)
    with lite.write() as conn:
        conn.change(sa.text("INSERT INTO kept VALUES (7)"))
    found = subprocess.run([sys.executable, "-c", read], check=True, capture_output=True, text=True)
    assert found.stdout == "(7,)\n"
    lite.close()


def test_a_full_disk(lite: Store) -> None:
    namespace = add_namespace(lite, add_catalog(lite).id, "a")
    row, document = entry_of(namespace, "t"), compress(os.urandom(2_000_000))

    def work(conn: Connection) -> None:
        conn.all(sa.text("PRAGMA max_page_count = 100"))
        insert(conn, row, document, 1)

    with pytest.raises(StoreUnavailableError, match="disk"):
        lite.run(work)
    with lite.write() as conn:
        conn.all(sa.text("PRAGMA max_page_count = 1000000"))
        insert(conn, row, document, 1)
    lite.close()


_FAILING_COMMIT = """
import os, resource, sys
import uuid_utils.compat as uuids
from floecat.store.catalogs import accounts
from floecat.store.database.engine import Store
from floecat.store.database.errors import CommitOutcomeUnknownError
from floecat.store.schema import accounts as rows

store = Store.open(sys.argv[1])
kept, lost = uuids.uuid7(), uuids.uuid7()
store.run(lambda conn: accounts.ensure(conn, kept, 1))
size = os.stat(sys.argv[1].removeprefix("sqlite:///") + "-wal").st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
try:
    store.run(lambda conn: accounts.ensure(conn, lost, 2))
except CommitOutcomeUnknownError as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
else:
    raise AssertionError("the commit went through")
with store.read() as conn:
    assert [row[0] for row in conn.all(rows.select())] == [kept]
assert store.run(lambda conn: accounts.ensure(conn, lost, 3))
store.close()
"""


def test_a_commit_that_cannot_write(lite: Store, path: Path) -> None:
    lite.close()
    subprocess.run([sys.executable, "-c", _FAILING_COMMIT, f"sqlite:///{path}"], check=True, timeout=60)


def test_a_file_that_may_not_be_written(lite: Store) -> None:
    def work(conn: Connection) -> None:
        conn.all(sa.text("PRAGMA query_only = ON"))
        accounts.ensure(conn, uuids.uuid7(), NOW_MS)

    with pytest.raises(StoreUnavailableError, match="read-only"):
        lite.run(work)
    lite.close()


def test_a_file_that_is_no_database(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is not a database, " * 100)
    store = Store.open(f"sqlite:///{path}")
    with pytest.raises(StoreFaultError, match="damaged"):
        store.ping()
    with pytest.raises(StoreFaultError, match="damaged"):
        store.upgrade()
    assert path.read_bytes() == b"this is not a database, " * 100
    store.close()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnavailableError, match="cannot open its file"):
        Store.open(f"sqlite:///{tmp_path}/file/floecat.db")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"])
def test_a_store_is_a_file(url: str) -> None:
    with pytest.raises(SettingsError, match="must name a file"):
        Store.open(url)
