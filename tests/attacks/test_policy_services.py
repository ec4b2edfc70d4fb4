"""Policy services that hang, answer without an end, or answer with what is no decision."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.attacks.attacked_service import Form
from tests.attacks.memory import resident_bytes
from tests.services.catalog import CatalogServer
from tests.services.http_server import QuietHandler, serving
from tests.services.identity_provider import oidc_environment

KEY = RSAKey.generate_key(2048)
TIMEOUT_MS = 1_000
MOST_MORE_BYTES = 64 << 20
TABLE = "/v1/floecat/namespaces/ns/tables/t"


class Policy(QuietHandler):
    """Allows all, or attacks.

    Attributes:
        attack: what is done with the connection in the place of an answer.
    """

    attack: Callable[[Policy], object] | None = None

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if Policy.attack is not None:
            Policy.attack(self)
            return
        sent = json.dumps({"result": [True] * len(asked["input"]["checks"])}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


def _endless(policy: Policy) -> None:
    policy.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
    ends_s = time.monotonic() + 4 * TIMEOUT_MS / 1000
    while time.monotonic() < ends_s:
        policy.wfile.write(b'{"result":[' + b"true," * 10_000)


def _dripping(policy: Policy) -> None:
    policy.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    for _ in range(4 * TIMEOUT_MS // 100):
        policy.wfile.write(b" ")
        time.sleep(0.1)


def _garbage(policy: Policy) -> None:
    policy.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n[[[[[[[[[")


ATTACKS: dict[str, Callable[[Policy], object]] = {
    "silence": lambda _: time.sleep(2 * TIMEOUT_MS / 1000),
    "an endless answer": _endless,
    "an answer that drips": _dripping,
    "no decision": _garbage,
}


@pytest.fixture
def server(start_catalog: Callable[..., CatalogServer]) -> Iterator[CatalogServer]:
    with serving(Policy) as url:
        yield start_catalog(
            **oidc_environment(KEY, leeway_s=30),
            FLOECAT_AUTH_AUTHORIZER="opa",
            FLOECAT_AUTH_OPA_URL=url,
            FLOECAT_AUTH_OPA_TIMEOUT_MS=str(TIMEOUT_MS),
        )
    Policy.attack = None


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_policy_service_that_attacks(server: CatalogServer, form: Form, attack: str) -> None:
    environment = oidc_environment(KEY)
    claims = {
        "iss": environment["FLOECAT_OIDC_ISSUER"],
        "sub": "me",
        "account_id": environment["FLOECAT_GATEWAY_DEFAULT_ACCOUNT_ID"],
        "exp": int(time.time()) + 600,
    }
    headers = {"Authorization": f"Bearer {jwt.encode({'alg': 'RS256'}, claims, KEY)}"}

    def ask() -> int:
        return httpx.get(f"{server.base_url}{TABLE}", headers=headers, timeout=60).status_code

    with httpx.Client(base_url=server.base_url, headers=headers, timeout=60) as client:
        client.post("/v1/floecat/namespaces", json={"namespace": ["ns"]}).raise_for_status()
        schema = {"type": "struct", "fields": []}
        made = client.post(TABLE.rpartition("/")[0], json={"name": "t", "schema": schema})
        made.raise_for_status()
    assert ask() == 200
    before_bytes = resident_bytes(server.pid)
    Policy.attack = staticmethod(ATTACKS[attack])  # type: ignore[assignment]
    ends_s = time.monotonic() + form.lasts_s

    def attacked(_: int) -> Counter[int]:
        seen: Counter[int] = Counter()
        while not seen or time.monotonic() < ends_s:
            seen[ask()] += 1
        return seen

    with ThreadPoolExecutor(form.most_at_once) as threads:
        asked = [threads.submit(attacked, number) for number in range(form.most_at_once)]
        # the event loop waits for nobody
        assert httpx.get(f"{server.base_url}/health/live", timeout=60).status_code == 200
        seen = sum((each.result() for each in asked), Counter())
    assert set(seen) == {503}, seen
    assert resident_bytes(server.pid) - before_bytes < MOST_MORE_BYTES
    Policy.attack = None
    assert ask() == 200
