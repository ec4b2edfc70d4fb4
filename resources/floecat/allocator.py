"""The C allocator: memory that a peak of work has taken goes back to the system.

glibc keeps what is freed in the middle of its heaps, in up to eight heaps for each processor, so the resident
size of a service stays at its peak. `malloc_trim` gives whole free pages back, once the garbage collector has
freed what is in cycles. It leaves the free end of all heaps but one, which by default grows to 64 MiB, once a
block of 32 MiB was freed: both thresholds are fixed here (mallopt(3)).

Arrow allocates by it too: in its own allocator, each thread keeps what it freed.
"""

from __future__ import annotations

import ctypes
import gc
import os
from functools import cache
from threading import Lock, Timer
from typing import Final

__all__ = ["limit_heaps", "trim_soon"]

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_HEAPS: Final = 4
_FREE_END_BYTES: Final = 8 << 20
"""Bytes at the end of a heap: a longer free end goes back at once."""
_MAPPED_BYTES: Final = 1 << 20
"""Larger blocks lie outside the heaps, and go back at once."""
_DELAY_S: Final = 1.0
"""Wait before a trim, so that memory is freed: the last references of a request go after its work ends."""

_lock = Lock()
_planned: Timer | None = None


def limit_heaps() -> None:
    """Bounds the number of heaps and what each keeps, for good. Does nothing without glibc."""
    libc = _glibc()
    if libc is not None:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # read when it is imported
        libc.mallopt(_M_ARENA_MAX, _HEAPS)
        libc.mallopt(_M_TRIM_THRESHOLD, _FREE_END_BYTES)
        libc.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)


def trim_soon() -> None:
    """Gives free memory back to the system in about a second; calls until then count as one."""
    global _planned  # noqa: PLW0603 - there is one heap in a process
    with _lock:
        if _planned is None and _glibc() is not None:
            _planned = Timer(_DELAY_S, _trim)
            _planned.daemon = True
            _planned.start()


def _trim() -> None:
    global _planned  # noqa: PLW0603
    with _lock:
        _planned = None
    # requests are in cycles of references, which the collector seldom looks for by itself
    gc.collect()
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL(None)
        found = libc.mallopt and libc.malloc_trim
    except (OSError, AttributeError, TypeError):  # another C library, or none
        return None
    return libc if found else None
