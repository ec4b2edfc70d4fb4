"""Exit codes of child processes, in words."""

from __future__ import annotations

import signal

__all__ = ["describe_exit"]


def describe_exit(code: int | None) -> str:
    """The exit code of a child, as `subprocess` and `multiprocessing` give it: -9 is signal 9."""
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # a real-time signal
        return f"signal {-code}"
    why = ", as the system sends it when memory runs out" if -code == signal.SIGKILL else ""
    return f"signal {-code}, {name}{why}"
