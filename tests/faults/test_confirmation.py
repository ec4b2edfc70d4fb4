"""Finding out what became of a change, where the trail is not as plain as for a commit."""

from __future__ import annotations

import time

import pytest

from floecat.catalog.calls import Call
from floecat.errors import CommitStateUnknownError
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel
from tests.behaviour.catalog.changes import create, set_property, table
from tests.behaviour.catalog.conftest import with_key
from tests.faults.operations import OPERATIONS
from tests.services.lost_answers import lose_answers

REGISTRATIONS = ("register", "register view", "register over a table")


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("name", REGISTRATIONS)
def test_an_earlier_commit_of_the_same_file_confirms_no_registration(
    kernel: Kernel, call: Call, name: str, applied: bool
) -> None:
    # the log knows the file from the time before the drop, or from before the newer version
    operation = OPERATIONS[name]
    context = operation.prepare(kernel, call, "")
    with lose_answers(kernel.store, applied=applied):
        if applied:
            operation.act(kernel, call, "", context)
        else:
            with pytest.raises(CommitStateUnknownError):
                operation.act(kernel, call, "", context)
    assert operation.is_done(kernel, call, "", context) == applied


@pytest.mark.parametrize("applied", [True, False])
def test_a_key_whose_claim_was_in_doubt_is_not_held_for_a_minute(
    kernel: Kernel, call: Call, applied: bool
) -> None:
    create(kernel, call, "t")
    keyed = with_key(call, "0190a1b2-0000-7000-8000-000000000009")
    began = time.monotonic()
    with lose_answers(kernel.store, applied=applied):  # the claim is the first transaction
        try:
            kernel.commits.commit(keyed, set_property("t", "mark", "1"))
        except CommitStateUnknownError:
            kernel.commits.commit(keyed, set_property("t", "mark", "1"))
    assert time.monotonic() - began < 20
    assert b'"mark"' in kernel.tables.load(call, table("t")).metadata


@pytest.mark.parametrize("applied", [True, False])
def test_a_rename_in_doubt_is_the_same_after_a_retry_with_its_key(
    kernel: Kernel, call: Call, applied: bool
) -> None:
    create(kernel, call, "t")
    keyed = with_key(call, "0190a1b2-0000-7000-8000-00000000000a")
    other = TableIdentifier(("ns",), "renamed")
    with lose_answers(kernel.store, applied=applied, after=1):
        try:
            kernel.tables.rename(keyed, table("t"), other)
        except CommitStateUnknownError:
            kernel.tables.rename(keyed, table("t"), other)
    kernel.tables.rename(keyed, table("t"), other)
    assert b"table-uuid" in kernel.tables.load(call, other).metadata
