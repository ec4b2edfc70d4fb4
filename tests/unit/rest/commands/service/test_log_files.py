"""Logs of services: appended to, rotated, and read for the cause of an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from floecat_rest.commands.service.log_files import ServiceLog, cause


def write(log: ServiceLog, text: str) -> None:
    with log.open() as output:
        output.write(text.encode())


def test_a_run_appends_and_reads_only_its_own_lines(tmp_path: Path) -> None:
    log = ServiceLog(tmp_path / "log" / "rest.log", max_bytes=100, kept=2)
    write(log, "first\n")
    write(log, "second\nthird\n")
    assert log.path.read_text() == "first\nsecond\nthird\n"
    assert log.lines() == ["second", "third"]


def test_a_large_file_is_rotated_under_a_running_service(tmp_path: Path) -> None:
    log = ServiceLog(tmp_path / "rest.log", max_bytes=10, kept=2)
    with log.open() as output:
        for run in range(4):
            output.write(f"{run} is long enough\n".encode())
            output.flush()
            log.rotate()
        output.write(b"short\n")
    log.rotate()
    assert log.lines() == ["short"]
    assert (tmp_path / "rest.log.1").read_text() == "3 is long enough\n"
    assert (tmp_path / "rest.log.2").read_text() == "2 is long enough\n"
    assert not (tmp_path / "rest.log.3").exists()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["starting", "error: port 1 is in use", "bye"], "port 1 is in use"),
        (
            ["Traceback (most recent call last):", '  File "x"', "ModuleNotFoundError: No module named 'y'"],
            "ModuleNotFoundError: No module named 'y'",
        ),
        (
            ["2026-01-01 00:00:00,000 ERROR   uvicorn.error: no loop", "2026-01-01 INFO x: bye"],
            "uvicorn.error: no loop",
        ),
        (
            [
                "floecat.errors.SettingsError: no key",
                "2026-01-01 00:00:00,000 ERROR   uvicorn.error: Application startup failed. Exiting.",
            ],
            "floecat.errors.SettingsError: no key",
        ),
        (['{"level":"error","message":"no loop"}', '{"level":"info","message":"bye"}'], "no loop"),
        (["2026-01-01 00:00:00 +0000 - dagster.daemon - ERROR - no heartbeat", "bye"], "no heartbeat"),
        (["only words", ""], None),
        ([], None),
    ],
)
def test_the_cause_is_the_last_error(lines: list[str], expected: str | None) -> None:
    assert cause(lines) == expected
