from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from floecat.events.catalog_events import shares

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def test_a_catalog_alone_gets_all():
    assert shares({A: 500}, 200) == {A: 200}


def test_what_a_quiet_catalog_does_not_need_goes_to_the_busy_ones():
    assert shares({A: 1000, B: 10, C: 1000}, 200) == {B: 10, A: 95, C: 95}


def test_catalogs_without_news_or_behind_their_cursor_get_none():
    assert shares({A: 0, B: -5, C: 2}, 200) == {C: 2}


def test_more_catalogs_than_room():
    assert sum(shares({UUID(int=number): 1 for number in range(300)}, 200).values()) == 200


@given(
    st.dictionaries(st.uuids(), st.integers(min_value=-10, max_value=500), max_size=20), st.integers(1, 300)
)
def test_the_room_is_used_up_and_nobody_gets_more_than_they_have(pending, limit):
    result = shares(pending, limit)
    assert sum(result.values()) == min(limit, sum(count for count in pending.values() if count > 0))
    assert all(0 < share <= pending[catalog_id] for catalog_id, share in result.items())
