from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from floecat.clock import SystemClock
from floecat.entries.calls import with_request_key
from floecat.entries.idempotency_keys import IdempotencyKeys, JsonAnswer
from floecat.errors import NotFoundError
from floecat.store.catalogs import accounts
from floecat.store.database.engine import Store
from tests.unit.entries.test_calls import CALL


def test_a_refusal_is_answered_although_another_request_took_the_key_over(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'floecat.db'}")
    store.upgrade()
    store.run(lambda conn: accounts.ensure(conn, UUID(int=1), 1))
    keys = IdempotencyKeys(store, SystemClock(), lifetime_ms=60_000, grace_ms=0, stale_after_ms=0)
    call = with_request_key(CALL, "key", "updateTable", (b"/v1/t",), b"{}")

    def first() -> None:
        with keys.claim(call, JsonAnswer(str)):
            with keys.claim(call, JsonAnswer(str)) as second:
                store.run(lambda conn: second.keep(conn, "of the second"))
            raise NotFoundError("of the first")

    with pytest.raises(NotFoundError, match="of the first"):
        first()
    assert keys.claim(call, JsonAnswer(str)).replay() == "of the second"
    store.close()
