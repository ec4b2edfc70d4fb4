"""`docs/development/contract.md` names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent
PAGE = TESTS.parent / "docs" / "development" / "contract.md"
KIT_TESTS = 104 + 50
CASES = [f"O{number:02}" for number in range(1, 28)]

REFERENCES = sorted(set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE.read_text())))


def _is_defined(file: str, name: str) -> bool:
    path = TESTS.parent / file if "/" in file else HERE / file
    return re.search(rf"^\s*def {name}\(", path.read_text(), re.MULTILINE) is not None


def test_named_tests_exist():
    assert len(REFERENCES) > 100
    assert [reference for reference in REFERENCES if not _is_defined(*reference)] == []


def test_every_test_of_the_kit_is_held_once():
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert len({name for name, _ in rows}) == len(rows) == KIT_TESTS
    assert all("::" in held or "clients/kit" in held or "client alone" in held for _, held in rows)


def test_every_case_has_a_test():
    rows = re.findall(r"^\| (O\d\d) \| .+ \| .*::.* \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == CASES
