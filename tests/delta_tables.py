"""Delta tables that other engines wrote, with the rows that are known to be in them.

They are packed in `tests/data`, whose README says where they come from. A machine unpacks them once, into a
folder of its temporary directory that is named by the hash of the archive; tests only read them there.
`writable_copy` is for those that change a table or let the catalog write beside one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

__all__ = [
    "FIRST_VERSION_AT_S",
    "TableFacts",
    "all_tables",
    "delta_table",
    "delta_tables_folder",
    "expected_rows",
    "large_table",
    "table_facts",
    "writable_copy",
]

FIRST_VERSION_AT_S = 1_704_067_200
"""When version 0 of each table was last modified, in seconds since 1970; version n has n seconds more."""

_DATA = Path(__file__).parent / "data"
_TABLES = _DATA / "delta-tables.tar.zst"
_LARGE_TABLE = _DATA / "300k-add-files-100-col-partitioned.tar.zst"
_VERSION = re.compile(r"(\d{20})\.")

# Absolute paths in logs; the archive has a placeholder there. `p` deletion vectors name a URI.
_TABLE_PLACE = "@TABLE@"
_FOLDER_PLACE = "{{FOLDER_WITH_SPECIAL_CHAR}}"
_SPECIAL_FOLDER = "folder&with%special char"


_NAMES_IN_INDEX = {"name": "table", "expected_count": "expected", "deletion_vectors": "dv"}


class TableFacts(msgspec.Struct, frozen=True, rename=_NAMES_IN_INDEX):
    """What is known about a table from its log, and from reading it with others."""

    name: str
    versions: int
    """How many commits the log has."""
    deletion_vectors: int
    """How many files were added with one, in all commits."""
    expected_count: int | None
    """Rows of the newest version by Spark."""
    read: Mapping[str, int | str]
    """Rows of the newest version by each reader, or what it said when it failed."""


def delta_tables_folder() -> Path:
    """The folder below which all tables are, but the large one."""
    return _unpacked(_TABLES)


def delta_table(name: str) -> Path:
    """The folder of a table; for reading only.

    Args:
        name: as in the index, e.g. `golden/dv-with-columnmapping/delta` or `kernel-rs/table-with-dv-small`.

    Raises:
        LookupError: there is no such table.
    """
    folder = delta_tables_folder() / name
    if not (folder / "_delta_log").is_dir():
        raise LookupError(f"There is no Delta table {name} in {_TABLES.name}")
    return folder


def expected_rows(name: str) -> pa.Table | None:
    """The rows of the newest version as Spark wrote them down, for a table that has them.

    Returns:
        The rows in no particular order, or None.
    """
    folder = delta_tables_folder() / name
    expected = folder.parent / "expected"
    if folder.name != "delta" or not expected.is_dir():
        return None
    files = sorted(expected.rglob("*.parquet"))
    return pa.concat_tables([pq.ParquetFile(file).read() for file in files], promote_options="default")


@cache
def all_tables() -> tuple[TableFacts, ...]:
    """All tables but the large one, by name."""
    index = (delta_tables_folder() / "index.json").read_bytes()
    return tuple(sorted(msgspec.json.decode(index, type=list[TableFacts]), key=lambda facts: facts.name))


def table_facts(name: str) -> TableFacts:
    """What is known about one table.

    Raises:
        LookupError: there is no such table.
    """
    for facts in all_tables():
        if facts.name == name:
            return facts
    raise LookupError(f"There is no Delta table {name} in {_TABLES.name}")


def large_table() -> Path:
    """The folder of a table with 300,000 files and statistics of 100 columns; it has a log and no data."""
    return _unpacked(_LARGE_TABLE) / "300k-add-files-100-col-partitioned"


def writable_copy(name: str, target: Path) -> Path:
    """Copies a table, with its times of modification, so that it can be changed.

    Args:
        name: as of `delta_table`.
        target: the folder that becomes the table; it does not exist yet.

    Returns:
        `target`.
    """
    source = delta_table(name)
    shutil.copytree(source, target)
    for log_file in (target / "_delta_log").glob("*.json"):
        _replace_in(log_file, {_uri(source): _uri(target), _path(source): _path(target)})
    return target


@cache
def _unpacked(archive: Path) -> Path:
    data = archive.read_bytes()
    name = f"floecat-{archive.name.split('.')[0]}-{os.getuid()}-{hashlib.sha256(data).hexdigest()[:16]}"
    folder = Path(tempfile.gettempdir()) / name
    if not folder.is_dir():
        # Several test processes may be here at once: each unpacks for itself, and the first one's is kept.
        own = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        _unpack(data, own, folder)
        try:
            own.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
            shutil.rmtree(own)
    return folder


def _unpack(data: bytes, own: Path, folder: Path) -> None:
    """Unpacks into `own`, which becomes `folder`."""
    with (
        zstandard.ZstdDecompressor().stream_reader(data) as tar,
        tarfile.open(fileobj=tar, mode="r|") as files,
    ):
        files.extractall(own, filter="data")
    for log in own.rglob("_delta_log"):
        for file in log.rglob("*"):
            version = _VERSION.match(file.name)
            at_s = FIRST_VERSION_AT_S + (int(version[1]) if version else 0)
            os.utime(file, (at_s, at_s))
        final = folder / log.parent.relative_to(own)
        special = {_TABLE_PLACE: str(final), _FOLDER_PLACE: _path(final / _SPECIAL_FOLDER)}
        for file in log.glob("*.json"):
            _replace_in(file, special)


def _replace_in(file: Path, replacements: Mapping[str, str]) -> None:
    text = changed = file.read_bytes()
    for old, new in replacements.items():
        changed = changed.replace(old.encode(), new.encode())
    if changed != text:
        times = file.stat()
        file.write_bytes(changed)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def _uri(folder: Path) -> str:
    return folder.as_uri()


def _path(folder: Path) -> str:
    """The path as it stands in a URI."""
    return quote(str(folder))
