"""The pages of the documentation: short lines, and links that lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")])
LONGEST_LINE = 132


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without tables and code."""
    in_code = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        in_code ^= line.lstrip().startswith("```")
        if not in_code and not line.startswith("|"):
            yield number, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_readable_in_an_editor(page: Path) -> None:
    assert [number for number, line in prose(page) if len(line) > LONGEST_LINE] == []


def anchors(page: Path) -> set[str]:
    headings = [line for _, line in prose(page) if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_what_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        found = page.parent / path if path else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


def test_every_page_is_found_from_the_first() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        targets = re.findall(r"\]\(([^)#\s:]+)", page.read_text(encoding="utf-8"))
        waiting += [page.parent / target for target in targets if (page.parent / target).is_file()]
    assert {page for page in PAGES if page.parent != ROOT} <= seen


def test_the_first_page_and_the_page_of_trino_have_the_same_settings() -> None:
    first, page = (
        re.findall(r"```properties\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)[0]
        for name in ("README.md", "docs/clients/trino.md")
    )
    assert first == page
