"""Which sidecar holds the statistics of each data file, under the deletes that applied to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import insert_if_absent, upsert
from floecat.store.statistics.schema import file_statistics as _files
from floecat.store.statistics.schema import statistics_sidecars as _sidecars

__all__ = ["SidecarRow", "by_result", "forget", "list_sidecars", "put", "retire", "sidecars_of", "touch"]


class SidecarRow(msgspec.Struct, frozen=True, kw_only=True):
    """A file with the statistics and sketches of a group of data files."""

    path: str
    result_id: str
    """Of the submission that brought it."""
    columns: str
    """JSON: type by field id."""
    files: int
    size_bytes: int
    used_at_ms: int
    """When a capture needed it last, to within a day."""


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


def by_result(conn: Connection, entry_id: UUID, result_id: str) -> SidecarRow | None:
    """The sidecar that a submission brought."""
    row = conn.first(_BY_RESULT, {"of_entry": entry_id, "of_result": result_id})
    return None if row is None else SidecarRow(**dict(zip(_NAMES, row, strict=True)))


def sidecars_of(conn: Connection, entry_id: UUID) -> Mapping[str, str]:
    """The path of the sidecar of each file of a table, by file key."""
    return {row[0]: row[1] for row in conn.all(_FILES, {"of_entry": entry_id})}


def list_sidecars(conn: Connection, entry_id: UUID) -> list[SidecarRow]:
    """The sidecars of a table."""
    rows = conn.all(_LIST, {"of_entry": entry_id})
    return [SidecarRow(**dict(zip(_NAMES, row, strict=True))) for row in rows]


def touch(conn: Connection, entry_id: UUID, paths: Sequence[str], now_ms: int) -> None:
    """Notes that a capture needs sidecars."""
    for some in _parts(paths):
        conn.change(_TOUCH, {"of_entry": entry_id, "paths": some, "now_ms": now_ms})


def retire(conn: Connection, entry_id: UUID, before_ms: int) -> list[str]:
    """Deletes the rows of sidecars that were last needed before a time; returns their paths."""
    paths = [row[0] for row in conn.all(_STALE, {"of_entry": entry_id, "before_ms": before_ms})]
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
    for start in range(0, len(paths), _AT_ONCE):
        yield list(paths[start : start + _AT_ONCE])


_AT_ONCE: Final = 1_000
_NAMES: Final = SidecarRow.__struct_fields__
_COLUMNS: Final = tuple(_sidecars.c[name] for name in _NAMES)
_OF_ENTRY: Final = _sidecars.c.entry_id == sa.bindparam("of_entry")
_INSERT: Final = insert_if_absent(_sidecars, _sidecars.c.entry_id, _sidecars.c.result_id)
_PUT: Final = upsert(_files, _files.c.entry_id, _files.c.file_key)
_BY_RESULT: Final = sa.select(*_COLUMNS).where(_OF_ENTRY, _sidecars.c.result_id == sa.bindparam("of_result"))
_FILES: Final = sa.select(_files.c.file_key, _files.c.sidecar).where(
    _files.c.entry_id == sa.bindparam("of_entry")
)
_LIST: Final = sa.select(*_COLUMNS).where(_OF_ENTRY)
_PATHS: Final[sa.BindParameter[str]] = sa.bindparam("paths", expanding=True)
_TOUCH: Final = (
    sa.update(_sidecars)
    .where(_OF_ENTRY, _sidecars.c.path.in_(_PATHS))
    .values(used_at_ms=sa.bindparam("now_ms"))
)
_STALE: Final = sa.select(_sidecars.c.path).where(
    _OF_ENTRY, _sidecars.c.used_at_ms < sa.bindparam("before_ms")
)
_FORGET: Final = sa.delete(_sidecars).where(_OF_ENTRY, _sidecars.c.path.in_(_PATHS))
_FORGET_FILES: Final = sa.delete(_files).where(
    _files.c.entry_id == sa.bindparam("of_entry"), _files.c.sidecar.in_(_PATHS)
)
