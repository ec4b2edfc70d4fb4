"""Builds a Delta table here and on a Spark Connect server, and compares the files.

`python -m tests.unit.assets.spark.on_connect FOLDER`. The server is Sail, another implementation than Spark's
own. In a process of its own, since a process speaks either Spark Connect or the other way.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pysail.spark import SparkConnectServer

from floecat.runtime import open_kernel, prepare_store
from floecat.settings import load_settings
from floecat_assets.spark.delta_chunks import spark_chunks
from floecat_assets.spark.sessions import SparkPlace, open_session
from tests.behaviour.delta.conftest import Lake, delta_table
from tests.unit.assets.spark.test_delta_chunks import OPEN_FILES, build


def main(folder: Path) -> None:
    """Exits with an error if the two differ."""
    server: Any = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    host, port = server.listening_address
    session = open_session(SparkPlace(remote=f"sc://{host}:{port}"))
    table = delta_table(folder / "table", files=3)
    table.delete({0: [1], 1: [2]})
    try:
        here = build(_open(folder / "here"), table)
        there = build(
            _open(folder / "there"), table, lambda allowed: spark_chunks(session, OPEN_FILES, allowed)
        )
    finally:
        session.stop()
        server.stop()
    if here != there:
        raise SystemExit(f"{sorted(name for name in here if here[name] != there.get(name))} differ")
    print(f"{len(here)} files are the same")


def _open(data_dir: Path) -> Lake:
    settings = load_settings(
        environ={},
        overrides={
            "floecat.data-dir": str(data_dir),
            "floecat.storage.fsync": False,
            "floecat.storage.allowed-locations": [str(data_dir.parent)],
        },
    )
    prepare_store(settings)
    return Lake(open_kernel(settings), data_dir.parent)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
