from __future__ import annotations

import threading
import time

import pytest

from floecat.errors import StoreUnavailableError
from floecat.store.jobs.leases import HeldLease, LeaseLostError


class Renewals:
    """Answers renewals in turn, the last answer from then on."""

    def __init__(self, *answers: bool | Exception) -> None:
        self._answers = list(answers)
        self.count = 0
        self.happened = threading.Semaphore(0)

    def __call__(self) -> bool:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        self.count += 1
        self.happened.release()
        if isinstance(answer, Exception):
            raise answer
        return answer


def held(renew: Renewals, duration_ms: int = 300, age_s: float = 0.0) -> HeldLease:
    return HeldLease("work", renew, duration_ms=duration_ms, taken_at=time.monotonic() - age_s)


def test_it_is_renewed_while_it_is_held_also_after_a_renewal_that_fails() -> None:
    renew = Renewals(StoreUnavailableError("away"), True)
    with held(renew, duration_ms=3000, age_s=1.9) as lease:
        for _ in range(3):  # so the second one has come to its end
            assert renew.happened.acquire(timeout=120)
        lease.check()


def test_it_ends_by_itself() -> None:
    with pytest.raises(LeaseLostError):
        held(Renewals(True), duration_ms=1000, age_s=1.0).check()


def test_it_is_lost_when_another_owner_has_it() -> None:
    renew = Renewals(False)
    with held(renew) as lease:
        assert renew.happened.acquire(timeout=120)
    with pytest.raises(LeaseLostError):
        lease.check()
    assert renew.count == 1
