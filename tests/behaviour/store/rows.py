"""Rows for tests of the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias, TypeVar
from uuid import UUID

import sqlalchemy as sa
import uuid_utils.compat as uuids

from floecat.identifiers.encoding import physical_name
from floecat.identifiers.namespace import Namespace
from floecat.store import schema
from floecat.store.catalogs import accounts, catalogs, namespaces
from floecat.store.commits.commit_log import CommitLogEntry
from floecat.store.database.engine import Connection, Store
from floecat.store.entries import entry_changes, tables
from floecat.store.entries.documents import compress
from floecat.store.entries.snapshots import RefRow

__all__ = [
    "JSON",
    "NOW_MS",
    "account_ids",
    "add_catalog",
    "add_entry",
    "add_namespace",
    "at_once",
    "entry_of",
    "log_entry",
    "refs_of",
    "swap",
]

T = TypeVar("T")
Work: TypeAlias = Callable[[Connection], object]

NOW_MS = 1_790_000_000_000
JSON = b'{"format-version":2,"location":"s3://lake/t"}'
_ACCOUNT_IDS = sa.select(schema.accounts.c.id).order_by(schema.accounts.c.id)


def account_ids(conn: Connection) -> list[UUID]:
    return [row[0] for row in conn.all(_ACCOUNT_IDS)]


def add_catalog(store: Store, name: str = "main") -> catalogs.CatalogRow:
    row = catalogs.CatalogRow(
        id=uuids.uuid7(),
        account_id=uuids.uuid7(),
        name=name,
        storage_location="s3://lake",
        allowed_locations=("s3://other", "file:///data"),
        properties={"owner": "Zoë"},
        commit_version=0,
        created_at_ms=NOW_MS,
        updated_at_ms=NOW_MS,
    )
    with store.write() as conn:
        accounts.ensure(conn, row.account_id, NOW_MS)
        catalogs.insert(conn, row)
    return row


def namespace_of(catalog_id: UUID, levels: Namespace, parent_id: UUID | None) -> namespaces.NamespaceRow:
    return namespaces.NamespaceRow(
        id=uuids.uuid7(),
        catalog_id=catalog_id,
        parent_id=parent_id,
        physical_name=physical_name(levels),
        levels=levels,
        properties={},
        created_at_ms=NOW_MS,
        updated_at_ms=NOW_MS,
    )


def add_namespace(
    store: Store, catalog_id: UUID, *levels: str, parent_id: UUID | None = None
) -> namespaces.NamespaceRow:
    row = namespace_of(catalog_id, levels, parent_id)
    with store.write() as conn:
        namespaces.insert(conn, row)
    return row


def entry_of(namespace: namespaces.NamespaceRow, name: str, kind: str = "table") -> tables.EntryRow:
    return tables.EntryRow(
        id=uuids.uuid7(),
        catalog_id=namespace.catalog_id,
        namespace_id=namespace.id,
        name=name,
        kind=kind,
        object_uuid=str(uuids.uuid7()),
        location=f"s3://lake/{name}",
        metadata_location=f"s3://lake/{name}/metadata/00000.metadata.json",
        version=0,
        format_version=2,
        created_at_ms=NOW_MS,
        updated_at_ms=NOW_MS,
    )


def add_entry(
    store: Store,
    namespace: namespaces.NamespaceRow,
    name: str,
    kind: str = "table",
    document: bytes = JSON,
    table_type: str | None = None,
) -> tables.EntryRow:
    row = entry_of(namespace, name, kind)
    with store.write() as conn:
        entry_changes.insert(conn, row, compress(document), len(document), table_type=table_type)
    return row


def swap(
    conn: Connection,
    row: tables.EntryRow,
    version: int,
    metadata_location: str,
    document: bytes = JSON,
    table_type: str | None = None,
) -> bool:
    return entry_changes.swap(
        conn,
        row.id,
        version,
        metadata_location=metadata_location,
        document=compress(document),
        size_bytes=len(document),
        location=row.location,
        format_version=row.format_version,
        object_uuid=row.object_uuid,
        table_type=table_type,
        now_ms=NOW_MS + 1,
    )


def refs_of(conn: Connection, entry_id: UUID) -> list[RefRow]:
    """The refs of a table, ordered by name."""
    refs = schema.refs.c
    statement = sa.select(refs.name, refs.type, refs.snapshot_id).where(refs.entry_id == entry_id)
    return [RefRow(*row) for row in conn.all(statement.order_by(refs.name), {})]


def log_entry(name: str, operation: str = "commit") -> CommitLogEntry:
    return CommitLogEntry(
        entry_id=uuids.uuid7(),
        kind="table",
        operation=operation,
        namespace=("a", "b.c"),
        name=name,
        snapshot_id=2**62,
        metadata_location="s3://lake/1",
        previous_metadata_location=None,
        principal="anna",
    )


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """Runs `work` in threads that start together; answers what they return, by number."""
    barrier = threading.Barrier(count)

    def wait_and_work(number: int) -> T:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(wait_and_work, range(count)))


def together(store: Store, catalog_id: UUID, first: Work, *others: Work) -> list[Future[object]]:
    """Runs works so that the others wait, in their order, before the first one ends."""
    group = store._group_of(catalog_id)
    assert group is not None
    begun = threading.Event()

    def wait_for_waiting(number: int) -> None:
        deadline = time.monotonic() + 120
        while group.waiting < number:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def lead(conn: Connection) -> object:
        if not begun.is_set():  # it may run again, when the others have been run
            begun.set()
            wait_for_waiting(len(others))
        return first(conn)

    with ThreadPoolExecutor(len(others) + 1) as threads:
        outcomes = [threads.submit(store.run, lead, catalog_id=catalog_id)]
        assert begun.wait(120)
        for number, work in enumerate(others):
            wait_for_waiting(number)
            outcomes.append(threads.submit(store.run, work, catalog_id=catalog_id))
    return outcomes
