from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import pytest
import sqlalchemy as sa

from floecat.store.database import sqlite
from floecat.store.database.connections import (
    Connection,
    StatementCounter,
    TransactionConnection,
    active_counter,
)
from floecat.store.database.errors import (
    CommitOutcomeUnknownError,
    DuplicateKeyError,
    StoreFaultError,
    StoreUnavailableError,
    TransactionConflictError,
)
from floecat.store.database.group_commit import GroupCommit
from floecat.store.database.prepared_statements import PreparedStatements

NUMBERS = sa.table("numbers", sa.column("n", sa.Integer()))
INSERT = sa.insert(NUMBERS)
SELECT = sa.select(NUMBERS.c.n).order_by(NUMBERS.c.n)

Work = Callable[[Connection], object]


class Database:
    """A SQLite file with a queue of writers; counts its transactions."""

    def __init__(self, path: Path, timeout_s: float = 30.0) -> None:
        url = sa.make_url(f"sqlite:///{path}")
        sqlite.create_file(url)
        self.engine = sqlite.create_engine(url, timeout_s=5, pool={"poolclass": sa.NullPool})
        with self.engine.connect() as connection:
            connection.exec_driver_sql("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")
        self.statements = PreparedStatements(self.engine.dialect)
        self.groups = GroupCommit(self.transaction, timeout_s=timeout_s)
        self.commits = 0
        self.ends_at: list[float] = []
        self.at_commit: Callable[[], None] = lambda: None

    @contextmanager
    def transaction(self, ends_at: float) -> Iterator[TransactionConnection]:
        self.ends_at.append(ends_at)
        connection = TransactionConnection(self.engine.raw_connection(), self.statements, self.engine.dialect)
        connection.control("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.control("COMMIT")
            self.commits += 1
            self.at_commit()
        finally:
            connection.close()

    def numbers(self) -> list[int]:
        with self.engine.connect() as connection:
            return list(connection.execute(SELECT).scalars())

    def together(self, first: Work, *others: Work) -> list[Future[object]]:
        """Runs works so that the others are queued, in their order, before the first one ends."""
        begun = threading.Event()

        def lead(connection: Connection) -> object:
            begun.set()
            self.wait_for_waiting(len(others))
            return first(connection)

        with ThreadPoolExecutor(len(others) + 1) as threads:
            outcomes = [threads.submit(self.groups.run, lead)]
            assert begun.wait(120)
            for number, work in enumerate(others):
                self.wait_for_waiting(number)
                outcomes.append(threads.submit(self.groups.run, work))
        return outcomes

    def wait_for_waiting(self, number: int) -> None:
        deadline = time.monotonic() + 120
        while self.groups.waiting < number:
            assert time.monotonic() < deadline
            time.sleep(0.001)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "numbers.db")


def insert(number: int) -> Work:
    return lambda connection: connection.change(INSERT, {"n": number})


def test_works_that_wait_share_one_commit(database: Database) -> None:
    outcomes = database.together(*map(insert, range(6)))
    assert [outcome.result() for outcome in outcomes] == [1] * 6
    assert database.numbers() == list(range(6))
    assert database.commits == 1
    assert database.groups.run(insert(6)) == 1


def test_a_work_that_fails_fails_alone(database: Database) -> None:
    def refused(connection: Connection) -> None:
        connection.change(INSERT, {"n": 10})
        raise KeyError("refused")

    def duplicate(connection: Connection) -> None:
        connection.change(INSERT, {"n": 11})
        connection.change(INSERT, {"n": 1})

    def swallowed(connection: Connection) -> None:
        connection.change(INSERT, {"n": 12})
        with pytest.raises(DuplicateKeyError):
            connection.change(INSERT, {"n": 1})

    outcomes = database.together(insert(1), refused, insert(2), duplicate, swallowed, insert(3))
    kinds = [type(outcome.exception()) for outcome in outcomes]
    nothing = type(None)
    assert kinds == [nothing, KeyError, nothing, DuplicateKeyError, StoreFaultError, nothing]
    assert database.numbers() == [1, 2, 3]


def test_a_leader_that_fails_leaves_the_others_to_the_next(database: Database) -> None:
    def refused(connection: Connection) -> None:
        connection.change(INSERT, {"n": 10})
        raise KeyError("refused")

    outcomes = database.together(refused, insert(1), insert(2))
    assert isinstance(outcomes[0].exception(), KeyError)
    assert [outcome.result() for outcome in outcomes[1:]] == [1, 1]
    assert database.numbers() == [1, 2]
    assert database.commits == 1


def test_a_commit_that_is_not_answered_is_unknown_to_each_member(database: Database) -> None:
    def lost() -> None:
        raise CommitOutcomeUnknownError("lost")

    def refused(_: Connection) -> None:
        raise KeyError("refused")

    database.at_commit = lost
    outcomes = database.together(insert(1), insert(2), refused, insert(3))
    errors = [outcome.exception() for outcome in outcomes]
    unknown = CommitOutcomeUnknownError
    # what was refused may have seen a change that is lost, and is refused again if not
    assert [type(error) for error in errors] == [unknown, unknown, TransactionConflictError, unknown]
    assert len({id(error) for error in errors}) == 4
    database.at_commit = lambda: None
    assert database.groups.run(insert(4)) == 1


def test_a_work_that_breaks_the_transaction_makes_the_others_worth_another_try(database: Database) -> None:
    def full_disk(connection: Connection) -> None:
        assert isinstance(connection, TransactionConnection)
        connection.control("ROLLBACK")  # as SQLite does by itself
        raise StoreUnavailableError("full")

    outcomes = database.together(insert(1), insert(2), full_disk, insert(3))
    errors = [outcome.exception() for outcome in outcomes]
    assert [type(error) for error in errors] == [
        TransactionConflictError,
        TransactionConflictError,
        StoreUnavailableError,
        type(None),
    ]
    assert database.numbers() == [3]


def test_a_work_is_not_refused_over_a_change_that_was_not_committed(database: Database) -> None:
    def full_disk(connection: Connection) -> None:
        assert isinstance(connection, TransactionConnection)
        connection.control("ROLLBACK")  # as SQLite does by itself
        raise StoreUnavailableError("full")

    leader, duplicate, _ = database.together(insert(1), insert(1), full_disk)
    assert isinstance(leader.exception(), TransactionConflictError)
    assert isinstance(duplicate.exception(), TransactionConflictError)
    assert database.numbers() == []


def test_an_interrupted_leader_leaves_members_in_doubt_and_the_queue_in_order(database: Database) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    database.at_commit = interrupted
    outcomes = database.together(insert(1), insert(2))
    assert isinstance(outcomes[0].exception(), KeyboardInterrupt)
    assert isinstance(outcomes[1].exception(), CommitOutcomeUnknownError)
    database.at_commit = lambda: None
    assert database.groups.run(insert(3)) == 1


def test_a_group_is_bounded(database: Database) -> None:
    outcomes = database.together(*map(insert, range(70)))
    assert all(outcome.result() == 1 for outcome in outcomes)
    assert database.commits == 2
    assert database.numbers() == list(range(70))


def test_a_block_has_a_transaction_of_its_own_in_its_turn(database: Database) -> None:
    order: list[str] = []

    def noted(name: str) -> Work:
        return lambda _: order.append(name)

    begun = threading.Event()

    def alone() -> None:
        with database.groups.alone():
            order.append("block")

    def lead(_: Connection) -> None:
        begun.set()
        database.wait_for_waiting(2)
        order.append("first")

    with ThreadPoolExecutor(3) as threads:
        outcomes = [threads.submit(database.groups.run, lead)]
        assert begun.wait(120)
        outcomes.append(threads.submit(alone))
        database.wait_for_waiting(1)
        outcomes.append(threads.submit(database.groups.run, noted("last")))
    for outcome in outcomes:
        outcome.result()
    assert order == ["first", "block", "last"]
    assert database.commits == 3


def test_a_turn_that_does_not_come_in_time(tmp_path: Path) -> None:
    database = Database(tmp_path / "numbers.db", timeout_s=0.1)
    with ThreadPoolExecutor(1) as threads, database.groups.alone():
        late = threads.submit(database.groups.run, insert(1))
        with pytest.raises(StoreUnavailableError, match="in time"):
            late.result(timeout=120)
    assert database.groups.waiting == 0
    assert database.numbers() == []
    assert database.groups.run(insert(2)) == 1


def test_a_transaction_has_the_time_that_the_queue_has_left(database: Database) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor(1) as threads, database.groups.alone():
        late = threads.submit(database.groups.run, insert(1))
        database.wait_for_waiting(1)
        entered = time.monotonic()
        while time.monotonic() < entered + 0.05:
            time.sleep(0.01)
    assert late.result() == 1
    first, second = database.ends_at
    assert began + 30 <= first <= second <= entered + 30


def test_a_work_runs_in_the_context_of_its_writer(database: Database) -> None:
    who: ContextVar[str] = ContextVar("who")
    counters = {name: StatementCounter() for name in "abc"}
    seen: list[str] = []

    def work(number: int) -> Work:
        def run(connection: Connection) -> None:
            seen.append(who.get())
            for each in range(number + 1):
                connection.change(INSERT, {"n": number * 10 + each})

        return run

    def submit(name: str, number: int) -> None:
        who.set(name)
        active_counter.set(counters[name])
        database.groups.run(work(number))

    begun = threading.Event()

    def lead(_: Connection) -> None:
        begun.set()
        database.wait_for_waiting(3)

    with ThreadPoolExecutor(4) as threads:
        leader = threads.submit(database.groups.run, lead)
        assert begun.wait(120)
        for number, name in enumerate("abc"):
            database.wait_for_waiting(number)
            threads.submit(submit, name, number)
    leader.result()
    assert seen == ["a", "b", "c"]
    assert [(each.transactions, each.statements) for each in counters.values()] == [(1, 1), (1, 2), (1, 3)]


def test_a_group_ends_in_time(database: Database) -> None:
    def slow(number: int) -> Work:
        def work(connection: Connection) -> object:
            time.sleep(0.03)
            return connection.change(INSERT, {"n": number})

        return work

    outcomes = database.together(*map(slow, range(5)))
    assert all(outcome.result() == 1 for outcome in outcomes)
    assert database.commits >= 2


class Interrupted(BaseException):
    pass


def test_a_writer_that_is_interrupted_leaves_the_queue(database: Database) -> None:
    def interrupt(*_: object) -> None:
        raise Interrupted

    begun = threading.Event()

    def lead(_: Connection) -> None:
        begun.set()
        database.wait_for_waiting(1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        while database.groups.waiting:
            time.sleep(0.001)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ThreadPoolExecutor(1) as threads:
            leader = threads.submit(database.groups.run, lead)
            assert begun.wait(120)
            with pytest.raises(Interrupted):
                database.groups.run(insert(1))
            leader.result(timeout=120)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert database.numbers() == []
    assert database.groups.run(insert(2)) == 1
