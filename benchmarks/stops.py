"""What a benchmark cannot do without."""

from __future__ import annotations

__all__ = ["Missing"]


class Missing(RuntimeError):  # noqa: N818 - what is missing
    """A program that the benchmark needs is not installed."""
