"""A service under attack, with honest clients beside the attackers."""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.attacks.honest_clients import SCHEMA, HonestClients, Sample, p99_ms
from tests.attacks.memory import MemorySamples, bound_address_space, resident_bytes
from tests.services.catalog import CatalogServer

__all__ = ["MOST_BYTES", "Answer", "AttackedService", "Report"]

MOST_BYTES = 2 << 30
"""Resident memory that no attack may exceed."""

_MOST_SLOWER = 10
_NEVER_SLOW_MS = 250.0
"""Other tests on the machine may delay requests by this much, in one of the two measurements alone."""

_MOST_KEPT = 1.5
_HEAP_BYTES = 64 << 20
"""Heap that 40 threads keep for their next requests, whatever these are."""

_QUIET_S = 1.0
_USERS = 40
_SETTLES_S = 30.0
_LIMIT_BYTES = 8 << 30
_TIMEOUT_S = 200.0
_ALLOWED = {"200", "204", "503"}


@dataclass(frozen=True)
class Answer:
    """What an attacker is answered; no status if the service closed the connection."""

    status: int | None
    body: bytes = b""

    @property
    def is_refusal(self) -> bool:
        """Whether it is a 4xx or a 503."""
        return self.status is not None and (400 <= self.status < 500 or self.status == 503)


@dataclass
class Report:
    """What an attack did.

    Attributes:
        quiet: requests of honest clients before the attack.
        attacked: requests of honest clients during the attack.
        bytes_before: resident memory before the attack.
        peak_bytes: the most during it.
        bytes_after: after it, once it fell or 30 s later.
    """

    quiet: Sequence[Sample] = field(default_factory=list)
    attacked: Sequence[Sample] = field(default_factory=list)
    bytes_before: int = 0
    peak_bytes: int = 0
    bytes_after: int = 0

    def __str__(self) -> str:
        """One line of figures."""
        outcomes = dict(Counter(sample.outcome for sample in self.attacked))
        return (
            f"honest p99 {p99_ms(self.quiet):.1f} ms, during the attack {p99_ms(self.attacked):.1f} ms;"
            f" {outcomes}; memory {self.bytes_before >> 20} MiB, peak {self.peak_bytes >> 20} MiB,"
            f" after {self.bytes_after >> 20} MiB"
        )

    def is_slow(self, never_slow_ms: float) -> bool:
        """Whether honest clients were too slow. A p99 up to `never_slow_ms` is always allowed."""
        return p99_ms(self.attacked) > max(_MOST_SLOWER * p99_ms(self.quiet), never_slow_ms)

    def check(self, never_slow_ms: float) -> None:
        """Asserts the bounds; see `is_slow`."""
        assert {sample.outcome for sample in [*self.quiet, *self.attacked]} <= _ALLOWED, self
        assert not self.is_slow(never_slow_ms), self
        assert self.peak_bytes <= MOST_BYTES, self
        assert self.bytes_after <= _may_keep(self.bytes_before), self


class AttackedService:
    """A service that is attacked, after some use. Its memory is bounded, to protect the machine."""

    def __init__(self, server: CatalogServer) -> None:
        self.server = server
        bound_address_space(server.pid, _LIMIT_BYTES)
        self._use()

    @property
    def warehouse(self) -> Path:
        """The folder of its catalog."""
        return self.server.data_dir / "warehouse"

    @contextmanager
    def attacked(self) -> Iterator[Report]:
        """Measures honest clients without an attack, then during the block; fills in the report after it."""
        report = Report()
        with HonestClients(self.server.base_url) as honest:
            begun_s = time.monotonic()
            time.sleep(_QUIET_S)
            report.bytes_before = resident_bytes(self.server.pid)
            attacked_s = time.monotonic()
            with MemorySamples(self.server.pid) as memory:
                yield report
                ended_s = time.monotonic()
            samples = honest.samples()
        report.peak_bytes = memory.peak_bytes
        report.quiet = [sample for sample in samples if begun_s <= sample.at_s < attacked_s]
        report.attacked = [sample for sample in samples if attacked_s <= sample.at_s < ended_s]
        report.bytes_after = self._settled(_may_keep(report.bytes_before))

    def attack(
        self,
        send: Callable[[], object],
        *,
        at_once: int,
        least_s: float,
        never_slow_ms: float = _NEVER_SLOW_MS,
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        """Has attackers send at once, again and again for a time, and checks the bounds.

        If honest clients were slow, the attack is repeated once, and must not slow them again: other tests on
        the machine may have been in the way.

        Args:
            send: sends a request.
            at_once: how many attackers.
            least_s: how long, at least; one round in any case.
            never_slow_ms: see `Report.check`.
            prepare: called before each attack.
        """
        report = self._attack(send, at_once, least_s, prepare)
        if report.is_slow(never_slow_ms):
            report = self._attack(send, at_once, least_s, prepare)
        report.check(never_slow_ms)

    def _attack(
        self, send: Callable[[], object], at_once: int, least_s: float, prepare: Callable[[], object]
    ) -> Report:
        prepare()
        with self.attacked() as report, ThreadPoolExecutor(at_once) as attackers:
            ends_s = time.monotonic() + least_s
            while True:
                for sent in [attackers.submit(send) for _ in range(at_once)]:
                    sent.result()
                if time.monotonic() >= ends_s:
                    break
        print(report)
        return report

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """A request of an attacker, on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} | headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read())
        except (ConnectionError, http.client.HTTPException):
            return Answer(None)
        finally:
            connection.close()

    def _use(self) -> None:
        """Has all threads of the service work once: memory is compared with that of a service in use."""
        namespaces = "/v1/floecat/namespaces"

        def use(number: int) -> None:
            properties = {f"p{place}": "v" * 1000 for place in range(50)}
            self.send("POST", namespaces, json.dumps({"namespace": [f"used{number}"]}).encode())
            table = {"name": "t", "schema": SCHEMA, "properties": properties}
            made = self.send("POST", f"{namespaces}/used{number}/tables", json.dumps(table).encode())
            assert made.status == 200, made
            self.send("GET", f"{namespaces}/used{number}/tables/t")

        with ThreadPoolExecutor(_USERS) as users:
            list(users.map(use, range(_USERS)))

    def _settled(self, wanted_bytes: int) -> int:
        ends_s = time.monotonic() + _SETTLES_S
        while (found := resident_bytes(self.server.pid)) > wanted_bytes and time.monotonic() < ends_s:
            time.sleep(0.2)
        return found


def _may_keep(before_bytes: int) -> int:
    return int(_MOST_KEPT * before_bytes) + _HEAP_BYTES
