from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from floecat.auth.principals import Principal
from floecat.entries.calls import Call
from floecat.iceberg.normalization import normalize_table
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.queue import Drained
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import Settings, StorageSettings
from floecat.store.entries.documents import decompress
from floecat.store.jobs import jobs as job_rows
from floecat.store.jobs.jobs import JobRow
from tests.job_rows import job_rows as all_rows
from tests.unit.purge.table_files import TableFiles

NAME = TableIdentifier(("ns",), "t")


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    settings = Settings(data_dir=str(tmp_path / "data"), storage=StorageSettings(fsync=False))
    prepare_store(settings)
    opened = open_kernel(settings)
    yield opened
    opened.close()


@pytest.fixture
def call(kernel: Kernel) -> Call:
    gateway = kernel.settings.gateway
    made = kernel.catalog.calls.open(Principal("anna", gateway.default_account_id), gateway.default_prefix)
    kernel.catalog.namespaces.create(made, NAME.namespace, {})
    return made


@pytest.fixture
def table(kernel: Kernel, call: Call) -> TableFiles:
    table = TableFiles(kernel.files, f"{kernel.settings.warehouse_location}/ns/t")
    table.append(count=3)
    table.commit()
    kernel.commits.registration.register_table(call, NAME.namespace, NAME.name, table.metadata_location)
    return table


def jobs(kernel: Kernel, call: Call) -> list[JobRow]:
    return all_rows(kernel, call)


def test_a_drop_without_purge_leaves_no_job(kernel: Kernel, call: Call, table: TableFiles) -> None:
    kernel.purge.drops.drop(call, NAME, purge=False)
    assert jobs(kernel, call) == []
    assert table.remaining() == table.written


def test_a_job_takes_the_document_of_the_table(kernel: Kernel, call: Call, table: TableFiles) -> None:
    kernel.purge.drops.drop(call, NAME, purge=True)
    (job,) = jobs(kernel, call)
    with kernel.store.read() as conn:
        stored = job_rows.attachment(conn, job.id)
    assert (job.subject, job.resource) == (table.table_uuid, table.metadata_location)
    assert stored is not None
    assert decompress(stored) == normalize_table(table.document())


def test_a_purge_needs_no_metadata_file(kernel: Kernel, call: Call, table: TableFiles) -> None:
    kernel.files.delete(table.metadata_location)
    kernel.purge.drops.drop(call, NAME, purge=True)
    assert kernel.purge.queue.drain_once() == Drained(succeeded=1)
    assert table.remaining() == []


def test_a_purge_reads_nothing_outside_the_catalogs(
    kernel: Kernel, call: Call, table: TableFiles, tmp_path: Path
) -> None:
    outside = tmp_path / "etc" / "hostname"
    outside.parent.mkdir()
    outside.write_bytes(b"cat")
    for name in ("t2", "t3"):
        hostile = TableFiles(kernel.files, f"{kernel.settings.warehouse_location}/ns/{name}")
        hostile.append()
        hostile.snapshots[-1]["manifest-list"] = outside.as_uri()
        hostile.commit()
        kernel.commits.registration.register_table(call, NAME.namespace, name, hostile.metadata_location)
    kernel.purge.drops.drop(call, TableIdentifier(NAME.namespace, "t2"), purge=True)
    before = kernel.files.counters.counts
    assert kernel.purge.queue.drain_once() == Drained(succeeded=1)
    # the metadata file, and for the area of `t` its manifest list and manifest
    assert (kernel.files.counters.counts - before).reads == 3
    assert outside.read_bytes() == b"cat"
