"""While the store is away, every operation says so, and none is let through."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from litestar.testing import TestClient

from floecat.errors import StoreUnavailableError
from floecat.runtime import Kernel
from floecat.settings import Settings
from tests.behaviour.access.conftest import token
from tests.behaviour.access.requests import operations, sent


def test_every_operation_is_503_while_the_store_is_away(
    settings: Settings, kernel: Kernel, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (("root", "platform"), ("nobody",), ("sue", "service"))
    users = [token(settings, *each) for each in names]
    for user in users:  # verified before, as tokens in use are
        client.get("/v1/config", headers=user)

    def away(*_: Any, **__: Any) -> NoReturn:
        raise StoreUnavailableError("The store does not answer")

    for name in ("read", "run"):
        monkeypatch.setattr(kernel.store, name, away)
    for operation in operations():
        method, url, body = sent(operation)
        answers = [client.request(method, url, json=body, headers=user).status_code for user in users]
        assert set(answers) <= {503, 403, 400}, (operation, answers)
        assert 503 in answers, (operation, answers)
