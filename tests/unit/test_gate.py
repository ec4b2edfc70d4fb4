from __future__ import annotations

from typing import NamedTuple

import pytest

from floecat.gate import FairQueue, Gate


class Request(NamedTuple):
    number: int
    account: str = "a"
    group: str | None = None
    units: int = 1


def test_units_are_granted_in_order_and_to_accounts_by_turns() -> None:
    gate: Gate[Request] = Gate(1)
    held, *waiting = (Request(number, account) for number, account in enumerate("aaabc"))
    assert gate.enter(held)
    for each in waiting:
        assert not gate.enter(each)
        assert gate.wait(each) is None
    assert len(gate) == 4
    assert [gate.leave(1)[0].number for _ in waiting] == [1, 3, 4, 2]
    assert gate.leave(1) == []
    assert gate.free == 1


def test_a_small_request_does_not_pass_a_large_one_that_waits() -> None:
    gate: Gate[Request] = Gate(3)
    held, large, small = Request(0, units=2), Request(1, units=2), Request(2)
    assert gate.enter(held)
    assert not gate.enter(large)
    gate.wait(large)
    assert not gate.enter(small)
    gate.wait(small)
    assert gate.withdraw(large)
    assert not gate.withdraw(large)
    assert gate.grant() == [small]


def test_one_that_goes_first_passes_all_others() -> None:
    gate: Gate[Request] = Gate(3)
    held, large, more = Request(0, units=2), Request(1, units=3), Request(2, units=2)
    assert gate.enter(held)
    gate.wait(large)
    assert gate.enter(Request(3), first=True)
    assert not gate.enter(more, first=True)
    gate.wait(more, first=True)
    assert gate.leave(1) == []
    assert gate.leave(1) == [more]
    assert gate.leave(1) == []
    assert gate.leave(2) == [large]


def test_a_group_leaves_units_to_others_and_groups_with_few_come_first() -> None:
    gate: Gate[Request] = Gate(5, most_of_group=3)
    calls = [Request(number, group=group) for number, group in enumerate("aaaabbb")]
    entered = [each for each in calls if gate.enter(each) or gate.wait(each)]
    assert [each.number for each in entered] == [0, 1, 2, 4, 5]
    assert gate.leave(1, "a") == []  # the last one is for another group
    assert [each.number for each in gate.leave(1, "b")] == [6]
    assert [each.number for each in gate.leave(1, "a")] == [3]


def test_one_more_than_may_wait_takes_the_place_of_the_account_with_most() -> None:
    gate: Gate[Request] = Gate(1, most_waiting=2)
    assert gate.enter(Request(0))
    assert [gate.wait(Request(number)) for number in (1, 2)] == [None, None]
    assert gate.wait(Request(3)) == Request(3)
    assert gate.wait(Request(4, "b")) == Request(2)
    assert gate.wait(Request(5, "b")) == Request(5, "b")
    assert gate.open() == [Request(1), Request(4, "b")]
    assert len(gate) == 0


def queue_of(*accounts: str) -> FairQueue[Request]:
    queue: FairQueue[Request] = FairQueue()
    for number, account in enumerate(accounts):
        queue.append(Request(number, account))
    return queue


def drained(queue: FairQueue[Request]) -> list[Request]:
    return [queue.popleft() for _ in range(len(queue))]


def test_accounts_take_turns_and_each_keeps_its_order() -> None:
    assert [item.number for item in drained(queue_of(*"aaaaabbc"))] == [0, 5, 7, 1, 6, 2, 3, 4]


def test_an_account_that_comes_later_waits_for_one_turn_of_the_others() -> None:
    queue = queue_of(*"aaaa")
    assert queue.popleft().number == 0
    queue.append(Request(9, "b"))
    assert [item.number for item in drained(queue)] == [1, 9, 2, 3]


def test_what_was_taken_out_comes_no_more() -> None:
    queue = queue_of(*"aba")
    for gone in (Request(0), Request(0), Request(1, "b"), Request(7, "c")):
        queue.remove(gone)
    assert (len(queue), list(queue)) == (1, [Request(2)])
    assert drained(queue) == [Request(2)]
    assert not queue


@pytest.mark.parametrize(
    ("accounts", "of", "expected"),
    [
        ("aaab", "c", Request(2)),
        ("aaab", "b", Request(2)),
        ("aabb", "b", None),
        ("aaab", "a", None),
        ("ab", "c", None),
        ("aa", "c", Request(1)),
        ("", "c", None),
    ],
)
def test_room_is_made_by_the_account_with_most(accounts: str, of: str, expected: Request | None) -> None:
    queue = queue_of(*accounts)
    assert queue.make_room(of) == expected
    assert len(queue) == len(accounts) - (expected is not None)
