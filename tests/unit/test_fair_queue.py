from __future__ import annotations

from typing import NamedTuple

import pytest

from floecat.fair_queue import FairQueue


class Item(NamedTuple):
    account: str
    number: int


def queue_of(*accounts: str) -> FairQueue[Item]:
    queue: FairQueue[Item] = FairQueue()
    for number, account in enumerate(accounts):
        queue.append(Item(account, number))
    return queue


def drained(queue: FairQueue[Item]) -> list[Item]:
    return [queue.popleft() for _ in range(len(queue))]


def test_accounts_take_turns_and_each_keeps_its_order() -> None:
    assert [item.number for item in drained(queue_of(*"aaaaabbc"))] == [0, 5, 7, 1, 6, 2, 3, 4]


def test_an_account_that_comes_later_waits_for_one_turn_of_the_others() -> None:
    queue = queue_of(*"aaaa")
    assert queue.popleft().number == 0
    queue.append(Item("b", 9))
    assert [item.number for item in drained(queue)] == [1, 9, 2, 3]


def test_what_was_taken_out_comes_no_more() -> None:
    queue = queue_of(*"aba")
    for gone in (Item("a", 0), Item("a", 0), Item("b", 1), Item("c", 7)):
        queue.remove(gone)
    assert (len(queue), list(queue)) == (1, [Item("a", 2)])
    assert drained(queue) == [Item("a", 2)]
    assert not queue


@pytest.mark.parametrize(
    ("accounts", "of", "expected"),
    [
        ("aaab", "c", Item("a", 2)),
        ("aaab", "b", Item("a", 2)),
        ("aabb", "b", None),
        ("aaab", "a", None),
        ("ab", "c", None),
        ("aa", "c", Item("a", 1)),
        ("", "c", None),
    ],
)
def test_room_is_made_by_the_account_with_most(accounts: str, of: str, expected: Item | None) -> None:
    queue = queue_of(*accounts)
    assert queue.make_room(of) == expected
    assert len(queue) == len(accounts) - (expected is not None)
