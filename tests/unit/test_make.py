"""What `make` runs: programs for the tests that were chosen, and packages with little output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.parametrize(
    ("tests", "programs"),
    [
        ("tests/unit/test_gate.py", ""),
        ("tests/behaviour/store/test_postgres_recovery.py", "postgresql"),
        ("tests/behaviour/fileio/test_files.py", "azurite"),
        ("tests/deploy/test_backups.py", "postgresql systemd"),
        ("tests/deploy/test_backups.py -k sqlite", "systemd"),
    ],
)
def test_the_programs_of_chosen_tests(tests: str, programs: str) -> None:
    listed = run("-m", "pytest", "--collect-only", "-q", *tests.split())
    assert f"Needs: {programs}".strip() in [line.strip() for line in listed.stdout.splitlines()], listed


def test_pip_says_what_is_wrong_and_nothing_else() -> None:
    works = run(".ci/pip-progress", "--version")
    assert (works.returncode, works.stdout, works.stderr) == (0, "", "")
    fails = run(".ci/pip-progress", "install", "--no-index", "floecat-is-not-there")
    assert fails.returncode == 1
    assert fails.stdout == ""
    assert "No matching distribution found for floecat-is-not-there" in fails.stderr
