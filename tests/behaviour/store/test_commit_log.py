"""The commit log: numbers without gaps, in the order of commits."""

from __future__ import annotations

import threading
import time

import msgspec
import pytest
import uuid_utils.compat as uuids

from floecat.store.catalogs import accounts, catalogs
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.commits import commit_log
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import DuplicateKeyError, ForeignKeyError
from tests.behaviour.store.rows import NOW_MS, account_ids, add_catalog, at_once, log_entry


def test_accounts_and_catalogs(store: Store) -> None:
    first, second = add_catalog(store, "b"), add_catalog(store, "a")
    with store.write() as conn:
        assert not accounts.ensure(conn, first.account_id, NOW_MS + 1)
        twin = CatalogRow(uuids.uuid7(), first.account_id, "ä", "file:///x", (), {}, 0, 1, 2)
        catalogs.insert(conn, twin)
    with store.read() as conn:
        assert account_ids(conn) == sorted([first.account_id, second.account_id])
        assert catalogs.by_name(conn, first.account_id, "b") == first
        assert catalogs.by_name(conn, first.account_id, "B") is None
        assert catalogs.by_name(conn, second.account_id, "b") is None
        assert catalogs.get(conn, second.id) == second
        assert catalogs.list_all(conn, first.account_id) == [first, twin]
    with pytest.raises(DuplicateKeyError), store.write() as conn:
        catalogs.insert(conn, CatalogRow(uuids.uuid7(), first.account_id, "b", "s3://x", (), {}, 0, 1, 2))


def test_what_was_appended_is_read(store: Store, catalog: CatalogRow) -> None:
    entries = [log_entry("x"), log_entry("y", "drop"), log_entry("日本")]
    with store.write() as conn:
        assert list(commit_log.append(conn, catalog.id, entries[:2], NOW_MS).numbers) == [1, 2]
    with store.write() as conn:
        assert list(commit_log.append(conn, catalog.id, entries[2:], NOW_MS + 1).numbers) == [3]
    with store.read() as conn:
        rows = commit_log.read_after(conn, catalog.id, 0, 10)
        assert commit_log.read_after(conn, catalog.id, 1, 1) == rows[1:2]
        assert commit_log.read_after(conn, catalog.id, 3, 10) == []
        current = catalogs.get(conn, catalog.id)
        assert current is not None
        assert current.commit_version == 3
    assert [(row.commit_version, row.committed_at_ms) for row in rows] == [
        (1, NOW_MS), (2, NOW_MS), (3, NOW_MS + 1),
    ]  # fmt: skip
    for row, entry in zip(rows, entries, strict=True):
        for field in entry.__struct_fields__:
            assert getattr(row, field) == getattr(entry, field)


def test_metadata_files_lead_to_their_writers(store: Store, catalog: CatalogRow) -> None:
    entries = [msgspec.structs.replace(log_entry(name), metadata_location=f"s3://b/{name}") for name in "xyx"]
    with store.write() as conn:
        commit_log.append(conn, catalog.id, entries, NOW_MS)
    with store.read() as conn:
        found = commit_log.writers_of(conn, ["s3://b/x", "s3://b/none", "x" * 10_000])
    assert found == [(entries[0].entry_id, "s3://b/x"), (entries[2].entry_id, "s3://b/x")]


def test_the_earlier_metadata_files_of_an_entry(store: Store, catalog: CatalogRow) -> None:
    commits = [
        ("another", "create", 0, None),  # the files of another table, and what was in the place of this one
        ("t", "commit", 1, 0),
        ("t", "register", 2, 1),
        ("t", "commit", 3, 2),
        ("another", "commit", 9, 3),
        ("t", "rename", 3, 3),
        ("t", "commit", 4, 3),
        ("t", "drop", None, 4),
    ]
    ids = {"t": uuids.uuid7(), "another": uuids.uuid7()}

    def location(number: int | None) -> str | None:
        return None if number is None else f"s3://b/{number}"

    entries = [
        msgspec.structs.replace(
            log_entry(name, operation),
            entry_id=ids[name],
            metadata_location=location(new),
            previous_metadata_location=location(previous),
        )
        for name, operation, new, previous in commits
    ]
    with store.write() as conn:
        commit_log.append(conn, catalog.id, entries, NOW_MS)
    with store.read() as conn:
        found = commit_log.earlier_metadata_files(conn, ids["t"], "s3://b/4", 10)
        assert commit_log.earlier_metadata_files(conn, ids["t"], "s3://b/4", 1) == ["s3://b/3"]
        assert commit_log.earlier_metadata_files(conn, ids["another"], "s3://b/9", 10) == ["s3://b/3"]
        assert commit_log.earlier_metadata_files(conn, ids["t"], "s3://b/2", 10) == []
    assert found == ["s3://b/3", "s3://b/2"]


def test_catalogs_count_for_themselves(store: Store, catalog: CatalogRow) -> None:
    other = add_catalog(store, "other")
    for each in (catalog, other, catalog):
        store.run(lambda conn, each=each: commit_log.append(conn, each.id, [log_entry("t")], NOW_MS))  # type: ignore[misc]
    with store.read() as conn:
        assert len(commit_log.read_after(conn, catalog.id, 0, 10)) == 2
        assert len(commit_log.read_after(conn, other.id, 0, 10)) == 1


def test_a_log_needs_its_catalog(store: Store) -> None:
    with pytest.raises(ForeignKeyError), store.write() as conn:
        commit_log.append(conn, uuids.uuid7(), [log_entry("t")], NOW_MS)


def test_a_rolled_back_commit_leaves_no_gap(store: Store, catalog: CatalogRow) -> None:
    def work(conn: Connection) -> None:
        commit_log.append(conn, catalog.id, [log_entry("t")] * 5, NOW_MS)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.run(work)
    with store.write() as conn:
        assert list(commit_log.append(conn, catalog.id, [log_entry("t")], NOW_MS).numbers) == [1]


def test_a_reader_never_misses_a_commit(store: Store, catalog: CatalogRow) -> None:
    """Whoever reads up to n while others commit has seen every number up to n."""
    writing = threading.Event()
    writing.set()

    def write(number: int) -> None:
        for step in range(8):
            count = 1 + (number + step) % 3

            def work(conn: Connection, count: int = count) -> None:
                commit_log.append(conn, catalog.id, [log_entry(f"{number}")] * count, NOW_MS)
                time.sleep(0.001)  # between the number and the commit

            store.run(work)

    def read(_: int) -> list[int]:
        seen: list[int] = []
        while True:
            last_look = not writing.is_set()
            with store.read() as conn:
                rows = commit_log.read_after(conn, catalog.id, seen[-1] if seen else 0, 7)
            seen += [row.commit_version for row in rows]
            if last_look and not rows:
                return seen

    def work(number: int) -> list[int]:
        if number < 2:
            return read(number)
        write(number)
        return []

    def stop_when_done() -> None:
        while True:
            with store.read() as conn:
                row = catalogs.get(conn, catalog.id)
            assert row is not None
            if row.commit_version >= expected:
                writing.clear()
                return
            time.sleep(0.01)

    expected = sum(1 + (number + step) % 3 for number in range(2, 8) for step in range(8))
    stopper = threading.Thread(target=stop_when_done)
    stopper.start()
    first, second, *_ = at_once(8, work)
    stopper.join()
    assert first == second == list(range(1, expected + 1))
