from __future__ import annotations

from floecat.jobs.kinds import Backoff


def test_delays_double_up_to_the_bound() -> None:
    backoff = Backoff(base_ms=1000, max_ms=6000, random_fraction=lambda: 0.0)
    assert [backoff.delay_ms(attempts) for attempts in range(6)] == [1000, 1000, 2000, 4000, 6000, 6000]
    assert backoff.delay_ms(10_000) == 6000


def test_delays_are_spread_over_the_upper_half() -> None:
    assert Backoff(base_ms=1000, random_fraction=lambda: 0.5).delay_ms(1) == 750
    delays = {Backoff(base_ms=1_000_000, max_ms=1_000_000).delay_ms(1) for _ in range(50)}
    assert all(500_000 <= delay <= 1_000_000 for delay in delays)
    assert len(delays) > 10
