"""What the kernel loads before it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAVY = ("alembic", "dagster", "deltalake", "fastavro", "litestar", "numpy", "pandas", "psycopg", "pyarrow")

_OPEN = """
import sys
from floecat.store.database.engine import Store
import floecat.runtime
store = Store.open(sys.argv[1])
store.ping()
store.close()
print(*(name for name in {heavy!r} if name in sys.modules))
"""


def test_the_kernel_loads_heavy_libraries_only_where_they_are_used(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _OPEN.format(heavy=HEAVY), f"sqlite:///{tmp_path}/floecat.db"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() == []


def test_the_driver_of_postgresql_comes_with_such_a_store() -> None:
    command = [sys.executable, "-c", _OPEN.replace("store.ping()", "").format(heavy=HEAVY)]
    command.append("postgresql://user@127.0.0.1:1/none")
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert loaded == ["psycopg"]
