"""One line of JSON a figure."""

from __future__ import annotations

import json
import sys
from typing import Literal

__all__ = ["figure", "percentile"]


def figure(
    name: str,
    value: float,
    unit: str,
    *,
    baseline: float | None = None,
    target: float | None = None,
    better: Literal["higher", "lower"] = "lower",
    note: str | None = None,
) -> None:
    """Prints a figure.

    Args:
        name: what was measured.
        value: what came out.
        unit: of `value` and `baseline`.
        baseline: the same thing measured in the same run on what it is compared with.
        target: what the ratio (the value where there is no baseline) should reach.
        better: which direction is good.
        note: what a reader must know.
    """
    ratio = None if not baseline else round(value / baseline, 3)
    row = {
        "figure": name,
        "value": round(value, 4),
        "unit": unit,
        "baseline": None if baseline is None else round(baseline, 4),
        "ratio": ratio,
        "target": target,
        "better": better,
    }
    if note:
        row["note"] = note
    print(json.dumps(row), flush=True)


def percentile(values: list[float], share: float) -> float:
    """The value below which a share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def progress(text: str) -> None:
    """Tells what is going on, on standard error, so that the figures can be piped."""
    print(f"  {text}", file=sys.stderr, flush=True)
