"""What the kernel loads before it is used."""

from __future__ import annotations

import json
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


_SERVE = """
import json, sys
import floecat_rest.app
from floecat.runtime import open_kernel, prepare_store
from floecat.settings import load_settings
settings = load_settings(overrides=json.loads(sys.argv[1]), environ={{}})
prepare_store(settings)
with_tables = open_kernel(settings)
with_tables.close()
print(json.dumps([name for name in sys.modules if name.startswith("floecat.delta.") or name in {heavy!r}]))
"""


def test_what_delta_tables_need_is_imported_with_the_first_of_them(tmp_path: Path) -> None:
    settings = {"floecat.data-dir": str(tmp_path)}
    heavy = [name for name in HEAVY if name not in ("alembic", "litestar")]
    command = [sys.executable, "-c", _SERVE.format(heavy=heavy), json.dumps(settings)]
    loaded = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert "floecat.delta.open_delta" in loaded
    assert not set(loaded) & {"floecat.delta.refresh.refresh_service", *heavy}
