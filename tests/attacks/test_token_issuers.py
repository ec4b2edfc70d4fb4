"""Tokens that name keys which do not exist, and issuers whose documents are large, many or never end."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.attacks.attacked_service import Form
from tests.attacks.memory import resident_bytes
from tests.services.catalog import CatalogServer
from tests.services.token_issuer import Issuer, token_issuer

ACCOUNT = "5eaa9cd5-7d08-3750-9457-cfe800b0b9d2"
KEY, FOREIGN_KEY = (RSAKey.generate_key(2048, {"kid": kid}) for kid in ("known", "foreign"))
MOST_MORE_BYTES = 64 << 20
REFRESH_S = 1


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with token_issuer() as made:
        made.publish(KEY)
        yield made


@pytest.fixture
def server(issuer: Issuer, start_catalog: Callable[..., CatalogServer]) -> CatalogServer:
    return start_catalog(
        FLOECAT_GATEWAY_AUTH_MODE="oidc",
        FLOECAT_GATEWAY_DEFAULT_ACCOUNT_ID=ACCOUNT,
        FLOECAT_OIDC_ISSUER=issuer.url,
        FLOECAT_OIDC_KEYS_REFRESH_S=str(REFRESH_S),
    )


def ask(server: CatalogServer, issuer: Issuer, number: int, key: RSAKey = KEY, kid: str = "known") -> str:
    """The status for a token that was not seen before, which has to be verified."""
    claims = {
        "iss": issuer.url,
        "sub": f"user-{number}",
        "account_id": ACCOUNT,
        "exp": int(time.time()) + 600,
    }
    token = jwt.encode({"alg": "RS256", "kid": kid}, claims, key)
    answer = httpx.get(
        f"{server.base_url}/v1/config", headers={"Authorization": f"Bearer {token}"}, timeout=60
    )
    if answer.status_code == 503:
        assert int(answer.headers["retry-after"]) >= 1
    return str(answer.status_code)


def test_tokens_of_unknown_keys_beside_an_issuer_that_hangs(
    server: CatalogServer, issuer: Issuer, form: Form
):
    numbers = count()
    assert ask(server, issuer, next(numbers)) == "200"
    issuer.answers.clear()
    issuer.fetches.clear()
    before_bytes = resident_bytes(server.pid)
    ends_s = time.monotonic() + form.lasts_s + 2 * REFRESH_S

    def forge(_: int) -> Counter[str]:
        seen: Counter[str] = Counter()
        while not seen or time.monotonic() < ends_s:
            number = next(numbers)
            seen[ask(server, issuer, number, FOREIGN_KEY, kid=f"{number}-" * 20)] += 1
        return seen

    # more of them would leave no time to the honest one, which signs its tokens in the same process
    at_once = min(form.most_at_once, 16)
    try:
        with ThreadPoolExecutor(at_once) as attackers:
            forged = [attackers.submit(forge, each) for each in range(at_once)]
            honest: Counter[str] = Counter()
            while not honest or time.monotonic() < ends_s:
                honest[ask(server, issuer, next(numbers))] += 1
            statuses = sum((each.result() for each in forged), Counter[str]())
    finally:
        issuer.answers.set()
    assert set(honest) == {"200"}
    assert set(statuses) == {"503"}  # nobody could tell
    # one at a time, each of which is given up after five seconds
    assert 1 <= len(issuer.fetches) <= 2 + form.lasts_s // 5
    assert resident_bytes(server.pid) - before_bytes < MOST_MORE_BYTES


@pytest.mark.parametrize(
    ("document", "bound"),
    [
        (b'{"keys": [%s]}' % (b" " * (10 << 20)), "floecat.limits.issuer-document-bytes"),
        (
            json.dumps({"keys": [{"kty": "OKP", "kid": str(number)} for number in range(10_000)]}).encode(),
            "10000 keys, more than floecat.limits.issuer-keys (100)",
        ),
        (b'{"keys": ' + b"[" * 500_000, "nested deeper than"),
    ],
    ids=["10 MB", "10,000 keys", "500,000 levels"],
)
def test_key_sets_beyond_the_bounds(server: CatalogServer, issuer: Issuer, document: bytes, bound: str):
    assert ask(server, issuer, 0) == "200"
    before_bytes = resident_bytes(server.pid)
    issuer.bodies["/keys"] = document
    issuer.fetches.clear()
    for number in range(1, 6):
        time.sleep(REFRESH_S / 2)
        assert ask(server, issuer, number) == "200"
    assert "/keys" in issuer.fetches
    assert bound in server.log.read_text()
    assert resident_bytes(server.pid) - before_bytes < MOST_MORE_BYTES
