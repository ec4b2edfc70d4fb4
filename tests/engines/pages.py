"""The settings that the pages of docs/clients/ tell people to copy, read from there."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["blocks", "properties"]

_PAGES = Path(__file__).parents[2] / "docs" / "clients"


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code of a page that are in a language, such as `properties`."""
    text = (_PAGES / f"{page}.md").read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page}.md has no block of {language}"
    return found


def properties(block: str) -> dict[str, str]:
    """The names and values of lines such as `name value`, `name=value` and `name: value`."""
    lines = (line.strip() for line in block.splitlines())
    return dict(re.split(r"\s*[=:\s]\s*", line, maxsplit=1) for line in lines if line and line[0] != "#")
