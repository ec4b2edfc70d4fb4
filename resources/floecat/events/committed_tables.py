"""Describes tables as commits left them, from the store where it can and from metadata files where it must.

The store holds the current document of a table only; what earlier commits wrote is in their metadata files.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeAlias
from uuid import UUID

import msgspec

from floecat.errors import FloecatError
from floecat.events.table_description import TableDescription, describe
from floecat.iceberg.normalization import read_metadata_file
from floecat.settings.limits import LimitSettings
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.database.engine import Connection, Store
from floecat.store.entries import documents, tables
from floecat.working_memory import WorkingMemory

__all__ = ["Answer", "CommittedTable", "CommittedTables", "MetadataReader"]

Answer: TypeAlias = TableDescription | str
"""A description, or why there is none."""

_READERS = 8
_DEFAULT_LIMITS = LimitSettings()
_log = logging.getLogger(__name__)


class MetadataReader(Protocol):
    """Reads metadata files."""

    def read(self, storage: CatalogStorage, location: str, /) -> bytes:
        """The JSON document at a location, decompressed; raises a `FloecatError` if it cannot."""
        ...


class CommittedTable(msgspec.Struct, frozen=True):
    """A table after one of its commits."""

    entry_id: UUID
    metadata_location: str
    """Metadata file that the commit wrote."""
    storage: CatalogStorage
    """Storage of its files."""


class CommittedTables:
    """Describes tables; for one that cannot be described the answer is the reason, and the others go on."""

    def __init__(
        self,
        store: Store,
        files: MetadataReader,
        *,
        time_budget_s: float = 20.0,
        memory_bytes: int = _DEFAULT_LIMITS.working_memory_bytes,
    ) -> None:
        """Takes where documents are.

        Args:
            store: holds the current documents.
            files: reads all of them.
            time_budget_s: how long one call of `describe` waits for storage in all.
            memory_bytes: of documents that are read at a time; a larger one is read alone.
        """
        self._store = store
        self._files = files
        self._time_budget_s = time_budget_s
        self._memory = WorkingMemory(memory_bytes, wait_ms=int(1000 * time_budget_s))

    def describe(self, commits: Sequence[CommittedTable]) -> list[Answer]:
        """Descriptions in the order of the commits; those of one table must be in the order of its history.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        if not commits:
            return []
        newest = {commit.entry_id: index for index, commit in enumerate(commits)}
        answers: dict[int, Answer] = {}
        with self._store.read() as conn:
            for index in newest.values():
                answer = _from_store(conn, commits[index])
                if answer is not None:
                    answers[index] = answer
        older = {index: commit for index, commit in enumerate(commits) if index not in answers}
        answers.update(self._from_files(older))
        return [answers[index] for index in range(len(commits))]

    def _from_files(self, commits: Mapping[int, CommittedTable]) -> dict[int, Answer]:
        if not commits:
            return {}
        readers = ThreadPoolExecutor(_READERS, thread_name_prefix="metadata-file")
        try:
            started = {index: readers.submit(self._from_file, commit) for index, commit in commits.items()}
            deadline = time.monotonic() + self._time_budget_s
            return {index: self._answer(answer, deadline) for index, answer in started.items()}
        finally:
            # a call to storage that hangs ends by its own time-out, and is not waited for
            readers.shutdown(wait=False, cancel_futures=True)

    def _answer(self, answer: Future[Answer], deadline: float) -> Answer:
        try:
            return answer.result(timeout=max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return f"Storage did not give the metadata file within {self._time_budget_s:g} s"

    def _from_file(self, commit: CommittedTable) -> Answer:
        location = commit.metadata_location
        with self._memory.work():
            return _described(location, lambda: self._files.read(commit.storage, location))


def _from_store(conn: Connection, commit: CommittedTable) -> Answer | None:
    """The answer from the current document; `None` if another commit followed or the table is gone."""
    if not _is_current(conn, commit):
        return None
    stored = tables.document(conn, commit.entry_id)
    # these are statements of their own: a commit in between has put its document in the place of this one
    if stored is None or not _is_current(conn, commit):
        return None
    return _described(commit.metadata_location, lambda: documents.decompress(stored))


def _is_current(conn: Connection, commit: CommittedTable) -> bool:
    row = tables.get(conn, commit.entry_id)
    return row is not None and row.metadata_location == commit.metadata_location


def _described(location: str, document: Callable[[], bytes]) -> Answer:
    try:
        return describe(read_metadata_file(document()))
    except FloecatError as error:
        return error.message
    except Exception:  # noqa: BLE001 - an unexpected document must not hold up the log of all tables
        _log.exception("cannot describe the table of metadata file %s", location)
        return f"Cannot read metadata file {location}"
