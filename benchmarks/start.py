"""How long the service takes to be ready, and the kernel to be imported."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import figure, percentile
from benchmarks.servers import floecat

_TIMES = 5


def main() -> None:
    """Prints the figures."""
    # what an installed program has after its first run: compiled modules
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    _seconds("import floecat_rest.app")
    ready = []
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        for number in range(_TIMES):
            with floecat(Path(made), name=f"start-{number}") as service:
                ready.append(service.ready_s)
    figure("start.serve-ready.p50", percentile(ready, 0.5), "s", target=3.0)
    imported = [_seconds("import floecat.runtime") - _seconds("pass") for _ in range(_TIMES)]
    figure("start.kernel-import.p50", percentile(imported, 0.5), "s", target=1.0)


def _seconds(code: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
