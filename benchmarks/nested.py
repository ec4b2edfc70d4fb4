"""Schemas of Gravitino's shape beside the same requests on the Iceberg side: lists, chains and drops."""

from __future__ import annotations

import argparse
import re
import socket
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import httpx

from benchmarks.figures import figure, progress
from benchmarks.servers import floecat, postgres

_NAMES = 10_000
_LEVELS = 10
_CHAINS = 100
_TURNS = 61
_LISTS_A_TURN = 100
_LARGEST = 1 << 20
_LARGEST_HEAD = 1 << 10
_TARGET = 1.2


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", action="store_true", help="on PostgreSQL instead of SQLite")
    parser.add_argument(
        "--names", type=int, default=_NAMES, help="schemas in all, a tenth in each of ten levels"
    )
    parser.add_argument("--chains", type=int, default=_CHAINS, help="chains of ten that are made and dropped")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        if arguments.postgresql:
            with postgres() as url, floecat(Path(made), {"FLOECAT_STORE_URL": url}) as service:
                _measure(service.api, arguments.names // _LEVELS, arguments.chains)
        else:
            with floecat(Path(made)) as service:
                _measure(service.api, arguments.names // _LEVELS, arguments.chains)


def _measure(api: str, width: int, chains: int) -> None:
    root, _, catalog = api.rpartition("/v1/")
    with httpx.Client(timeout=60) as client:
        metalake = client.get(f"{root}/api/metalakes").raise_for_status().json()["metalakes"][0]["name"]
        schemas = f"{root}/api/metalakes/{metalake}/catalogs/{catalog}/schemas"
        progress(f"{width * _LEVELS} schemas in {_LEVELS} levels")
        # each level is in the first schema of the level above
        for depth in range(_LEVELS):
            above = ["n0000"] * depth
            for number in range(width):
                client.post(
                    f"{api}/namespaces", json={"namespace": [*above, f"n{number:04}"]}
                ).raise_for_status()
        for depth in (0, _LEVELS // 2, _LEVELS - 1):
            _lists(schemas, f"{api}/namespaces", ["n0000"] * depth)
        _chains(client, schemas, api, chains)


class _Lists:
    """Asks for one list again and again, and reads answers in large pieces.

    wrk reads 8 KiB at a time. Schemas have ten times the bytes of names, so it would measure itself.
    """

    def __init__(self, url: str, encoding: str) -> None:
        parts = urlsplit(url)
        self._request = (
            f"GET {parts.path}?{parts.query} HTTP/1.1\r\n"
            f"Host: {parts.netloc}\r\nAccept-Encoding: {encoding}\r\n\r\n"
        ).encode()
        self._socket = socket.create_connection((parts.hostname, parts.port))
        self._received = memoryview(bytearray(_LARGEST))
        self.answered_bytes = 0

    def turn(self) -> float:
        """The median of some answers, in milliseconds."""
        return median(self._answer() for _ in range(_LISTS_A_TURN))

    def _answer(self) -> float:
        started = time.perf_counter()
        self._socket.sendall(self._request)
        size = self._socket.recv_into(self._received)
        head, _, _ = bytes(self._received[:_LARGEST_HEAD]).partition(b"\r\n\r\n")
        length = re.fullmatch(rb"HTTP/1.1 200 .*\r\ncontent-length: (\d+)\b.*", head, re.DOTALL)
        if length is None:
            raise RuntimeError(f"No list was answered: {head.decode()}")
        end = len(head) + 4 + int(length[1])
        while size < end:
            size += self._socket.recv_into(self._received[size:])
        self.answered_bytes = size
        return (time.perf_counter() - started) * 1000


def _lists(schemas: str, namespaces: str, parent: list[str]) -> None:
    if parent:
        schemas += f"?parentSchema={'%3A'.join(parent)}"
        namespaces += f"?parent={'%1F'.join(parent)}"
    # PyIceberg and Java's clients ask for gzip; Gravitino's Python client does not
    for encoding in ("gzip", "identity"):
        sides = _Lists(schemas, encoding), _Lists(namespaces, encoding)
        turns = [[side.turn() for side in sides] for _ in range(_TURNS)]
        ours, theirs = (median(side) for side in zip(*turns, strict=True))
        note = " beside ".join(f"{side.answered_bytes:,}" for side in sides) + " bytes"
        name = f"nested.list.{encoding}.level{len(parent)}"
        figure(name, ours, "ms", baseline=theirs, target=_TARGET, note=note)


def _chains(client: httpx.Client, schemas: str, api: str, chains: int) -> None:
    """Makes and drops chains, on one side and the other in turn: the store grows for both."""
    below = [f"l{depth}" for depth in range(1, _LEVELS)]
    took: dict[str, list[float]] = {"create": [], "drop": [], "create.iceberg": [], "drop.iceberg": []}
    for number in range(chains):
        ours, theirs = [f"s{number:05}", *below], [f"i{number:05}", *below]
        for what, method, url, body in (
            ("create", "POST", schemas, {"name": ":".join(ours)}),
            ("create.iceberg", "POST", f"{api}/namespaces", {"namespace": theirs}),
            ("drop", "DELETE", f"{schemas}/{'%3A'.join(ours)}", None),
            ("drop.iceberg", "DELETE", f"{api}/namespaces/{'%1F'.join(theirs)}", None),
        ):
            started = time.perf_counter()
            client.request(method, url, json=body).raise_for_status()
            took[what].append((time.perf_counter() - started) * 1000)
    for what in ("create", "drop"):
        figure(
            f"nested.{what}.chain-of-{_LEVELS}" if what == "create" else "nested.drop",
            median(took[what]),
            "ms",
            baseline=median(took[f"{what}.iceberg"]),
            target=_TARGET,
        )


if __name__ == "__main__":
    main()
