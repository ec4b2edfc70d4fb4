"""Load on an HTTP server by wrk (Debian package `wrk`), a client that costs little itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping

from benchmarks.stops import Missing

__all__ = ["Load", "run_wrk"]

_UNITS_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


class Load:
    """What a run of wrk says.

    Attributes:
        requests_s: requests a second.
        p50_ms, p99_ms: latencies.
    """

    def __init__(self, requests_s: float, p50_ms: float, p99_ms: float) -> None:
        self.requests_s = requests_s
        self.p50_ms = p50_ms
        self.p99_ms = p99_ms


def run_wrk(url: str, connections: int, seconds: float = 4, headers: Mapping[str, str] | None = None) -> Load:
    """Runs wrk with one thread; answers other than 2xx and 3xx are an error."""
    if shutil.which("wrk") is None:
        raise Missing("wrk is not installed (Debian: apt-get install wrk)")
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency"]
    for name, value in (headers or {}).items():
        command += ["-H", f"{name}: {value}"]
    printed = subprocess.run([*command, url], capture_output=True, text=True, check=True).stdout
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", printed)
    if failed:
        raise RuntimeError(f"{failed[1]} requests to {url} failed")
    requests = re.search(r"Requests/sec:\s+([\d.]+)", printed)
    if requests is None:
        raise RuntimeError(f"wrk printed no figures for {url}")
    return Load(float(requests[1]), _latency(printed, "50%"), _latency(printed, "99%"))


def _latency(printed: str, share: str) -> float:
    found = re.search(rf"\s{share}\s+([\d.]+)(us|ms|s|m)\b", printed)
    if found is None:
        raise RuntimeError(f"wrk printed no {share} latency")
    return float(found[1]) * _UNITS_MS[found[2]]
