"""Counts the bytecodes that a piece of work runs, which unlike its time are the same in every run."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["operations_of"]


def operations_of(work: Callable[[], object]) -> int:
    """How many bytecodes run in Python code until `work` is done."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if event == "opcode":
            count += 1
        return trace

    before, collects = sys.gettrace(), gc.isenabled()
    # a collection would run what other tests left behind, and what waits to be told of collections
    gc.disable()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return count
