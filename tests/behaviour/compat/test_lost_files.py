"""Artifacts that somebody took, as `VACUUM` does: what the loads do, and what the pipeline."""

from __future__ import annotations

import time

import pytest

from floecat.compat import service
from tests.behaviour.compat.conftest import as_rows, delta_table, rows_of


@pytest.fixture
def writer(tmp_path):
    made = delta_table(tmp_path / "t", files=4)
    made.delete({0: [1]})
    return made


def lose(writer, pattern):
    lost = list(writer.folder.glob(f"metadata/{pattern}"))
    assert lost
    for path in lost:
        path.unlink()


@pytest.mark.parametrize("pattern", ["snap-5-compat.avro", "*"])
def test_a_load_makes_a_lost_manifest_list_anew(lake, writer, pattern):
    table = lake.register(writer.folder)
    lose(writer, pattern)
    assert lake.rows(table) == as_rows(writer.rows[5])
    assert lake.versions(table) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("pattern", ["snap-2-compat.avro", "*-pd-*", "*-d0.avro", "1-compat-m0.avro"])
def test_the_pipeline_makes_anew_what_any_snapshot_lost(lake, writer, pattern):
    table = lake.register(writer.folder)
    lose(writer, pattern)
    lake.materialise(table)
    for version in range(1, 6):
        assert lake.rows(table, version) == as_rows(writer.rows[version])
    assert not lake.kernel.compat.repair(lake.compat_table(table))


def test_loads_look_for_all_files_now_and_then(lake, writer, monkeypatch):
    table = lake.register(writer.folder)
    lake.load(table)
    lose(writer, "*-pd-*")
    monkeypatch.setattr(service, "_LOOK_S", 0.0)
    deadline = time.monotonic() + 30
    while lake.state(table).generation == 0 and time.monotonic() < deadline:
        lake.load(table)
        time.sleep(0.05)
    assert lake.rows(table) == as_rows(writer.rows[5])


def test_a_new_version_after_a_loss(lake, writer):
    table = lake.register(writer.folder)
    lose(writer, "*-m0.avro")
    writer.append(rows_of(100))
    lake.materialise(table)
    assert lake.rows(table) == as_rows(writer.rows[6])
