"""How many files of the product one warm request goes through: what a newcomer has to open to follow it.

A file counts if a function of it is entered; the framework's files do not. The application runs in this
process, with its threads, behind the ASGI interface that uvicorn calls.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import httpx
import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.figures import figure
from benchmarks.metadata import snapshot
from floecat.runtime import prepare_store
from floecat.settings import (
    DeltaCompatSettings,
    Duration,
    GatewaySettings,
    PlanningSettings,
    PurgeSettings,
    Settings,
    StatisticsSettings,
    StorageSettings,
)
from floecat_rest.app import create_app

ROOT = Path(__file__).parents[1]
_PRODUCT = tuple(f"{ROOT / folder}/" for folder in ("resources", "floecat_rest", "floecat_assets"))
_TARGETS = {"load": 30, "commit": 75, "delta-load": 129}
"""No more than today; merging modules for the count alone helps nobody."""
_REFRESH_AFTER_S = 0.2
_SCHEMA = {
    "type": "struct",
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}


class Walk:
    """Counts the files of the product whose functions are entered, in all threads, while it is on."""

    def __init__(self) -> None:
        """Watches threads that start from now on."""
        self._files: set[str] = set()
        self._on = False
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)

    def _enter(self, frame: FrameType, event: str, _: Any) -> None:
        if self._on and event == "call":
            self._files.add(frame.f_code.co_filename)

    @contextmanager
    def counted(self) -> Iterator[set[str]]:
        """The files that are entered in this block, relative to the project."""
        self._files.clear()
        found: set[str] = set()
        self._on = True
        try:
            yield found
        finally:
            self._on = False
            found |= {str(Path(name).relative_to(ROOT)) for name in self._files if name.startswith(_PRODUCT)}


def main() -> None:
    """Prints the figures; with `--files` also the files."""
    walk = Walk()
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        walks = asyncio.run(_walks(walk, Path(made)))
    for name, files in walks.items():
        figure(f"walks.{name}.files", len(files), "files", target=_TARGETS[name])
        figure(f"walks.{name}.packages", len({str(Path(file).parent) for file in files}), "packages")
        if "--files" in sys.argv:
            print("\n".join(f"  {file}" for file in sorted(files)))


async def _walks(walk: Walk, folder: Path) -> dict[str, set[str]]:
    settings = Settings(
        data_dir=str(folder / "data"),
        storage=StorageSettings(fsync=False),
        # no threads behind the requests
        statistics=StatisticsSettings(workers=0),
        purge=PurgeSettings(enabled=False),
        planning=PlanningSettings(workers=0),
        gateway=GatewaySettings(
            delta_compat=DeltaCompatSettings(refresh_after=Duration(int(_REFRESH_AFTER_S * 1000)))
        ),
    )
    prepare_store(settings)
    found: dict[str, set[str]] = {}
    async with _client(settings) as client:
        tables = "/v1/namespaces/bench/tables"
        await _ok(client.post("/v1/namespaces", json={"namespace": ["bench"]}))
        await _ok(client.post(tables, json={"name": "t", "schema": _SCHEMA}))
        location = (folder / "data" / "warehouse" / "t").as_uri()
        for number in (1, 2, 3):  # the first ones fill what stays in memory
            append = _append_of(location, number)
            found["commit"] = await _counted(walk, client.post(f"{tables}/t", json=append))
            found["load"] = await _counted(walk, client.get(f"{tables}/t"))
        delta = folder / "data" / "warehouse" / "delta"
        _append(delta)
        path = "/management/v1/catalogs/floecat/namespaces/bench/tables"
        await _ok(client.post(path, json={"name": "d", "format": "delta", "location": delta.as_uri()}))
        for _ in range(2):
            _append(delta)
            _append(delta)
            await asyncio.sleep(2 * _REFRESH_AFTER_S)
            found["delta-load"] = await _counted(walk, client.get(f"{tables}/d"))
    return found


def _append_of(location: str, number: int) -> dict[str, Any]:
    """A commit of one append, as clients send it."""
    parent = None if number == 1 else snapshot(location, number - 1, None)["snapshot-id"]
    added = snapshot(location, number, parent)
    main = {"ref-name": "main", "type": "branch", "snapshot-id": added["snapshot-id"]}
    return {
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}],
        "updates": [
            {"action": "add-snapshot", "snapshot": added},
            {"action": "set-snapshot-ref", **main},
        ],
    }


async def _counted(walk: Walk, answer: Awaitable[httpx.Response]) -> set[str]:
    with walk.counted() as files:
        await _ok(answer)
    return set(files)


def _append(table: Path) -> None:
    write_deltalake(table, pa.table({"id": [1, 2, 3]}), mode="append")


async def _ok(answer: Awaitable[httpx.Response]) -> None:
    got = await answer
    if got.is_error:
        raise RuntimeError(f"{got.request.url} was answered {got.status_code}: {got.text}")


@asynccontextmanager
async def _client(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application, between its startup and its shutdown."""
    app = create_app(settings)
    events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    done: asyncio.Queue[str] = asyncio.Queue()

    async def send(message: Any) -> None:
        await done.put(message["type"])

    lifespan = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}}, events.get, send))  # type: ignore[arg-type]
    await events.put({"type": "lifespan.startup"})
    if await done.get() != "lifespan.startup.complete":
        raise RuntimeError("the application did not start")
    try:
        transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client
    finally:
        await events.put({"type": "lifespan.shutdown"})
        await lifespan


if __name__ == "__main__":
    main()
