"""The store as a whole: connections, transactions, upgrades.

Reads run in autocommit, each statement for itself; one that meets a dead connection is repeated on a new one.
A write is one transaction, which takes the write lock at once on SQLite. What fails before COMMIT surely did
not happen; only a connection that dies during COMMIT leaves the outcome open, and that has its own error.

Stores may be shared by threads. After a fork the child opens connections of its own. SQLite would remember
the locks of connections that are open during a fork. The child does not have them and could lose its changes.
So idle connections to SQLite are closed before a fork, and the child of a store in use makes no changes.
"""

from __future__ import annotations

import os
import random
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Semaphore, get_ident, local
from typing import Any, Final, TypeVar
from uuid import UUID

import sqlalchemy as sa
import sqlalchemy.exc as sa_exc

from floecat.errors import SettingsError
from floecat.store.database import sqlite
from floecat.store.database import upgrade as upgrades
from floecat.store.database.connections import (
    Connection,
    StatementCounter,
    TransactionConnection,
    active_counter,
    count_transaction,
    driver_errors,
)
from floecat.store.database.errors import (
    ConnectionLostError,
    StoreFaultError,
    StoreUnavailableError,
    TransactionConflictError,
)
from floecat.store.database.faults import DATABASE_ERRORS, connection_lost, raise_fault, raise_named_fault
from floecat.store.database.group_commit import GroupCommit
from floecat.store.database.prepared_statements import PreparedStatements
from floecat.store.database.read_connections import AtOnceConnection, ReadConnection
from floecat.store.schema import HEAD_REVISION

__all__ = ["Connection", "Store"]

T = TypeVar("T")

_MAX_ATTEMPTS: Final = 8
_FIRST_PAUSE_S: Final = 0.005
_UPGRADE_TIMEOUT_S: Final = 120.0
_WHOLE: Final = 0.9
"""A wait that has this share of its time left has all of it."""
_DRIVERS: Final = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_PING: Final = sa.select(sa.literal(1))


class Store:
    """A SQL database."""

    def __init__(self, url: sa.URL, *, pool_size: int, timeout_s: float, creates: bool) -> None:
        """Takes a URL with a driver; use `open`."""
        self._url = url
        self._pool_size = pool_size
        self._timeout_s = timeout_s
        self._sqlite = url.get_backend_name() == "sqlite"
        if self._sqlite:
            (sqlite.create_file if creates else sqlite.require_file)(url)
        self._turns = sqlite.ProcessTurns(url) if self._sqlite else None
        self._engine = self._create_engine(
            {"pool_size": pool_size, "max_overflow": 0, "pool_timeout": timeout_s, "pool_use_lifo": True}
        )
        self._statements = PreparedStatements(self._engine.dialect)
        # of SQLite, beside the pool, which costs more than BEGIN; one transaction at a time takes it
        self._idle_writers: list[sa.PoolProxiedConnection] = []
        self._reads_at_once: int | None = None
        self._inherited: list[sa.Pool | AtOnceConnection | None] = []
        # connections that are in use go back to the pool from which they came
        self._pools: weakref.WeakSet[sa.Pool] = weakref.WeakSet()
        self._forked_in_use = False
        self._after_fork()
        _stores.add(self)

    @classmethod
    def open(cls, url: str, *, pool_size: int = 16, timeout_s: float = 10.0, creates: bool = True) -> Store:
        """Opens a store. Connects on first use, so a database that is away is no error yet.

        Args:
            url: `sqlite:///path` or `postgresql+psycopg://user:password@host/database`.
            pool_size: most connections at a time; SQLite has one more that writes.
            timeout_s: how long a connection, a lock or a statement may take.
            creates: whether a SQLite file that is missing is created, with its folders.

        Raises:
            SettingsError: the URL is malformed or of another database, or its file is missing.
            StoreUnavailableError: the SQLite file cannot be created.
        """
        return cls(_parse_url(url), pool_size=pool_size, timeout_s=timeout_s, creates=creates)

    @property
    def connections_in_use(self) -> int:
        """Connections that were taken from the pool and are not back yet; SQLite writes on one of its own."""
        pool = self._engine.pool
        return pool.checkedout() if isinstance(pool, sa.QueuePool) else 0

    @property
    def is_read_at_once(self) -> bool:
        """Whether this thread reads by `at_once`, so that it should read a few small rows only."""
        return self._at_once is not None and get_ident() == self._reads_at_once

    def check_may_wait(self) -> None:
        """Refuses what reads more where others wait for this thread; see `reading_at_once`.

        Raises:
            StoreUnavailableError: this thread reads at once; another one can do it.
        """
        if self.is_read_at_once:
            raise StoreUnavailableError("This thread reads a few small rows only")

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection for reads, each statement its own snapshot.

        Raises:
            StoreUnavailableError: no connection in time.
        """
        if self._at_once is not None and get_ident() == self._reads_at_once:
            yield self._at_once
            return
        with self._one_of_the_pool(self._ends_at()):
            connection = ReadConnection(self._engine, self._statements)
            try:
                yield connection
            finally:
                connection.close()

    @property
    def at_once(self) -> Connection | None:
        """A connection for reads by key that wait for nothing, shared by all; `None` if the store is remote.

        Where it would have to wait it raises `StoreUnavailableError`.
        """
        return self._at_once

    @contextmanager
    def reading_at_once(self) -> Iterator[bool]:
        """Lends `at_once` to `read` in the block, on a thread that others wait for: an event loop's.

        Yields whether the store is local. Otherwise this thread should not read.
        """
        self._reads_at_once = get_ident()
        try:
            yield self._at_once is not None
        finally:
            self._reads_at_once = None

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A connection with a transaction, committed at the end of the block and rolled back on an error.

        Raises:
            StoreUnavailableError: the store is away or locked; nothing was applied.
            CommitOutcomeUnknownError: the store did not say whether it committed.
            StoreFaultError: the block swallowed the error of a statement; nothing was applied.
        """
        group = self._group_of(None)
        with (
            self._one_transaction_per_thread(),
            self._transaction(None, self._ends_at()) if group is None else group.alone() as connection,
        ):
            count_transaction()
            yield connection

    def run(self, work: Callable[[Connection], T], *, catalog_id: UUID | None = None) -> T:
        """Runs `work` in a transaction, again when the transaction lost against another one.

        The works of several threads may share one COMMIT; each returns, or fails, for itself. On PostgreSQL
        these are works of one catalog. They lock it first, so they never wait for each other in a circle.
        Works without a catalog that lock several entries can meet them in one, while all commits wait.

        Args:
            work: may run several times, in any thread; only its last run is committed.
            catalog_id: the only catalog that it changes; `None` if it changes none, or more than one.

        Raises:
            StoreUnavailableError: as `write`, or too many transactions were faster.
            CommitOutcomeUnknownError: as `write`.
        """
        for attempt in range(_MAX_ATTEMPTS):
            try:
                return self._run_once(work, catalog_id)
            except (TransactionConflictError, ConnectionLostError):
                if attempt == _MAX_ATTEMPTS - 1:
                    raise
            # jitter keeps those that met once from meeting again
            time.sleep(random.uniform(0, _FIRST_PAUSE_S * 2**attempt))  # noqa: S311
        raise StoreUnavailableError("Other transactions were faster each time")

    def ping(self) -> None:
        """Asks the database for a sign of life.

        Raises:
            StoreUnavailableError: it gives none.
        """
        with self.read() as connection:
            connection.first(_PING)

    def upgrade(self) -> None:
        """Creates the schema in an empty store. Safe when several processes do it at once.

        Raises:
            SettingsError: another version of Floecat made the store.
            StoreUnavailableError: the store is away or locked.
        """
        engine = self._create_engine({"poolclass": sa.NullPool}, upgrading=True)
        try:
            with engine.connect() as connection:
                upgrades.upgrade(connection)
        except DATABASE_ERRORS as error:
            raise_named_fault(error, self._url)
        finally:
            engine.dispose()

    def is_current(self) -> bool:
        """Whether the schema is the one that this code works with."""
        return self._revision() == HEAD_REVISION

    def check_schema(self) -> None:
        """Fails unless `is_current`, and says what to do.

        Raises:
            SettingsError: the schema is missing, or of another version.
        """
        upgrades.check_revision(self._revision())

    @contextmanager
    def count_statements(self) -> Iterator[StatementCounter]:
        """Counts what this context sends to the database, also in threads that took over the context."""
        counter = StatementCounter()
        token = active_counter.set(counter)
        try:
            yield counter
        finally:
            active_counter.reset(token)

    def close(self) -> None:
        """Closes the connections that are not in use; the others when they are given back."""
        self._engine.dispose()
        self._close_idle_writers()
        if self._at_once is not None:
            self._at_once.close()
        if self._turns is not None:
            self._turns.close()

    def _revision(self) -> str | None:
        try:
            with self._engine.connect() as connection:
                return upgrades.current_revision(connection)
        except DATABASE_ERRORS as error:
            if not connection_lost(error):
                raise_named_fault(error, self._url)
        try:  # the pool has forgotten the dead connections
            with self._engine.connect() as connection:
                return upgrades.current_revision(connection)
        except DATABASE_ERRORS as error:
            raise_named_fault(error, self._url)

    def _create_engine(self, pool: dict[str, Any], *, upgrading: bool = False) -> sa.Engine:
        if self._sqlite:
            timeout_s = _UPGRADE_TIMEOUT_S if upgrading else self._timeout_s
            return sqlite.create_engine(self._url, timeout_s=timeout_s, pool=pool)
        # loads the driver, which a SQLite store never needs
        from floecat.store.database import postgresql

        return postgresql.create_engine(
            self._url, timeout_s=None if upgrading else self._timeout_s, pool=pool
        )

    def _open_beside_pool(self, timeout_s: float) -> sa.Engine:
        return sqlite.create_engine(self._url, timeout_s=timeout_s, pool={"poolclass": sa.NullPool})

    def _checkout(self) -> TransactionConnection:
        if self._sqlite:
            lent = self._idle_writer() or self._open_beside_pool(self._timeout_s).raw_connection()
        else:
            lent = self._engine.raw_connection()
        return TransactionConnection(lent, self._statements, self._engine.dialect)

    def _give_back(self, connection: TransactionConnection) -> None:
        if not self._sqlite:
            connection.close()
        elif connection.pooled.is_valid:
            self._idle_writers.append(connection.pooled)

    def _idle_writer(self) -> sa.PoolProxiedConnection | None:
        with suppress(IndexError):
            return self._idle_writers.pop()
        return None

    def _close_idle_writers(self) -> None:
        while (writer := self._idle_writer()) is not None:
            writer.close()

    @contextmanager
    def _one_transaction_per_thread(self) -> Iterator[None]:
        if getattr(self._thread, "writing", False):
            raise RuntimeError("this thread has a transaction open, a second one would wait for it")
        self._thread.writing = True
        try:
            yield
        finally:
            self._thread.writing = False

    def _run_once(self, work: Callable[[Connection], T], catalog_id: UUID | None) -> T:
        group = self._group_of(catalog_id)
        if group is None:
            with self.write() as connection:
                return work(connection)
        with self._one_transaction_per_thread():
            return group.run(work)

    def _group_of(self, catalog_id: UUID | None) -> GroupCommit | None:
        """The queue of those who write to a catalog; all of SQLite share one."""
        if self._sqlite:
            catalog_id = None
        elif catalog_id is None:
            return None
        group = self._groups.get(catalog_id)
        if group is None:
            transaction = partial(self._transaction, catalog_id)
            group = self._groups.setdefault(catalog_id, GroupCommit(transaction, timeout_s=self._timeout_s))
        return group

    @contextmanager
    def _transaction(self, catalog_id: UUID | None, ends_at: float) -> Iterator[TransactionConnection]:
        if self._forked_in_use:
            raise StoreFaultError(
                "The process was forked while the store was in use; start it without a fork"
            )
        with self._turns.hold(ends_at) if self._turns else self._one_of_the_pool(ends_at):
            connection = self._begin_transaction(catalog_id, ends_at)
            try:
                try:
                    yield connection
                except BaseException:
                    self._roll_back(connection)
                    raise
                self._commit(connection)
            finally:
                self._give_back(connection)

    @contextmanager
    def _one_of_the_pool(self, ends_at: float) -> Iterator[None]:
        """Waits for a free connection of the pool for the time that is left; the pool itself never waits."""
        free = self._free
        if not free.acquire(timeout=max(0.0, ends_at - time.monotonic())):
            raise StoreUnavailableError("All connections to the store are in use")
        try:
            yield
        finally:
            free.release()

    def _ends_at(self) -> float:
        return time.monotonic() + self._timeout_s

    def _begin_transaction(self, catalog_id: UUID | None, ends_at: float) -> TransactionConnection:
        connection: TransactionConnection | None = None
        try:
            while True:
                connection = self._checkout()
                try:
                    with self._waiting_until(connection, ends_at):
                        connection.control(self._beginning(catalog_id, ends_at))
                    break
                except ConnectionLostError:  # as all others of the pool may be, after a restart
                    if time.monotonic() >= ends_at:
                        raise
        except driver_errors(self._engine.dialect) as error:
            if connection is not None:
                if not self._sqlite:
                    self._roll_back(connection)
                self._give_back(connection)
            raise_fault(error)
        return connection

    def _beginning(self, catalog_id: UUID | None, ends_at: float) -> str:
        """The statements that begin a transaction, in one message."""
        if self._sqlite:
            return "BEGIN IMMEDIATE"
        text, left_s = "BEGIN", ends_at - time.monotonic()
        is_late = left_s < self._timeout_s * _WHOLE
        if is_late:
            text += f"; SET LOCAL lock_timeout = {max(1, int(left_s * 1000))}"
        if catalog_id is not None:
            text += f"; SELECT FROM catalogs WHERE id = '{catalog_id}' FOR NO KEY UPDATE"
            if is_late:  # members that came later have all of their time for other locks
                text += "; SET LOCAL lock_timeout TO DEFAULT"
        return text

    @contextmanager
    def _waiting_until(self, connection: TransactionConnection, ends_at: float) -> Iterator[None]:
        """Lets SQLite wait for its lock for no longer than what the waits before have left."""
        left_s = ends_at - time.monotonic()
        if not self._sqlite or left_s > self._timeout_s * _WHOLE:
            yield
            return
        connection.control(sqlite.busy_timeout(left_s))
        try:
            yield
        finally:
            connection.control(sqlite.busy_timeout(self._timeout_s))

    def _commit(self, connection: TransactionConnection) -> None:
        if connection.failed:
            self._roll_back(connection)
            raise StoreFaultError("A failed statement was ignored; the transaction was rolled back")
        try:
            connection.commit()
        except driver_errors(self._engine.dialect) as error:
            self._roll_back(connection)
            raise_fault(error, committing=True)

    def _roll_back(self, connection: TransactionConnection) -> None:
        """Ends a transaction for sure: a connection that cannot roll back is closed."""
        failures: tuple[type[Exception], ...] = (ConnectionLostError, *driver_errors(self._engine.dialect))
        try:
            connection.control("ROLLBACK")
        except failures:  # ended already, or dead: either way the connection is not used again
            connection.discard()

    def _after_fork(self) -> None:
        self._groups: dict[UUID | None, GroupCommit] = {}
        self._thread = local()
        self._free = Semaphore(self._pool_size)
        self._reads_at_once = None
        self._at_once = (
            AtOnceConnection(self._open_beside_pool(0), self._statements) if self._sqlite else None
        )


_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _parse_url(text: str) -> sa.URL:
    try:
        url = sa.make_url(text)
    except (sa_exc.ArgumentError, ValueError):
        raise SettingsError("The URL of the store is malformed") from None
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise SettingsError(f"The store can be sqlite or postgresql, not {url.drivername}")
    return url.set(drivername=driver)


def _close_idle_files() -> None:
    for store in list(_stores):
        if store._at_once is not None:
            store._pools.add(store._engine.pool)
            for pool in list(store._pools):
                pool.dispose()
            store._engine.dispose(close=False)
            store._close_idle_writers()
            store._at_once.close()


def _forget_connections_of_parent() -> None:
    """Connections are of the parent: the child neither uses nor closes them."""
    for store in _stores:
        store._forked_in_use = store._sqlite and sqlite.is_open(store._url)
        store._inherited += (store._engine.pool, store._at_once)
        store._engine.dispose(close=False)
        store._after_fork()


os.register_at_fork(before=_close_idle_files, after_in_child=_forget_connections_of_parent)
