"""The memory of a service: sampled during an attack, and bounded to protect the machine."""

from __future__ import annotations

import os
import resource
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

__all__ = ["MemorySamples", "bound_address_space", "resident_bytes"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY_S = 0.05
_RESCAN_EVERY = 20


class MemorySamples:
    """Samples resident bytes of a process tree every 50 ms, for a block.

    Attributes:
        peak_bytes: the highest sample.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        count, processes = 0, [self._pid]
        while not self._ends.wait(_EVERY_S):
            if count % _RESCAN_EVERY == 0:
                processes = _processes(self._pid)
            count += 1
            self.peak_bytes = max(self.peak_bytes, sum(map(_resident_bytes, processes)))


def resident_bytes(pid: int) -> int:
    """Resident bytes of a process and of all that it started, and so on."""
    return sum(map(_resident_bytes, _processes(pid)))


def bound_address_space(pid: int, more_bytes: int) -> None:
    """Lets a process, and those that it starts from now on, map this much more than it has mapped now."""
    mapped = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * _PAGE
    resource.prlimit(pid, resource.RLIMIT_AS, (mapped + more_bytes, mapped + more_bytes))


def _processes(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                # after the name, which is in parentheses: the state, and the parent
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (FileNotFoundError, ProcessLookupError):
        return 0
