"""Orphan files over a kernel, with tables as engines write them (case O27)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import pytest
from msgspec import Raw

from floecat.auth.principals import Principal
from floecat.commits.commit import CreateTable
from floecat.commits.view_commits import CreateView
from floecat.entries.calls import Call
from floecat.errors import BadRequestError, FloecatError, UnprocessableError, UnsupportedOperationError
from floecat.fileio.base import FileEntry
from floecat.identifiers.namespace import TableIdentifier
from floecat.purge.orphans.needed_files import NeededFilesReader
from floecat.purge.orphans.orphan_files import OrphanFiles
from floecat.purge.orphans.orphan_jobs import OrphanJobs
from floecat.purge.orphans.orphan_run import OrphanProgress, OrphanReport
from floecat.purge.sharing.live_tables import StoredTables
from floecat.purge.sharing.shared_files import SharedFiles, SharedFilesUnknownError
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import PurgeSettings, Settings, StorageSettings
from tests.behaviour.catalog.changes import SCHEMA
from tests.unit.purge.table_files import TableFiles
from tests.view_documents import view_version

DAY_MS = 86_400_000


class LaterClock:
    """Files that are written now are ten days old."""

    def now_ms(self) -> int:
        return int(Path("/proc/self").stat().st_mtime * 1000) + 10 * DAY_MS


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    settings = Settings(
        data_dir=str(tmp_path / "data"),
        storage=StorageSettings(fsync=False),
        purge=PurgeSettings(enabled=False, files_per_call=2),
    )
    prepare_store(settings)
    opened = open_kernel(settings, clock=LaterClock())
    yield opened
    opened.close()


@pytest.fixture
def call(kernel: Kernel) -> Call:
    made = kernel.catalog.calls.open(
        Principal("tester", kernel.settings.gateway.default_account_id), "floecat"
    )
    kernel.catalog.namespaces.create(made, ("ns",), {})
    return made


@pytest.fixture
def table(kernel: Kernel) -> TableFiles:
    made = TableFiles(kernel.files, f"{kernel.settings.warehouse_location}/ns/t")
    made.append(count=2)
    made.append()
    made.add_statistics()
    made.commit()
    made.append(count=2)
    made.commit()
    return made


def named(name: str) -> TableIdentifier:
    return TableIdentifier(("ns",), name)


def register(kernel: Kernel, call: Call, table: TableFiles, name: str = "t") -> None:
    kernel.commits.registration.register_table(call, ("ns",), name, table.metadata_location)


def stray(table: TableFiles, name: str = "data/stray.parquet") -> str:
    table.files.write_new(table.path(name), b"12345")
    return table.path(name)


def path_of(location: str) -> Path:
    return Path(urlparse(location).path)


def at_the_same_location(table: TableFiles) -> TableFiles:
    """Another table; its manifests lie in a folder of their own."""
    made = TableFiles(table.files, table.path("other"))
    made.append(stray(table, "data/of-the-other-one.parquet"))
    made.location = table.location
    made.commit()
    return made


def orphans(
    kernel: Kernel, call: Call, name: str = "t", *, delete: bool = False
) -> tuple[set[str], OrphanReport]:
    found: list[FileEntry] = []
    report = kernel.purge.orphans.find(call, named(name), delete=delete, found=found.append)
    assert report.orphans == len(found)
    return {entry.location for entry in found}, report


def test_exactly_the_stray_file_is_found_and_deleted(kernel: Kernel, call: Call, table: TableFiles) -> None:
    register(kernel, call, table)
    assert orphans(kernel, call)[0] == set()
    lost = stray(table)
    found, report = orphans(kernel, call)
    assert found == {lost}
    assert (report.orphan_bytes, report.deleted, report.needed) == (5, 0, len(table.written))
    found, report = orphans(kernel, call, delete=True)
    assert (found, report.deleted, report.deleted_bytes, report.failed) == ({lost}, 1, 5, 0)
    assert not kernel.files.exists(lost)
    assert table.remaining() == table.written


def test_names_with_question_marks_and_hashes(kernel: Kernel, call: Call, table: TableFiles) -> None:
    """They are names on the local disk: what a client would cut off makes another file."""
    odd = TableFiles(kernel.files, f"{kernel.settings.warehouse_location}/ns/a#b?c=d")
    names = ["f?x", "f#x", "f?x#y", "d?e/f", "d#e/f"]
    odd.append(*[odd.write(odd.path(f"data/{name}")) for name in names])
    odd.commit()
    register(kernel, call, odd, "odd")
    lost = {stray(odd, f"data/{name}") for name in ("f", "f?y", "f#", "d/f", "d?x/f")}
    found, report = orphans(kernel, call, "odd", delete=True)
    assert (found, report.needed, report.failed) == (lost, len(odd.written), 0)
    assert odd.remaining() == odd.written
    assert not any(kernel.files.exists(location) for location in lost)


def test_many_are_deleted_in_batches(kernel: Kernel, call: Call, table: TableFiles) -> None:
    register(kernel, call, table)
    lost = {stray(table, f"data/{number}/stray") for number in range(5)}
    steps: list[int] = []
    kernel.purge.orphans.find(call, named("t"), delete=True, progress=lambda step: steps.append(step.deleted))
    assert steps == [0, 2, 4, 5]
    assert not any(kernel.files.exists(location) for location in lost)


def test_a_run_that_deletes_is_a_job(kernel: Kernel, call: Call, table: TableFiles) -> None:
    register(kernel, call, table)
    orphans(kernel, call, delete=True)
    assert kernel.jobs.list(call, kinds=["orphan-files"]) == []
    stray(table)
    states: list[str] = []
    kernel.purge.orphans.find(
        call,
        named("t"),
        delete=True,
        progress=lambda step: states.extend(job.state for job in kernel.jobs.list(call) if step.deleted),
    )
    (job,) = kernel.jobs.list(call, kinds=["orphan-files"])
    assert (states, job.state, job.title) == (["running"], "succeeded", "ns.t")


def test_a_run_whose_process_died_is_given_up(kernel: Kernel, call: Call, table: TableFiles) -> None:
    register(kernel, call, table)
    lost = stray(table)

    def die(step: OrphanProgress) -> None:
        if step.deleted:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kernel.purge.orphans.find(call, named("t"), delete=True, progress=die)
    (job,) = kernel.jobs.list(call, kinds=["orphan-files"])
    assert (job.state, kernel.files.exists(lost)) == ("cancelled", False)
    kernel.jobs.retry(call, job.id)
    stray(table)
    orphans(kernel, call, delete=True)
    given_up, _ = kernel.jobs.list(call, kinds=["orphan-files"])
    assert (given_up.state, given_up.id) == ("failed", job.id)
    assert "again" in (given_up.last_error or "")


def test_sidecars_of_the_table_stay(kernel: Kernel, call: Call, table: TableFiles) -> None:
    register(kernel, call, table)
    sidecar, lost = stray(table, "metadata/1.index"), stray(table)
    parts = kernel.parts
    live = StoredTables(parts.store, parts.storages, parts.clock)
    limits = kernel.settings.limits
    needed = NeededFilesReader(parts.store, parts.storages, live, SharedFiles(live), parts.clock, limits)
    found: list[FileEntry] = []
    OrphanFiles(
        parts,
        kernel.catalog.namespaces,
        kernel.catalog.tables,
        needed,
        OrphanJobs(parts.store, parts.clock, lease_ms=60_000, retention_ms=0),
        batch_size=1,
        sidecars=[lambda target: [sidecar] if target.table_uuid == table.table_uuid else []],
    ).find(call, named("t"), delete=True, found=found.append)
    assert [entry.location for entry in found] == [lost]
    assert kernel.files.exists(sidecar)


def test_young_and_hidden_files_stay(kernel: Kernel, call: Call, table: TableFiles) -> None:
    register(kernel, call, table)
    young = stray(table)
    seven_days_old = LaterClock().now_ms() / 1000 - 7 * 86_400
    hidden = [stray(table, name) for name in ("_SUCCESS", ".tmp/x", "data/_temporary/0/part-0")]
    hint = stray(table, "metadata/version-hint.text")
    os.utime(path_of(young), (seven_days_old, seven_days_old))
    found, report = orphans(kernel, call, delete=True)
    assert (found, report.hidden) == ({young}, len(hidden))
    young = stray(table)
    os.utime(path_of(young), (seven_days_old, seven_days_old))
    report = kernel.purge.orphans.find(call, named("t"), delete=True, older_than_ms=8 * DAY_MS)
    assert (report.orphans, report.young) == (0, 1)
    assert all(kernel.files.exists(location) for location in (young, hint, *hidden))


def test_the_grace_time_is_at_least_a_day(kernel: Kernel, call: Call, table: TableFiles) -> None:
    register(kernel, call, table)
    with pytest.raises(BadRequestError, match="at least a day"):
        kernel.purge.orphans.find(call, named("t"), older_than_ms=DAY_MS - 1)


def test_schemes_of_one_storage_are_the_same(kernel: Kernel, call: Call, table: TableFiles) -> None:
    """`/path`, `file:/path` and `file:///path` are one file, also through a link of the folder."""
    link = path_of(table.location).parent.parent / "link"
    link.symlink_to(path_of(table.location).parent)
    for spelling in (str(path_of(table.location)), f"file:{path_of(table.location)}", f"file://{link}/t"):
        table.append(f"{spelling}/data/{len(table.written)}.parquet")
        table.write(f"{spelling}/data/{len(table.written) - 2}.parquet")
    table.commit()
    register(kernel, call, table)
    lost = stray(table)
    assert orphans(kernel, call)[0] == {lost}


@pytest.mark.parametrize("prefix", ["hdfs://namenode", "viewfs://x", "s3://bucket"])
def test_another_scheme_with_the_same_path_stops(
    kernel: Kernel, call: Call, table: TableFiles, prefix: str
) -> None:
    table.append(prefix + urlparse(table.path("data/stray.parquet")).path)
    table.commit()
    register(kernel, call, table)
    lost, other = stray(table), stray(table, "data/another")
    with pytest.raises(UnprocessableError, match="nothing was deleted"):
        orphans(kernel, call, delete=True)
    assert kernel.files.exists(lost)
    assert kernel.files.exists(other)


def test_another_encoding_of_the_same_path_stops(kernel: Kernel, call: Call, table: TableFiles) -> None:
    table.append(table.path("data/day=a%20b/x.parquet"))
    table.commit()
    register(kernel, call, table)
    lost = stray(table, "data/day=a b/x.parquet")
    with pytest.raises(UnprocessableError, match="another scheme, bucket or encoding"):
        orphans(kernel, call, delete=True)
    assert kernel.files.exists(lost)


def test_a_lost_manifest_stops(kernel: Kernel, call: Call, table: TableFiles) -> None:
    register(kernel, call, table)
    manifest = next(name for name in table.written if "/metadata/m" in name)
    path_of(manifest).unlink()
    with pytest.raises(SharedFilesUnknownError, match="cannot be read"):
        orphans(kernel, call, delete=True)
    assert set(table.remaining()) == set(table.written) - {manifest}


def test_other_tables_below_the_location_stay(kernel: Kernel, call: Call, table: TableFiles) -> None:
    """A live one, one that was dropped without purge, a view, and one that was dropped at the location."""
    register(kernel, call, table)
    inner = {name: TableFiles(kernel.files, table.path(name)) for name in ("data/inner", "gone")}
    for name, files in inner.items():
        files.append()
        files.commit()
        stray(files)
        register(kernel, call, files, name.replace("/", "-"))
    kernel.purge.drops.drop(call, named("gone"), purge=False)
    version = Raw(json.dumps(view_version()).encode())
    kernel.commits.views.create(call, ("ns",), CreateView("v", SCHEMA, version, location=table.path("view")))
    same = at_the_same_location(table)
    register(kernel, call, same, "same")
    kernel.purge.drops.drop(call, named("same"), purge=False)
    lost = stray(table)
    assert orphans(kernel, call, delete=True)[0] == {lost}
    register(kernel, call, same, "same")
    assert [orphans(kernel, call, name)[0] for name in ("t", "same")] == [set(), set()]


def test_old_metadata_files_of_the_table_itself_are_orphans(
    kernel: Kernel, call: Call, table: TableFiles
) -> None:
    register(kernel, call, table)
    kernel.purge.drops.drop(call, named("t"), purge=False)
    forgotten = table.metadata_location
    table.commit()
    table.metadata_log = []
    table.commit()
    register(kernel, call, table, "again")
    assert forgotten in orphans(kernel, call, "again")[0]


def test_open_purges_and_staged_tables_keep_their_files(
    kernel: Kernel, call: Call, table: TableFiles
) -> None:
    register(kernel, call, table)
    dropped = at_the_same_location(table)
    register(kernel, call, dropped, "dropped")
    kernel.purge.drops.drop(call, named("dropped"), purge=True)
    request = CreateTable(name="s", schema=SCHEMA, location=table.path("staged"), stage_create=True)
    kernel.commits.tables.create_table(call, ("ns",), request)
    stray(table, "staged/data/x")
    lost = stray(table)
    assert orphans(kernel, call, delete=True)[0] == {lost}
    assert dropped.remaining() == dropped.written


def test_a_file_that_is_committed_meanwhile_stays(kernel: Kernel, call: Call, table: TableFiles) -> None:
    register(kernel, call, table)
    saved, lost = stray(table, "data/saved"), stray(table)

    def commit(_: FileEntry) -> None:
        if table.written[-1] != saved:
            table.append(saved)
            table.commit()
            kernel.commits.registration.register_table(
                call, ("ns",), "t", table.metadata_location, overwrite=True
            )
            table.written.append(saved)

    report = kernel.purge.orphans.find(call, named("t"), delete=True, found=commit)
    assert (report.orphans, report.deleted) == (2, 1)
    assert (kernel.files.exists(saved), kernel.files.exists(lost)) == (True, False)


@pytest.mark.parametrize(
    ("properties", "file"),
    [
        ({"gc.enabled": "false"}, "data/stray"),
        ({"table_type": "lance"}, "data/stray"),
        ({}, "_delta_log/00000000000000000000.json"),
        ({}, "data/.hoodie/hoodie.properties"),
    ],
)
def test_tables_that_are_not_told_by_their_metadata_are_refused(
    kernel: Kernel, call: Call, table: TableFiles, properties: dict[str, str], file: str
) -> None:
    table.properties = properties
    table.commit()
    register(kernel, call, table)
    lost = stray(table, file)
    with pytest.raises(UnsupportedOperationError):
        orphans(kernel, call, delete=True)
    assert kernel.files.exists(lost)


def test_a_lance_table_around_keeps_everything(kernel: Kernel, call: Call, table: TableFiles) -> None:
    register(kernel, call, table)
    lost = stray(table)
    around = TableFiles(kernel.files, f"{kernel.settings.warehouse_location}/ns")
    around.properties = {"table_type": "lance"}
    around.commit()
    register(kernel, call, around, "around")
    assert orphans(kernel, call, delete=True)[0] == set()
    assert kernel.files.exists(lost)


def test_a_table_at_the_root_of_a_catalog_is_refused(kernel: Kernel, call: Call) -> None:
    root = TableFiles(kernel.files, kernel.settings.warehouse_location)
    root.commit()
    register(kernel, call, root, "root")
    with pytest.raises(FloecatError, match="allowed location"):
        orphans(kernel, call, "root")
