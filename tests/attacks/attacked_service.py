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

__all__ = ["LONG", "MOST_BYTES", "SHORT", "USERS", "Answer", "AttackedService", "Form", "Report"]

MOST_BYTES = 2 << 30
"""Resident memory that no attack may exceed."""

USERS = 40
"""How many namespaces `used0`, `used1`… a service has. Each holds a table `t`."""


@dataclass(frozen=True)
class Form:
    """How an attack is made: short beside other tests, or long on a machine that does nothing else.

    Attributes:
        most_at_once: how many attackers there are at most.
        lasts_s: the least time of an attack; one round is made in any case.
        quiet_s: how long honest clients are measured before it.
        never_slow_ms: p99 of honest clients that is always allowed; more is if it is 10 times that of before.
        checks_times: whether the machine is to itself, so that times can be asserted.
    """

    most_at_once: int
    lasts_s: float
    quiet_s: float
    never_slow_ms: float
    checks_times: bool


SHORT = Form(most_at_once=8, lasts_s=0.5, quiet_s=0.3, never_slow_ms=10_000.0, checks_times=False)
LONG = Form(most_at_once=100, lasts_s=20.0, quiet_s=3.0, never_slow_ms=100.0, checks_times=True)

_MOST_SLOWER = 10
_MOST_KEPT = 1.5
_HEAP_BYTES = 64 << 20
"""Heap that 40 threads keep for their next requests, whatever these are."""
_SETTLES_S = 90.0
"""Processes of the service that are free stay for a minute."""

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
        bytes_after: after it, once it fell or 90 s later.
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

    def check(self, form: Form) -> None:
        """Asserts the bounds."""
        assert {sample.outcome for sample in [*self.quiet, *self.attacked]} <= _ALLOWED, self
        assert p99_ms(self.attacked) <= max(_MOST_SLOWER * p99_ms(self.quiet), form.never_slow_ms), self
        assert self.peak_bytes <= MOST_BYTES, self
        assert self.bytes_after <= _may_keep(self.bytes_before), self


class AttackedService:
    """A service that is attacked, after some use. Its memory is bounded, to protect the machine."""

    def __init__(self, server: CatalogServer, form: Form) -> None:
        self.server = server
        self.form = form
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
            time.sleep(self.form.quiet_s)
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
        self, send: Callable[[], object], *, at_once: int, then: Callable[[], object] = lambda: None
    ) -> None:
        """Has attackers send at once, again and again for the time of the form, and checks the bounds.

        Args:
            send: sends a request.
            at_once: how many attackers, in the long form.
            then: waits for what the service still works on, before its memory is compared.
        """
        at_once = min(at_once, self.form.most_at_once)
        with self.attacked() as report, ThreadPoolExecutor(at_once) as attackers:
            ends_s = time.monotonic() + self.form.lasts_s
            while True:
                for sent in [attackers.submit(send) for _ in range(at_once)]:
                    sent.result()
                if time.monotonic() >= ends_s:
                    break
        then()
        report.bytes_after = self._settled(_may_keep(report.bytes_before))
        print(report)
        report.check(self.form)

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

        with ThreadPoolExecutor(USERS) as users:
            list(users.map(use, range(USERS)))

    def _settled(self, wanted_bytes: int) -> int:
        ends_s = time.monotonic() + _SETTLES_S
        while (found := resident_bytes(self.server.pid)) > wanted_bytes and time.monotonic() < ends_s:
            time.sleep(0.2)
        return found


def _may_keep(before_bytes: int) -> int:
    return int(_MOST_KEPT * before_bytes) + _HEAP_BYTES
