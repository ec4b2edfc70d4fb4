"""Bounds on what is read from a file that other software wrote: settings of `floecat.limits`."""

from __future__ import annotations

from typing import Final

from floecat.errors import BoundExceededError
from floecat.settings.limits import LimitSettings as Bounds

__all__ = ["DEFAULT_BOUNDS", "Bounds", "exceeded", "process_bounds"]

DEFAULT_BOUNDS = Bounds()


class ProcessBounds:
    """Process-wide bounds, for code that is not passed any.

    Attributes:
        limits: those of the settings, once the composition root or the start of a child process has set
            them.
    """

    def __init__(self) -> None:
        self.limits = DEFAULT_BOUNDS


process_bounds: Final = ProcessBounds()


def exceeded(bounds: Bounds, bound: str, file: str, problem: str) -> BoundExceededError:
    """The error for a file that exceeds a bound.

    Args:
        bounds: all bounds.
        bound: name of the field of `bounds`.
        file: kind and location of the file, e.g. "manifest s3://b/m.avro".
        problem: what there is too much of, e.g. "its entries are more than".
    """
    key = f"floecat.limits.{bound.replace('_', '-')}"
    return BoundExceededError(f"Cannot read {file}: {problem} {getattr(bounds, bound):,} ({key})")
