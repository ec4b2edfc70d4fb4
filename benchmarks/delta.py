"""Delta tables: 300,000 files without and with statistics, the version after them, loads; deletion vectors.

The naive way, deltalake and PyIceberg's manifest writer, runs beside it on a part of the files, and its time
for the others is taken to grow with their number. `--files` and `--vectors` set smaller numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.delta_logs import link_large_table, write_checkpointed, write_with_vectors
from benchmarks.delta_naive import NaiveCost, naive_adds, naive_vectors
from benchmarks.figures import figure, progress
from benchmarks.servers import floecat
from benchmarks.wrk import run_wrk

_PREFIX = "FLOECAT_GATEWAY_DELTA_COMPAT"
_LARGE = 300_000
_NAIVE_ENTRIES = {"plain": 20_000, "statistics": 2_000}
_NAIVE_VECTORS = 100


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=_LARGE, help="files of the table with statistics")
    parser.add_argument("--vectors", type=int, default=10_000, help="files with deletion vectors")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        _plain(Path(made) / "plain")
        _with_statistics(Path(made) / "statistics", arguments.files)
        _vectors(Path(made) / "vectors", arguments.vectors)


def _plain(folder: Path) -> None:
    catalog = _Catalog(folder, {f"{_PREFIX}_MISSING_STATISTICS": "leave-out"})
    table = catalog.warehouse / "big"
    link_large_table(table)
    progress(f"the naive way for {_NAIVE_ENTRIES['plain']} of {_LARGE} files")
    naive = naive_adds(table, _NAIVE_ENTRIES["plain"])
    _first(catalog, table, "delta.300k", _LARGE, naive, adds_target=20_000)
    _next(catalog, table, "delta.300k")
    _loads(catalog, table, "delta.300k")


def _with_statistics(folder: Path, files: int) -> None:
    # by default the first version of such a table is left to the pipeline
    catalog = _Catalog(folder, {"FLOECAT_LIMITS_DELTA_LOG_BYTES_IN_REQUEST": "16GiB"})
    table = catalog.warehouse / "big"
    progress(f"writing a checkpoint of {files} files with statistics of 100 columns")
    write_checkpointed(table, files)
    progress(f"the naive way for {_NAIVE_ENTRIES['statistics']} of {files} files")
    naive = naive_adds(table, _NAIVE_ENTRIES["statistics"])
    _first(catalog, table, "delta.300k.statistics", files, naive)
    _next(catalog, table, "delta.300k.statistics", with_statistics=True)


def _first(
    catalog: _Catalog,
    table: Path,
    name: str,
    files: int,
    naive: NaiveCost,
    *,
    adds_target: float | None = None,
) -> None:
    progress(f"first materialisation of {files} files")
    done = catalog.work("register", table)
    figure(f"{name}.first.wall", done["wall_s"], "s")
    figure(
        f"{name}.first.adds-per-core",
        files / done["cpu_s"],
        "1/s",
        baseline=naive.files_per_s,
        target=adds_target,
        better="higher",
        note=(
            f"per second of CPU, of all threads; naive: log read whole in {naive.read_s:.1f} s,"
            f" {naive.written} of {naive.files} entries written, the others extrapolated"
        ),
    )
    figure(f"{name}.first.peak-rss", done["peak_rss_mib"], "MiB", target=2048)


def _next(catalog: _Catalog, table: Path, name: str, *, with_statistics: bool = False) -> None:
    progress("versions of 50 removed and 50 added files")
    options = ["--with-statistics"] if with_statistics else []
    for done, state in zip(catalog.work("next", table, *options)["versions"], ("cold", "warm"), strict=True):
        figure(
            f"{name}.next-version.{state}",
            done["wall_s"],
            "s",
            target=1.0,
            note=(
                f"a load that meets a version with 100 changed files in {done['manifests']} manifests;"
                f" {done['cpu_s']:.2f} s of CPU"
            ),
        )


def _loads(catalog: _Catalog, table: Path, name: str) -> None:
    done = catalog.work("load", table)
    figure(f"{name}.load.statements", done["statements"], "1", target=1)
    figure(f"{name}.load.storage-calls", done["calls"], "1", target=0)
    with floecat(catalog.folder, catalog.settings, name=catalog.name) as service:
        url = f"{service.api}/namespaces/bench/tables/{table.name}"
        run_wrk(url, 1, 1)
        run = run_wrk(url, 1)
        figure(f"{name}.load.c1.p50", run.p50_ms, "ms", note=f"{done['bytes']} bytes of metadata")
        figure(f"{name}.load.c1.p99", run.p99_ms, "ms")


def _vectors(folder: Path, files: int) -> None:
    tables = folder / "tables"
    few = tables / "few"
    write_with_vectors(few, _NAIVE_VECTORS)
    naive = naive_vectors(few)
    table = tables / "vectors"
    progress(f"writing {files} files with deletion vectors")
    write_with_vectors(table, files)
    for format_version in (2, 3):
        name = f"delta.vectors.v{format_version}"
        done = _build_vectors(folder, table, "materialise", format_version)
        _files_per_s(f"{name}.in-process", files, done)
        figure(
            f"{name}.in-process.files-per-core",
            files / done["cpu_s"],
            "1/s",
            baseline=naive.files_per_s if format_version == 2 else None,
            better="higher",
            note=f"naive: a table of {_NAIVE_VECTORS} files, position deletes by pyarrow",
        )
        done = _build_vectors(folder, table, "materialise-on-spark", format_version)
        _files_per_s(f"{name}.on-spark", files, done)


def _build_vectors(folder: Path, table: Path, work: str, format_version: int) -> dict[str, Any]:
    """Has a table made by a catalog of its own; artifacts are as if nobody had made any before."""
    progress(f"{work} as format version {format_version}")
    settings = {
        "FLOECAT_STORAGE_ALLOWED_LOCATIONS": str(table.parent),
        # else the difference is how long the disk takes, which object storage has no part in
        "FLOECAT_STORAGE_FSYNC": "false",
        # leaves everything to the pipeline
        f"{_PREFIX}_MAX_FILES_IN_REQUEST": "0",
    }
    shutil.rmtree(table / "metadata", ignore_errors=True)
    catalog = _Catalog(folder / f"{work}-{format_version}", settings)
    catalog.work("register", table, "--format-version", str(format_version))
    done = catalog.work(work, table)
    if done["deleted_rows"] != done["files"] * 100:
        raise SystemExit(f"{done['deleted_rows']} rows of {done['files']} files are deleted")
    return done


def _files_per_s(name: str, files: int, done: Mapping[str, Any]) -> None:
    figure(f"{name}.files", files / done["wall_s"], "1/s", better="higher")


class _Catalog:
    """A catalog in a folder, on which processes work one after the other.

    Attributes:
        folder: where the data folder lies.
        name: of the data folder.
        settings: beside that of the data folder.
        warehouse: folder of its tables.
    """

    name = "floecat"

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self.settings = {**settings, "FLOECAT_LOG_LEVEL": "warning", f"{_PREFIX}_WAIT": "PT1H"}
        self.warehouse = folder / self.name / "warehouse"
        self.warehouse.mkdir(parents=True)
        self._run([sys.executable, "-m", "floecat_rest", "db", "upgrade"])

    def work(self, work: str, table: Path, *options: str) -> dict[str, Any]:
        """Has a process of its own do something, and returns what it measured."""
        module = [sys.executable, "-m", "benchmarks.delta_work"]
        output = self._run([*module, work, table.name, "--location", table.as_uri(), *options])
        done: dict[str, Any] = json.loads(output.splitlines()[-1])
        return done

    def _run(self, command: list[str]) -> str:
        environ = {**os.environ, **self.settings, "FLOECAT_DATA_DIR": str(self.folder / self.name)}
        done = subprocess.run(command, env=environ, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
        return done.stdout


if __name__ == "__main__":
    main()
