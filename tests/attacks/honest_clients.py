"""Honest clients of a service, in a process of their own: `python -m tests.attacks.honest_clients URL`.

They load, list and commit at a steady rate until standard input is closed, then print their requests as JSON.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

__all__ = ["SCHEMA", "HonestClients", "Sample", "p99_ms"]

_CLIENTS = 4
_PERIOD_S = 0.04
_TIMEOUT_S = 60.0
_ROOT = Path(__file__).parents[2]
_FIELD = {"id": 1, "name": "id", "required": False, "type": "long"}
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [_FIELD]}


class Sample(NamedTuple):
    """A request. `at_s` is when it was sent, by the monotonic clock, which all processes share."""

    at_s: float
    took_ms: float
    outcome: str
    """The status, with a mark if a 503 has no `Retry-After`; the name of the exception without an answer."""


class HonestClients:
    """Starts such clients for a block, and ends them with it."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.attacks.honest_clients", self._base_url]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def samples(self) -> list[Sample]:
        """Ends the clients; returns all their requests."""
        assert self._process is not None
        output, _ = self._process.communicate(input="", timeout=2 * _TIMEOUT_S)
        return [Sample(*each) for each in json.loads(output)]

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def p99_ms(samples: Sequence[Sample]) -> float:
    """The 99th percentile of how long requests took; 0 without any."""
    took_ms = sorted(sample.took_ms for sample in samples) or [0.0]
    return took_ms[int(0.99 * (len(took_ms) - 1))]


class _Client:
    """One client with one connection, and a table of its own."""

    def __init__(self, host: str, number: int) -> None:
        self._connection = http.client.HTTPConnection(host, timeout=_TIMEOUT_S)
        self._table = f"/v1/floecat/namespaces/honest/tables/t{number}"
        self.samples: list[Sample] = []

    def prepare(self) -> None:
        """Makes the table."""
        self._call("POST", "/v1/floecat/namespaces", {"namespace": ["honest"]})
        name = self._table.rpartition("/")[2]
        made = self._call("POST", self._table.rpartition("/")[0], {"name": name, "schema": SCHEMA})
        assert made == "200", made

    def work(self, ends: threading.Event) -> None:
        """Sends requests at a steady rate. A slow answer delays the next one, and is not made up for."""
        commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
        cycle = [
            ("GET", self._table, None),
            ("GET", "/v1/floecat/namespaces/honest/tables", None),
            ("GET", self._table, None),
            ("POST", self._table, commit),
        ]
        while True:
            for method, path, body in cycle:
                if ends.wait(_PERIOD_S):
                    return
                at_s = time.monotonic()
                outcome = self._call(method, path, body)
                self.samples.append(Sample(at_s, (time.monotonic() - at_s) * 1000, outcome))

    def _call(self, method: str, path: str, body: object) -> str:
        headers = {"Content-Type": "application/json"}
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return type(error).__name__
        if answer.status == 503 and not answer.headers.get("Retry-After", "").isdigit():
            return "503 without Retry-After"
        return str(answer.status)


def main() -> None:
    """Runs the clients."""
    host = sys.argv[1].removeprefix("http://")
    clients = [_Client(host, number) for number in range(_CLIENTS)]
    for client in clients:
        client.prepare()
    ends = threading.Event()
    threads = [threading.Thread(target=client.work, args=(ends,)) for client in clients]
    for thread in threads:
        thread.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    ends.set()
    for thread in threads:
        thread.join()
    json.dump([sample for client in clients for sample in client.samples], sys.stdout)


if __name__ == "__main__":
    main()
