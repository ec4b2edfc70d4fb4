"""The part of a snapshot that its statistics cover."""

from __future__ import annotations

from typing import Final

import msgspec

from floecat.statistics.capture.reading.sidecars import Sidecar
from floecat.store.statistics.captures import CaptureRow

__all__ = ["PROBLEM", "CaptureCoverage", "coverage_of"]

PROBLEM: Final = "problem"
"""Key in the progress of a capture: why its statistics are partial."""


class CaptureCoverage(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """The data files that the statistics of a snapshot rest on."""

    files: int
    """Live data files."""
    captured: int
    """Number of these whose statistics are in."""
    rows: int
    size_bytes: int
    read: int
    """Data files that this capture read; the others were stored before."""
    merged: Sidecar | None = None
    """The columns of the snapshot, where they were kept."""


def coverage_of(row: CaptureRow) -> CaptureCoverage | None:
    """The coverage of a finalized capture."""
    return None if row.status != "finalized" else msgspec.json.decode(row.coverage, type=CaptureCoverage)
