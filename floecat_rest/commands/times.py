"""Times as the commands print them."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["written_time"]


def written_time(at_ms: int | None) -> str:
    """A time in ms since the epoch as a person reads it, in UTC; `-` for none."""
    return "-" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
