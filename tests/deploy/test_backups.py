"""The commands of `docs/operations.md` that copy a store and restore it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

import psycopg
import pytest
import sqlalchemy as sa

from floecat.runtime import prepare_store
from floecat.settings import load_settings
from floecat_rest.commands.options import open_call

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_what_came_after_the_backup_is_gone_after_the_restore(
    store: Literal["sqlite", "postgresql"], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    environ = {"FLOECAT_DATA_DIR": str(tmp_path / ".floecat")}
    if store == "postgresql":
        environ["FLOECAT_STORE_URL"] = request.getfixturevalue("postgres_url")
    settings = load_settings(environ=environ)
    prepare_store(settings)
    # embedded and PostgreSQL, first to back up and then to restore
    backup, restore = commands()[store == "postgresql" :: 2]
    with open_call(settings, None, None) as (kernel, call):
        kernel.catalog.namespaces.create(call, ("before",), {})
        run(backup, tmp_path, environ)
        kernel.catalog.namespaces.create(call, ("after",), {})
    if store == "postgresql":
        url = sa.make_url(environ["FLOECAT_STORE_URL"]).set(drivername="postgresql")
        with psycopg.connect(url.render_as_string(hide_password=False)) as connection:
            # a later version may have it
            connection.execute("CREATE TABLE floecat.later (id uuid REFERENCES floecat.catalogs (id))")
    run(restore, tmp_path, environ)
    prepare_store(settings)
    with open_call(settings, None, None) as (kernel, call):
        assert list(kernel.catalog.namespaces.walk(call)) == [("before",)]


def commands() -> list[str]:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Backups\n")[2].partition("\n## ")[0]
    found = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert len(found) == 4
    return found


def run(block: str, folder: Path, environ: dict[str, str]) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["sh", "-euc", block], cwd=folder, env={"PATH": path} | environ, check=True, timeout=120)
