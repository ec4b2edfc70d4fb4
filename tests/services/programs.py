"""Names the programs that chosen tests start and that no package brings, for `.ci/install-programs`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

__all__ = ["pytest_report_collectionfinish"]

_SIGNS = {"postgres": "postgresql", "azure": "azurite", "adls": "azurite", "tests/deploy": "systemd"}
"""What the names of tests, parameters, fixtures and markers hold, and the program that is needed then."""


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> str | list[str]:
    """With `--collect-only`, a line for the script."""
    if not config.option.collectonly:
        return []
    return f"Needs: {' '.join(sorted(set(_needs(items))))}"


def _needs(items: Sequence[pytest.Item]) -> Iterator[str]:
    for item in items:
        names = (*getattr(item, "fixturenames", ()), *(marker.name for marker in item.iter_markers()))
        told = " ".join((item.nodeid, *names))
        yield from (program for sign, program in _SIGNS.items() if sign in told)
