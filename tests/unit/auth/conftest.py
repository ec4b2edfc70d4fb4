from __future__ import annotations

from collections.abc import Iterator

import pytest
from joserfc.jwk import RSAKey

from tests.services.token_issuer import Issuer, token_issuer


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with token_issuer() as made:
        yield made


@pytest.fixture(scope="session")
def rsa_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "rsa-1"})
