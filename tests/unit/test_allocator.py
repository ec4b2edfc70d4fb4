"""Memory of a peak goes back to the system."""

from __future__ import annotations

import subprocess
import sys

_START = """
import os, threading, time
from floecat.allocator import limit_heaps, trim_soon

def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

limit_heaps()
"""

_PEAK = """
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

_IN_THREADS = """
def work():
    for size, count in ((30_000_000, 2), (20_000_000, 2), (100_000, 300)):
        blocks = [b"x" * size for _ in range(count)]

before = resident_mib()
for _ in range(3):
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(resident_mib() - before)
"""

_OF_ARROW = """
import pyarrow as pa

ends, done = threading.Event(), threading.Semaphore(0)

def work():
    blocks = [pa.array([b"x" * 50_000]) for _ in range(1_000)]
    del blocks
    done.release()
    ends.wait()  # threads of a service stay

before = resident_mib()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    done.acquire()
trim_soon()
deadline = time.monotonic() + 30
while resident_mib() > before + 150 and time.monotonic() < deadline:
    time.sleep(0.05)
print(resident_mib() - before)
ends.set()
"""


def test_freed_memory_goes_back_to_the_system() -> None:
    assert _run(_PEAK) >= 150


def test_large_blocks_of_threads_go_back_at_once() -> None:
    assert _run(_IN_THREADS) <= 150  # about 350 without


def test_memory_of_arrow_goes_back_whatever_thread_had_it() -> None:
    assert _run(_OF_ARROW) <= 150  # about 400 in its own allocator


def _run(code: str) -> int:
    done = subprocess.run([sys.executable, "-c", _START + code], capture_output=True, text=True, check=True)
    return int(done.stdout)
