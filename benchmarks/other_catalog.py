"""An Iceberg REST catalog that costs little: many small tables, ETags, pages of 1,000 names.

Nobody uses it as a catalog: it answers what a connector asks. `POST /commit/N` gives a table its next state,
and `GET /calls` says how many requests it was sent by connectors.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import NAMESPACE_URL, uuid5

import httpx

from benchmarks.metadata import table_metadata
from benchmarks.servers import free_port, process, wait_for

__all__ = ["IN_A_NAMESPACE", "OtherCatalog", "other_catalog", "table_name"]

IN_A_NAMESPACE = 100
_PAGE = 1000
_SNAPSHOTS = 5


def table_name(number: int) -> tuple[str, str]:
    """Namespace and name of a table."""
    return f"n{number // IN_A_NAMESPACE:04}", f"t{number:06}"


class OtherCatalog:
    """One that runs.

    Attributes:
        url: as connectors have it.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def calls(self) -> int:
        """How many requests connectors have sent."""
        return int(httpx.get(f"{self.url}/calls").json())

    def commit(self, number: int) -> str:
        """Gives a table another state; returns the location of its metadata."""
        return str(httpx.post(f"{self.url}/commit/{number}").json())


@contextmanager
def other_catalog(folder: Path, lake: Path, tables: int, delay_ms: int = 0) -> Iterator[OtherCatalog]:
    """A catalog in a process of its own.

    Args:
        folder: for its log.
        lake: where its tables say that they lie.
        tables: how many it has.
        delay_ms: how long a load takes.
    """
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.other_catalog", str(port), lake.as_uri(), str(tables)]
    log = folder / f"other-{port}.log"
    with process([*command, str(delay_ms)], log) as started:
        made = OtherCatalog(f"http://127.0.0.1:{port}")
        wait_for(f"{made.url}/calls", started, log)
        yield made


class _Server:
    def __init__(self, lake: str, tables: int, delay_s: float) -> None:
        self._lake = lake
        self._tables = tables
        self._delay_s = delay_s
        self._states: Counter[int] = Counter()
        self._calls = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = dict(each.lower().split(": ", 1) for each in lines if each)
                status, etag, body = await self._answer(line.split(" ")[1], headers.get("if-none-match"))
                head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n"
                head += f"ETag: {etag}\r\n" if etag else ""
                writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, target: str, known: str | None) -> tuple[int, str, bytes]:
        parts = urlsplit(target)
        path = parts.path.split("/")[1:]
        if path[0] == "calls":
            return 200, "", str(self._calls).encode()
        if path[0] == "commit":
            number = int(path[1])
            self._states[number] += 1
            return 200, "", json.dumps(self._location(number)).encode()
        self._calls += 1
        if path[-1] == "config":
            return 200, "", b'{"defaults":{},"overrides":{}}'
        query = parse_qs(parts.query)
        if path[-1] == "namespaces":
            first = [] if "parent" in query else range(0, self._tables, IN_A_NAMESPACE)
            return 200, "", _page("namespaces", [[table_name(each)[0]] for each in first], query)
        if path[-1] == "tables":
            first_table = int(path[-2][1:]) * IN_A_NAMESPACE
            last = min(first_table + IN_A_NAMESPACE, self._tables)
            names = [table_name(each) for each in range(first_table, last)]
            found = [{"namespace": [namespace], "name": name} for namespace, name in names]
            return 200, "", _page("identifiers", found, query)
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        number = int(path[-1][1:])
        etag = f'"{number}-{self._states[number]}"'
        return (304, etag, b"") if known == etag else (200, etag, self._loaded(number))

    def _loaded(self, number: int) -> bytes:
        location = self._location(number).partition("/metadata/")[0]
        uuid = str(uuid5(NAMESPACE_URL, location))
        metadata = table_metadata(location, uuid, _SNAPSHOTS + self._states[number])
        return json.dumps({"metadata-location": self._location(number), "metadata": metadata}).encode()

    def _location(self, number: int) -> str:
        namespace, name = table_name(number)
        return f"{self._lake}/{namespace}/{name}/metadata/{self._states[number]:05}.metadata.json"


def _page(name: str, found: list[Any], query: dict[str, list[str]]) -> bytes:
    first = int(query.get("pageToken", ["0"])[0] or 0)
    token = str(first + _PAGE) if first + _PAGE < len(found) else None
    return json.dumps({name: found[first : first + _PAGE], "next-page-token": token}).encode()


async def _serve(port: int, server: _Server) -> None:
    async with await asyncio.start_server(server.serve, "127.0.0.1", port, backlog=256) as listening:
        await listening.serve_forever()


def main() -> None:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("lake")
    parser.add_argument("tables", type=int)
    parser.add_argument("delay_ms", type=int)
    given = parser.parse_args()
    asyncio.run(_serve(given.port, _Server(given.lake, given.tables, given.delay_ms / 1000)))


if __name__ == "__main__":
    main()
