from __future__ import annotations

from uuid import UUID

import pytest

from floecat.errors import BadRequestError
from floecat.events.commit_cursor import CommitCursor

A = UUID(int=1)
B = UUID(int=2)


@pytest.mark.parametrize("text", [None, ""])
def test_nothing_is_the_start_of_every_catalog(text):
    assert CommitCursor.parse(text).position(A) == 0


def test_the_text_is_versioned_and_the_same_for_the_same_position():
    forwards = CommitCursor({A: 3, B: 7}).to_text()
    assert forwards == CommitCursor({B: 7, A: 3}).to_text()
    assert forwards == f'{{"version":1,"catalogs":{{"{A}":3,"{B}":7}}}}'
    assert CommitCursor.parse(forwards) == CommitCursor({A: 3, B: 7})


def test_it_advances_catalog_by_catalog():
    cursor = CommitCursor({A: 3}).advanced([(A, 4), (A, 5), (B, 1)])
    assert (cursor.position(A), cursor.position(B)) == (5, 1)


@pytest.mark.parametrize(
    "text",
    [
        "17",
        "not json",
        "{}",
        '{"version":1}',
        '{"version":1,"catalogs":{"floecat":1}}',
        f'{{"version":1,"catalogs":{{"{A}":"1"}}}}',
        f'{{"version":1,"catalogs":{{"{A}":-1}}}}',
        '{"version":1,"catalogs":{},"more":1}',
        '{"version":2,"catalogs":{}}',
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(BadRequestError, match="cursor"):
        CommitCursor.parse(text)
