"""Finding out what became of a change whose COMMIT was not answered."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
import sqlalchemy as sa

from floecat.entries.calls import Call
from floecat.errors import CommitStateUnknownError, FloecatError, StoreUnavailableError
from floecat.runtime import Kernel
from floecat.store.commits import commit_log
from floecat.store.database.engine import Connection
from floecat.store.database.errors import StoreFaultError
from tests.behaviour.catalog.changes import create, set_property, table
from tests.behaviour.catalog.conftest import with_key
from tests.faults.operations import OPERATIONS
from tests.faults.store_operations import STORE_OPERATIONS
from tests.services.lost_answers import lose_answers

CHANGES = {name: each for name, each in OPERATIONS.items() if name != "stage"} | STORE_OPERATIONS
"""All that a client can change and then see.

Of files that are registered the log knows from the time before the drop, or from before a newer version: that
must confirm nothing.
"""


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_was_made_is_answered_as_ever(kernel: Kernel, call: Call, name: str) -> None:
    operation = CHANGES[name]
    usual = operation.act(kernel, call, "-usual", operation.prepare(kernel, call, "-usual"))
    context = operation.prepare(kernel, call, "-lost")
    with lose_answers(kernel.store, applied=True):
        answer = operation.act(kernel, call, "-lost", context)
    assert type(answer) is type(usual)
    assert operation.is_done(kernel, call, "-lost", context)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_is_not_found_is_unknown_and_can_be_tried_again(
    kernel: Kernel, call: Call, name: str
) -> None:
    operation = CHANGES[name]
    context = operation.prepare(kernel, call, "")
    with lose_answers(kernel.store, applied=False), pytest.raises(CommitStateUnknownError):
        operation.act(kernel, call, "", context)
    assert not operation.is_done(kernel, call, "", context)
    operation.act(kernel, call, "", context)
    assert operation.is_done(kernel, call, "", context)


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_in_doubt_has_one_effect_under_its_key(
    kernel: Kernel, call: Call, name: str, applied: bool
) -> None:
    operation = CHANGES[name]
    context = operation.prepare(kernel, call, "")
    keyed = with_key(call, "0190a1b2-0000-7000-8000-00000000000b")
    with lose_answers(kernel.store, applied=applied, after=1):  # the claim is the first transaction
        if applied:
            operation.act(kernel, keyed, "", context)
        else:
            with pytest.raises(CommitStateUnknownError):
                operation.act(kernel, keyed, "", context)
    assert operation.is_done(kernel, call, "", context) == applied
    # made again it would be refused: the name is taken, or there is nothing left to drop
    for _ in range(2):
        operation.act(kernel, keyed, "", context)
    assert operation.is_done(kernel, call, "", context)


@pytest.mark.parametrize("applied", [True, False])
def test_what_changes_nothing_is_never_in_doubt_once_it_was_made(
    kernel: Kernel, call: Call, applied: bool
) -> None:
    create(kernel, call, "t")
    keyed = with_key(call, "0190a1b2-0000-7000-8000-00000000000c")
    kernel.commits.tables.commit(call, set_property("t", "mark", "1"))
    with lose_answers(kernel.store, applied=applied, after=1):
        kernel.commits.tables.commit(keyed, set_property("t", "mark", "1"))
    with lose_answers(kernel.store, applied=True):
        kernel.catalog.tables.rename(call, table("t"), table("t"))
    with lose_answers(kernel.store, applied=True):
        kernel.catalog.namespaces.update_properties(call, ("ns",), ["missing"], {})


@pytest.mark.parametrize("fault", [StoreUnavailableError, StoreFaultError])
def test_a_store_that_fails_while_one_looks_is_asked_again(
    kernel: Kernel, call: Call, fault: type[FloecatError]
) -> None:
    create(kernel, call, "t")
    looks: list[int] = []
    read = kernel.store.read

    def away_twice() -> AbstractContextManager[Connection]:
        looks.append(1)
        if len(looks) <= 2:
            raise fault("The store is away (injected)")
        return read()

    kernel.store.read = away_twice  # type: ignore[method-assign]
    try:
        with lose_answers(kernel.store, applied=True):
            kernel.purge.drops.drop(call, table("t"), purge=False)
    finally:
        del kernel.store.read
    assert len(looks) == 3


def test_a_commit_that_is_interrupted_after_it_was_made_keeps_its_files(kernel: Kernel, call: Call) -> None:
    create(kernel, call, "t")
    run = kernel.store.run

    def interrupted(work: Callable[[Connection], object], *, catalog_id: UUID | None = None) -> None:
        run(work, catalog_id=catalog_id)
        raise KeyboardInterrupt

    kernel.store.run = interrupted  # type: ignore[assignment, method-assign]
    try:
        with pytest.raises(KeyboardInterrupt):
            kernel.commits.tables.commit(call, set_property("t", "mark", "1"))
    finally:
        del kernel.store.run
    loaded = kernel.catalog.tables.load(call, table("t"))
    assert b'"mark"' in loaded.metadata
    assert Path(str(loaded.metadata_location).removeprefix("file://")).exists()


@pytest.mark.parametrize("applied", [True, False])
def test_a_key_whose_claim_was_in_doubt_is_not_held_for_a_minute(
    kernel: Kernel, call: Call, applied: bool
) -> None:
    create(kernel, call, "t")
    keyed = with_key(call, "0190a1b2-0000-7000-8000-000000000009")
    began = time.monotonic()
    with lose_answers(kernel.store, applied=applied):  # the claim is the first transaction
        try:
            kernel.commits.tables.commit(keyed, set_property("t", "mark", "1"))
        except CommitStateUnknownError:
            kernel.commits.tables.commit(keyed, set_property("t", "mark", "1"))
    assert time.monotonic() - began < 50
    assert b'"mark"' in kernel.catalog.tables.load(call, table("t")).metadata


def test_a_load_that_publishes_a_delta_version_is_answered(kernel: Kernel, call: Call) -> None:
    context = STORE_OPERATIONS["register a Delta table"].prepare(kernel, call, "")
    kernel.delta.registration.register(call, ("ns",), "d", str(context["folder"]), read=False)
    # the lease is the first transaction
    with lose_answers(kernel.store, applied=True, after=1):
        loaded = kernel.catalog.tables.load(call, table("d"))
    assert msgspec.json.decode(loaded.metadata)["current-snapshot-id"] == 1
    with kernel.store.read() as conn:
        log = commit_log.read_after(conn, call.catalog.id, 0, 100)
    assert [row.operation for row in log if row.name == "d"] == ["register", "refresh"]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("applied", [True, False])
def test_a_group_whose_commit_is_not_answered_is_confirmed_for_each_member(
    kernel: Kernel, call: Call, tmp_path: Path, applied: bool
) -> None:
    names = [f"t{number}" for number in range(8)]
    for name in names:
        create(kernel, call, name)
    before = metadata_files(tmp_path)

    def commit(name: str) -> bool:
        try:
            kernel.commits.tables.commit(call, set_property(name, "mark", "1"))
        except CommitStateUnknownError:
            return False
        return True

    kernel.store.close()  # so that the next transaction opens a connection, which is replaced
    with ThreadPoolExecutor(len(names)) as threads, broken_commits(applied=applied, after=1) as commits:
        with kernel.store.write():
            outcomes = [threads.submit(commit, name) for name in names]
            # most wait for the store when their files are there; two entries can share a lock, and take turns
            wait_until(lambda: len(metadata_files(tmp_path) - before) > len(names) // 2)
        made = [outcome.result() for outcome in outcomes]
    assert 2 <= len(commits) < len(names), "no transaction was shared"
    marked = [b'"mark"' in kernel.catalog.tables.load(call, table(name)).metadata for name in names]
    assert made == marked
    assert all(made) == applied
    with kernel.store.read() as conn:
        log = commit_log.read_after(conn, call.catalog.id, 0, 100)
    assert [row.commit_version for row in log] == list(range(1, len(log) + 1))
    assert len(log) == len(names) + sum(made)
    assert len(metadata_files(tmp_path) - before) == len(names)


def metadata_files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.metadata.json"))


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def broken_commits(*, applied: bool, after: int) -> Iterator[list[str]]:
    """The disk fails in the COMMIT behind the first ones, before it is done or when it is; yields all."""
    commits: list[str] = []

    class Broken:
        """A connection of the driver."""

        def __init__(self, connection: sqlite3.Connection) -> None:
            self.connection = connection

        def __getattr__(self, name: str) -> Any:
            return getattr(self.connection, name)

        def commit(self) -> None:
            commits.append("COMMIT")
            fails = len(commits) == after + 1
            if applied or not fails:
                self.connection.commit()
            if fails:
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR
                raise error

    def replace(connection: sqlite3.Connection, _record: object, lent: Any) -> None:
        lent.dbapi_connection = Broken(connection)

    sa.event.listen(sa.Pool, "checkout", replace)
    try:
        yield commits
    finally:
        sa.event.remove(sa.Pool, "checkout", replace)
