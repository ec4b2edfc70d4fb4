"""What keeps a table from being read: told to whoever asks, remembered for a while, forgotten when over."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest

from floecat.errors import ForbiddenError, InvalidDeltaTableError, LeftToPipelineError
from floecat.iceberg.values.bounds import process_bounds
from floecat.settings.limits import LimitSettings
from tests.behaviour.delta.conftest import as_rows, delta_table, refusal, rows_of


def test_a_lost_vector_is_no_lost_table(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    writer.delete({0: [1]})
    [vectors] = writer.folder.rglob("*.bin")
    vectors.unlink()
    table = lake.register(writer.folder)
    with pytest.raises(InvalidDeltaTableError, match=r"ns\.t cannot be read: .*deletion_vector"):
        lake.load(table)


def test_a_problem_that_is_over_is_forgotten(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    broken = writer.folder / "_delta_log" / f"{writer.version + 1:020}.json"
    broken.write_text("{")
    with pytest.raises(InvalidDeltaTableError):
        lake.load(table)
    assert "is not a valid Delta action" in lake.state(table).problem
    broken.unlink()
    lake.load(table)
    assert lake.state(table).problem is None


def test_any_problem_is_noted_and_remembered(open_lake, tmp_path, monkeypatch):
    lake = open_lake(refresh_after="PT1H")
    writer = delta_table(tmp_path / "t")

    def refuse(*_args):
        raise ForbiddenError("Storage refuses access to a file")

    monkeypatch.setattr(lake.kernel.files, "write_new", refuse)
    table = lake.register(writer.folder)
    assert "delta-compat.location" in lake.state(table).problem
    calls = lake.kernel.files.counters.counts.calls
    with pytest.raises(ForbiddenError, match=r"refuses to write .*floecat.gateway.delta-compat.location"):
        lake.load(table)
    assert lake.kernel.files.counters.counts.calls == calls


@pytest.fixture
def large(open_lake, tmp_path):
    """A catalog that leaves a table to the pipeline, the table's log, and its name."""

    def made(wait):
        lake = open_lake(max_files_in_request=0, wait=wait)
        writer = delta_table(tmp_path / "t")
        writer.delete({0: [1]})
        return lake, writer, lake.register(writer.folder)

    return made


def test_a_load_waits_for_the_pipeline(large):
    lake, writer, table = large("PT300S")
    pipeline = threading.Timer(0.5, lake.materialise, [table])
    pipeline.start()
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
    pipeline.join()


def test_a_load_waits_so_long_and_no_longer(large):
    lake, _, table = large("PT0.3S")
    started = time.monotonic()
    with pytest.raises(
        LeftToPipelineError, match=r"compat/artifacts, or by: floecat table refresh ns\.t"
    ) as raised:
        lake.load(table)
    assert time.monotonic() - started >= 0.3
    assert raised.value.retry_after_s == 5
    assert "floecat.gateway.delta-compat.max-files-in-request" in lake.state(table).problem


def test_a_log_that_takes_too_much_is_left_to_the_pipeline(open_lake, tmp_path, monkeypatch):
    lake = open_lake(wait="PT0.3S")
    monkeypatch.setattr(process_bounds, "limits", LimitSettings(delta_log_bytes_in_request=100))
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    assert isinstance(refusal(lake, table), LeftToPipelineError)
    assert "floecat.limits.delta-log-bytes-in-request" in lake.state(table).problem
    assert lake.materialise(table)
    assert lake.rows(table) == as_rows(writer.rows[writer.version])


def test_what_is_too_much_is_not_read_again_with_every_load(large):
    lake, _, table = large("PT0.3S")
    refusal(lake, table)
    before = lake.kernel.files.counters.counts.calls
    for _ in range(3):
        with pytest.raises(LeftToPipelineError):
            lake.load(table)
    assert lake.kernel.files.counters.counts.calls == before


def test_those_who_wait_leave_threads_to_others(large):
    lake, _, table = large("PT300S")
    with ThreadPoolExecutor(9) as clients:
        loads = [clients.submit(lake.load, table) for _ in range(9)]
        refused = next(as_completed(loads, timeout=120))
        assert isinstance(refused.exception(), LeftToPipelineError)
        lake.materialise(table)
    assert [load for load in loads if load.exception()] == [refused]


def test_versions_after_the_pipeline_are_small_again(large):
    lake, writer, table = large("PT300S")
    lake.materialise(table)
    writer.append(rows_of(100))
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
