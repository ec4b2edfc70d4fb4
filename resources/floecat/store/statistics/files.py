"""Sidecars that hold the statistics of each data file, under the deletes that applied to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT, insert_if_absent, upsert
from floecat.store.statistics.schema import artifact_owners as _owners
from floecat.store.statistics.schema import file_statistics as _files
from floecat.store.statistics.schema import snapshot_captures as _captures
from floecat.store.statistics.schema import statistics_sidecars as _sidecars

__all__ = [
    "FILES_AT_ONCE",
    "SidecarRow",
    "forget",
    "is_needed",
    "mark",
    "may_have_any",
    "needed",
    "put",
    "put_unused",
    "retire",
    "sidecars_of",
]

FILES_AT_ONCE: Final = 1_000
"""Most files, or sidecars, of one statement."""


class SidecarRow(msgspec.Struct, frozen=True):
    """A file with the statistics and sketches of a group of data files."""

    path: str
    result_id: str
    """Id of the submission that brought it."""
    columns: str
    """JSON: type by field id."""
    files: int
    size_bytes: int
    unused_since_ms: int | None = None
    """Time when a capture of the current snapshot first did without it; `None` while it is needed."""


def put(conn: Connection, entry_id: UUID, sidecar: SidecarRow, file_keys: Sequence[str]) -> bool:
    """Adds a sidecar, which holds the statistics of these files from now on.

    Returns:
        False if its result was added before; nothing is changed then.

    Raises:
        ForeignKeyError: the entry does not exist.
    """
    if conn.change(_INSERT, {"entry_id": entry_id, **msgspec.structs.asdict(sidecar)}) == 0:
        return False
    conn.change_many(
        _PUT, [{"entry_id": entry_id, "file_key": key, "sidecar": sidecar.path} for key in file_keys]
    )
    return True


def put_unused(conn: Connection, entry_id: UUID, paths: Sequence[str], now_ms: int) -> None:
    """Adds files that nothing needs any more, to be retired."""
    rows = [SidecarRow(path, path, "{}", 0, 0, now_ms) for path in paths]
    if rows:
        conn.change_many(_INSERT, [{"entry_id": entry_id, **msgspec.structs.asdict(row)} for row in rows])


def sidecars_of(conn: Connection, entry_id: UUID, file_keys: Sequence[str]) -> dict[str, SidecarRow]:
    """The sidecars of some files of a table, at most `FILES_AT_ONCE`, by file key."""
    rows: dict[str, SidecarRow] = {}
    found: dict[str, SidecarRow] = {}
    for key, path, *values in conn.all(_SIDECARS, {"of_entry": entry_id, "keys": list(file_keys)}):
        if path not in rows:
            rows[path] = SidecarRow(path, *values)
        found[key] = rows[path]
    return found


def needed(conn: Connection, entry_id: UUID, after: str, limit: int) -> list[str]:
    """Paths of sidecars that are needed, in order, above one."""
    return [row[0] for row in conn.all(_NEEDED, {"of_entry": entry_id, "after": after, "limit": limit})]


def is_needed(conn: Connection, entry_id: UUID, path: str) -> bool:
    """Whether a sidecar is there, and needed."""
    return conn.first(_IS_NEEDED, {"of_entry": entry_id, "path": path}) is not None


def may_have_any(conn: Connection, entry_id: UUID) -> bool:
    """Whether the catalog may have written files about a table: one without captures has none."""
    return conn.first(_MAY_HAVE_ANY, {"of_entry": entry_id}) is not None


def mark(conn: Connection, entry_id: UUID, paths: Sequence[str], unused_since_ms: int | None) -> None:
    """Notes that sidecars are not needed since a time, or are needed."""
    for some in _parts(paths):
        conn.change(_MARK, {"of_entry": entry_id, "paths": some, "since_ms": unused_since_ms})


def retire(conn: Connection, entry_id: UUID, before_ms: int) -> list[str]:
    """Deletes the rows of sidecars that were not needed since before a time; returns their paths."""
    paths = [row[0] for row in conn.all(_UNUSED, {"of_entry": entry_id, "before_ms": before_ms})]
    if paths:
        forget(conn, entry_id, paths)
    return paths


def forget(conn: Connection, entry_id: UUID, paths: Sequence[str]) -> None:
    """Deletes the rows of sidecars, and of the files in them."""
    for some in _parts(paths):
        for statement in (_FORGET_FILES, _FORGET):
            conn.change(statement, {"of_entry": entry_id, "paths": some})


def _parts(paths: Sequence[str]) -> Iterator[list[str]]:
    """A table may have more sidecars than a statement takes parameters."""
    for start in range(0, len(paths), FILES_AT_ONCE):
        yield list(paths[start : start + FILES_AT_ONCE])


_NAMES: Final = SidecarRow.__struct_fields__
_COLUMNS: Final = tuple(_sidecars.c[name] for name in _NAMES)
_OF_ENTRY: Final = _sidecars.c.entry_id == sa.bindparam("of_entry")
_INSERT: Final = insert_if_absent(_sidecars, _sidecars.c.entry_id, _sidecars.c.result_id)
_PUT: Final = upsert(_files, _files.c.entry_id, _files.c.file_key)
_SIDECARS: Final = (
    sa.select(_files.c.file_key, *_COLUMNS)
    .join(_sidecars, sa.and_(_sidecars.c.entry_id == _files.c.entry_id, _sidecars.c.path == _files.c.sidecar))
    .where(
        _files.c.entry_id == sa.bindparam("of_entry"),
        _files.c.file_key.in_(sa.bindparam("keys", expanding=True)),
    )
)
_NEEDED: Final = (
    sa.select(_sidecars.c.path)
    .where(_OF_ENTRY, _sidecars.c.unused_since_ms.is_(None), _sidecars.c.path > sa.bindparam("after"))
    .order_by(_sidecars.c.path)
    .limit(LIMIT)
)
_IS_NEEDED: Final = sa.select(_sidecars.c.path).where(
    _OF_ENTRY, _sidecars.c.path == sa.bindparam("path"), _sidecars.c.unused_since_ms.is_(None)
)
_MAY_HAVE_ANY: Final[sa.CompoundSelect[str]] = sa.union_all(
    *(
        sa.select(sa.literal_column("1", sa.Text())).where(
            rows.c.entry_id == sa.bindparam("of_entry", type_=sa.Uuid())
        )
        for rows in (_captures, _sidecars, _owners)
    )
).limit(1)
_PATHS: Final[sa.BindParameter[str]] = sa.bindparam("paths", expanding=True)
_MARK: Final = (
    sa.update(_sidecars)
    .where(_OF_ENTRY, _sidecars.c.path.in_(_PATHS))
    .values(unused_since_ms=sa.bindparam("since_ms", type_=sa.BigInteger()))
)
_UNUSED: Final = sa.select(_sidecars.c.path).where(
    _OF_ENTRY, _sidecars.c.unused_since_ms < sa.bindparam("before_ms")
)
_FORGET: Final = sa.delete(_sidecars).where(_OF_ENTRY, _sidecars.c.path.in_(_PATHS))
_FORGET_FILES: Final = sa.delete(_files).where(
    _files.c.entry_id == sa.bindparam("of_entry"), _files.c.sidecar.in_(_PATHS)
)
