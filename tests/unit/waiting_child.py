"""The program of a process that says who it is, and then works for ever."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection
from typing import Any

from floecat.child_process import serve_parent


def main() -> None:
    """Serves the process that started this one."""
    serve_parent(_serve)


def _serve(connection: Connection[Any, Any], _: object) -> None:
    connection.send(os.getpid())
    time.sleep(1_000)
