"""How long the service takes to be ready, the kernel to be imported, and the command line to begin."""

from __future__ import annotations

import os
import resource
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
    _seconds("-c", "import floecat_rest.app")
    ready = []
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        for number in range(_TIMES):
            with floecat(Path(made), name=f"start-{number}") as service:
                ready.append(service.ready_s)
    figure("start.serve-ready.p50", percentile(ready, 0.5), "s", target=3.0)
    imports = [(_seconds("-c", "import floecat.runtime"), _seconds("-c", "pass")) for _ in range(_TIMES)]
    for index, (name, target) in enumerate({"p50": 1.0, "processor-time.p50": None}.items()):
        seconds = percentile([kernel[index] - nothing[index] for kernel, nothing in imports], 0.5)
        figure(f"start.kernel-import.{name}", seconds, "s", target=target)
    for command, target in {"--version": 0.3, "--help": 0.3, "table --help": 1.0}.items():
        used = percentile([_seconds("-m", "floecat_rest", *command.split())[1] for _ in range(_TIMES)], 0.5)
        figure(f"start.command.{command}.processor-time.p50", used, "s", target=target)


def _seconds(*arguments: str) -> tuple[float, float]:
    """How long a program takes, and how much processor time."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    taken_s, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
