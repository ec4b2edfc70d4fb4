"""Memory of a peak goes back to the system."""

from __future__ import annotations

import subprocess
import sys

_PEAK = """
import os, time
from floecat.allocator import limit_heaps, trim_soon

def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

limit_heaps()
# small enough for the heap, and with something above them that stays
peak = [bytearray(100_000) for _ in range(2_000)]
peak.append(peak)  # in a cycle, as requests are
stays = bytearray(100_000)
high = resident_mib()
del peak
trim_soon()
trim_soon()
deadline = time.monotonic() + 120
while resident_mib() > high - 150 and time.monotonic() < deadline:
    time.sleep(0.05)
print(high - resident_mib())
"""


def test_freed_memory_goes_back_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", _PEAK], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 150
