"""A PostgreSQL server that restarts, crashes, hangs or throws somebody out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
import uuid_utils.compat as uuids

from floecat.errors import ConflictError, StoreUnavailableError
from floecat.store.catalogs import accounts
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import CommitOutcomeUnknownError, ConnectionLostError
from tests.behaviour.store.rows import NOW_MS, account_ids, add_catalog, at_once, together
from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.postgres

IMPATIENT_S = 1.0


@pytest.fixture(scope="module")
def database(own_postgres_server: PostgresServer) -> str:
    name = own_postgres_server.create_database()
    store = Store.open(own_postgres_server.url(name))
    store.upgrade()
    store.close()
    return name


@pytest.fixture
def pg(own_postgres_server: PostgresServer, database: str) -> Iterator[Store]:
    store = Store.open(own_postgres_server.url(database), timeout_s=60)
    yield store
    store.close()


@pytest.fixture
def impatient(own_postgres_server: PostgresServer, database: str) -> Iterator[Store]:
    store = Store.open(own_postgres_server.url(database), timeout_s=IMPATIENT_S)
    yield store
    store.close()


def fill_pool(store: Store) -> None:
    others = threading.Barrier(6, timeout=120)

    def hold(_: int) -> None:
        with store.read() as conn:
            account_ids(conn)
            others.wait()

    at_once(6, hold)


def exists(store: Store, account_id: object) -> bool:
    with store.read() as conn:
        return account_id in set(account_ids(conn))


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_reads_recover_from_a_restart(pg: Store, own_postgres_server: PostgresServer, how: str) -> None:
    fill_pool(pg)
    getattr(own_postgres_server, how)()
    own_postgres_server.start()
    assert all(rows is not None for rows in at_once(6, lambda _: exists(pg, None)))
    fill_pool(pg)


def test_the_check_of_the_schema_recovers(pg: Store, own_postgres_server: PostgresServer) -> None:
    fill_pool(pg)
    own_postgres_server.stop()
    own_postgres_server.start()
    assert pg.is_current()


def test_a_read_in_the_middle_recovers(pg: Store, own_postgres_server: PostgresServer) -> None:
    with pg.read() as conn:
        before = account_ids(conn)
        own_postgres_server.stop()
        own_postgres_server.start()
        assert account_ids(conn) == before
        assert account_ids(conn) == before


def test_writes_recover_from_a_restart(pg: Store, own_postgres_server: PostgresServer) -> None:
    fill_pool(pg)
    own_postgres_server.kill()
    own_postgres_server.start()
    made = at_once(6, lambda _: pg.run(lambda conn: accounts.ensure(conn, uuids.uuid7(), NOW_MS)))
    assert made == [True] * 6
    with pg.write() as conn:
        assert accounts.ensure(conn, uuids.uuid7(), NOW_MS)


def test_a_server_that_is_down(pg: Store, own_postgres_server: PostgresServer) -> None:
    fill_pool(pg)
    own_postgres_server.stop()
    try:
        for _ in range(2):
            with pytest.raises(StoreUnavailableError):
                pg.ping()
            with pytest.raises(StoreUnavailableError):
                pg.run(account_ids)
            with pytest.raises(StoreUnavailableError):
                pg.is_current()
            with pytest.raises(StoreUnavailableError):
                pg.upgrade()
    finally:
        own_postgres_server.start()
    assert pg.is_current()


def test_a_transaction_that_lost_its_connection(pg: Store, own_postgres_server: PostgresServer) -> None:
    account_id = uuids.uuid7()
    lost: list[int] = []

    def work(conn: Connection) -> None:
        accounts.ensure(conn, account_id, NOW_MS)
        if not lost:
            lost.append(_throw_out(own_postgres_server))
        account_ids(conn)

    with pytest.raises(ConnectionLostError), pg.write() as conn:
        work(conn)
    assert not exists(pg, account_id)
    lost.clear()
    pg.run(work)  # which may try again, since nothing was applied
    assert len(lost) == 1
    assert exists(pg, account_id)


def test_a_group_that_lost_its_connection(pg: Store, own_postgres_server: PostgresServer) -> None:
    catalog = add_catalog(pg)
    ids = [uuids.uuid7() for _ in range(3)]
    lost: list[int] = []

    def insert(number: int) -> Callable[[Connection], bool]:
        def work(conn: Connection) -> bool:
            made = accounts.ensure(conn, ids[number], NOW_MS)
            if number == 1 and not lost:
                lost.append(_throw_out(own_postgres_server))
            return made

        return work

    outcomes = together(pg, catalog.id, *map(insert, range(3)))
    assert [outcome.result() for outcome in outcomes] == [True] * 3  # each was made once
    assert len(lost) == 1
    assert all(exists(pg, each) for each in ids)


def test_a_connection_that_is_lost_at_the_commit(pg: Store, own_postgres_server: PostgresServer) -> None:
    account_id = uuids.uuid7()
    attempts = []

    def work(conn: Connection) -> None:
        attempts.append(accounts.ensure(conn, account_id, NOW_MS))
        _throw_out(own_postgres_server)

    with pytest.raises(CommitOutcomeUnknownError):
        pg.run(work)
    assert attempts == [True]  # what may have been applied is not done twice
    assert not exists(pg, account_id)


def test_a_server_that_hangs(pg: Store, impatient: Store, own_postgres_server: PostgresServer) -> None:
    fill_pool(pg)
    impatient.ping()
    started = time.monotonic()
    own_postgres_server.pause()
    try:
        with pytest.raises(StoreUnavailableError):
            impatient.ping()
    finally:
        own_postgres_server.resume()
    assert time.monotonic() - started < 60
    pg.ping()


def test_a_server_that_hangs_at_the_commit(
    pg: Store, impatient: Store, own_postgres_server: PostgresServer
) -> None:
    account_id = uuids.uuid7()

    def work(conn: Connection) -> None:
        accounts.ensure(conn, account_id, NOW_MS)
        own_postgres_server.pause()

    try:
        with pytest.raises(CommitOutcomeUnknownError):
            impatient.run(work)
    finally:
        own_postgres_server.resume()
    for _ in range(2400):  # the COMMIT was sent, and is carried out after all
        if exists(pg, account_id):
            return
        time.sleep(0.05)
    pytest.fail("the commit was not carried out")


def test_messages_do_not_tell_the_url(
    own_postgres_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = own_postgres_server.url("nothing").replace("floecat@", "anna:hunter2@")
    store = Store.open(url, timeout_s=IMPATIENT_S)
    with caplog.at_level(logging.DEBUG), pytest.raises(StoreUnavailableError) as error:
        store.ping()
    chain: list[str] = []
    seen: BaseException | None = error.value
    while seen is not None:
        chain.append(str(seen))
        seen = seen.__cause__
    assert "hunter2" not in "".join(chain) + caplog.text + repr(store)
    assert "nothing" not in str(error.value)
    store.close()


def _throw_out(server: PostgresServer) -> int:
    """Ends every session of the store."""
    rows = server.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'floecat'"
    )
    return len(rows)


def test_a_leader_whose_time_is_short_leaves_the_others_theirs(
    own_postgres_server: PostgresServer, database: str
) -> None:
    store = Store.open(own_postgres_server.url(database), timeout_s=6)
    catalog = add_catalog(store, "late")
    has_waited = threading.Event()
    timeout = sa.select(sa.func.current_setting("lock_timeout"))

    def first(_conn: Connection) -> None:
        # a fifth of the time of the one behind it
        threading.Timer(1.2, has_waited.set).start()
        assert has_waited.wait(120)
        raise ConflictError("planted")

    outcomes = together(store, catalog.id, first, lambda conn: conn.first(timeout))
    assert isinstance(outcomes[0].exception(), ConflictError)
    assert outcomes[1].result() == ("6s",)
    store.close()
