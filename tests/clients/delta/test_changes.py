"""Tables that change while they are read, and what the catalog writes for their readers."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

from tests.clients.delta.lake import ENGINES, DeltaLake, table_name
from tests.clients.delta.oracles import oracle_rows
from tests.clients.delta.rows import check
from tests.clients.delta.writer import DeltaWriter
from tests.delta_tables import writable_copy

_SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
_COMMITS = 40
_ARTIFACT = re.compile(r"snap-\d+-compat\.avro|\d+-compat-([md]\d+\.avro|pd-[0-9a-f]+\.parquet)")


def _rows(start: int, count: int = 6) -> pa.Table:
    ids = range(start, start + count)
    return pa.table({"id": ids, "p": [f"p{each % 2}" for each in ids]}, schema=_SCHEMA)


def _artifacts(folder: Path) -> dict[str, str]:
    """The files that were written for readers, each with the hash of its bytes.

    Without the metadata of the table, which has an id of its own.
    """
    files = sorted((folder / "metadata").iterdir())
    kept = [file for file in files if not file.name.endswith(".metadata.json")]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in kept}


def test_new_versions_are_seen(delta_lake: DeltaLake, table_folder: Path) -> None:
    written = DeltaWriter(table_folder / "t", _SCHEMA, partitions=["p"])
    written.append(_rows(0))
    table = delta_lake.register("changes", "seen", written.folder)
    for step in range(1, 6):
        if step % 2:
            written.delete({0: [0]} if step == 1 else {len(written.files) - 1: [1]})
        else:
            written.append(_rows(step * 10))
        for engine in ("pyiceberg", "duckdb"):
            check(ENGINES[engine](delta_lake, table, None), written.rows[written.version])
    snapshots = [each["snapshot-id"] for each in delta_lake.metadata(table)["snapshots"]]
    assert snapshots == list(range(snapshots[0], written.version + 1))
    for version in snapshots:
        check(ENGINES["pyiceberg"](delta_lake, table, version), written.rows[version])


def test_every_read_of_a_table_that_is_written_is_one_version(
    delta_lake: DeltaLake, table_folder: Path
) -> None:
    written = DeltaWriter(table_folder / "t", _SCHEMA, partitions=["p"])
    written.append(_rows(0))
    table = delta_lake.register("changes", "written", written.folder)

    def write() -> None:
        for step in range(1, _COMMITS):
            if step % 3 == 1:
                written.delete({0: [step % 3], len(written.files) - 1: [step % 2]})
            elif step % 3 == 2 and len(written.files) > 4:
                written.remove([1])
            else:
                written.append(_rows(step * 10))

    writer = Thread(target=write)
    writer.start()
    seen = set()
    while writer.is_alive() or max(seen, default=-1) < written.version:
        found = delta_lake.pyiceberg(table)
        snapshot = found.current_snapshot()
        assert snapshot is not None
        check(found.scan().to_arrow(), written.rows[snapshot.snapshot_id])
        seen.add(snapshot.snapshot_id)
    writer.join()
    assert len(seen) > 1


@pytest.mark.parametrize("name", ["golden/dv-with-columnmapping/delta", "made/sail-dv_plain"])
def test_the_same_files_are_written_again(delta_lake: DeltaLake, table_folder: Path, name: str) -> None:
    """Their names and bytes depend on the Delta table alone."""
    folder = writable_copy(name, table_folder / "t")
    first = delta_lake.register("changes", f"{table_name(name)}_first", folder)
    check(ENGINES["pyiceberg"](delta_lake, first, None), oracle_rows(name))
    before = _artifacts(folder)
    assert before
    shutil.rmtree(folder / "metadata")
    second = delta_lake.register("changes", f"{table_name(name)}_second", folder)
    check(ENGINES["pyiceberg"](delta_lake, second, None), oracle_rows(name))
    assert _artifacts(folder) == before


@pytest.mark.parametrize("name", ["golden/dv-with-columnmapping/delta", "made/sail-dv_plain"])
def test_files_that_exist_are_used(delta_lake: DeltaLake, table_folder: Path, name: str) -> None:
    folder = writable_copy(name, table_folder / "t")
    first = delta_lake.register("changes", f"{table_name(name)}_made", folder)
    assert delta_lake.metadata(first)
    made = {name: (folder / "metadata" / name).stat().st_mtime_ns for name in _artifacts(folder)}
    second = delta_lake.register("changes", f"{table_name(name)}_used", folder)
    check(ENGINES["pyiceberg"](delta_lake, second, None), oracle_rows(name))
    used = {name: (folder / "metadata" / name).stat().st_mtime_ns for name in _artifacts(folder)}
    assert used == made


def test_files_keep_to_their_names(delta_lake: DeltaLake, table_folder: Path) -> None:
    folder = writable_copy("made/sail-dv_plain", table_folder / "t")
    table = delta_lake.register("changes", "names", folder)
    assert delta_lake.metadata(table)
    assert [name for name in _artifacts(folder) if not _ARTIFACT.fullmatch(name)] == []
