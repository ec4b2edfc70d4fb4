"""Faults of connectors of somebody else."""

from __future__ import annotations

import traceback

__all__ = ["described_fault"]


def described_fault(error: BaseException) -> str:
    """An unforeseen exception for a log: its type and where it was raised, without its message.

    The message is of somebody else's making, and may repeat the options of a connector, which may be secrets.
    """
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return "\n".join([type(error).__name__, *places])
