"""Storage fails or hangs at each call of each operation, before and after the call had its effect."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from floecat.entries import writes
from floecat.entries.calls import Call
from floecat.errors import AlreadyExistsError, FloecatError, ForbiddenError, StorageUnavailableError
from floecat.runtime import Kernel
from tests.behaviour.catalog.changes import create, set_property, table
from tests.faults.operations import OPERATIONS, Operation, state_of
from tests.services.faults import FaultyFileIO, Kind, When
from tests.storages import call_on

# An operation on one file makes one of these; a fault in tidying up is no failure of the operation.
TIDYING: frozenset[Kind] = frozenset({"delete", "delete_many"})


def faulty(kernel: Kernel) -> tuple[Kernel, FaultyFileIO]:
    """A kernel over the same store without anything in memory, and its storage."""
    files = FaultyFileIO(kernel.files)
    return Kernel(kernel.settings, kernel.store, files, kernel.clock), files


def calls_of(kernel: Kernel, call: Call, operation: Operation) -> list[tuple[Kind, int]]:
    """Every call that the operation makes when all goes well: its kind, and the how manyth of its kind."""
    context = operation.prepare(kernel, call, "-clean")
    watched, files = faulty(kernel)
    operation.act(watched, call_on(watched, call), "-clean", context)
    assert operation.is_done(kernel, call, "-clean", context)
    seen: Counter[Kind] = Counter()
    found = []
    for kind, _ in files.calls:
        seen[kind] += 1
        found.append((kind, seen[kind]))
    return found


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_failing_call_changes_nothing_or_everything(
    kernel: Kernel, call: Call, name: str, when: When
) -> None:
    operation = OPERATIONS[name]
    calls = calls_of(kernel, call, operation)
    assert calls
    for kind, nth in calls:
        suffix = f"-{kind}-{nth}"
        context = operation.prepare(kernel, call, suffix)
        before = state_of(kernel, call)
        failing, files = faulty(kernel)
        files.fail(kind, nth=nth, when=when)
        if kind in TIDYING:
            operation.act(failing, call_on(failing, call), suffix, context)
        else:
            with pytest.raises(StorageUnavailableError):
                operation.act(failing, call_on(failing, call), suffix, context)
            assert state_of(kernel, call) == before, (kind, nth)
            operation.act(failing, call_on(failing, call), suffix, context)
        assert operation.is_done(kernel, call, suffix, context), (kind, nth)


@pytest.mark.parametrize("name", ["create", "commit", "transaction", "create view", "replace view"])
@pytest.mark.parametrize(
    "refusal", [ForbiddenError("no"), AlreadyExistsError("a folder")], ids=["forbidden", "taken"]
)
def test_what_storage_refuses_is_a_fault_of_storage(
    kernel: Kernel, call: Call, name: str, refusal: FloecatError
) -> None:
    operation = OPERATIONS[name]
    context = operation.prepare(kernel, call, "")
    failing, files = faulty(kernel)
    files.fail("write_new", error=refusal)
    with pytest.raises(StorageUnavailableError, match=refusal.message):
        operation.act(failing, call_on(failing, call), "", context)
    operation.act(failing, call_on(failing, call), "", context)
    assert operation.is_done(kernel, call, "", context)


@pytest.mark.parametrize(("soon_s", "deletes"), [(60.0, True), (0.0, False)])
def test_storage_that_took_long_to_fail_is_not_asked_again(
    kernel: Kernel, call: Call, monkeypatch: pytest.MonkeyPatch, soon_s: float, deletes: bool
) -> None:
    monkeypatch.setattr(writes, "_FAILS_SOON_S", soon_s)
    operation = OPERATIONS["commit"]
    context = operation.prepare(kernel, call, "")
    failing, files = faulty(kernel)
    files.fail("write_new", when="after")
    with pytest.raises(StorageUnavailableError):
        operation.act(failing, call_on(failing, call), "", context)
    assert ("delete" in [kind for kind, _ in files.calls]) == deletes
    operation.act(failing, call_on(failing, call), "", context)
    assert operation.is_done(kernel, call, "", context)


@pytest.mark.parametrize("name", ["create", "commit", "transaction", "create view", "replace view"])
def test_files_that_cannot_be_tidied_up_do_no_harm(kernel: Kernel, call: Call, name: str) -> None:
    operation = OPERATIONS[name]
    context = operation.prepare(kernel, call, "")
    before = state_of(kernel, call)
    failing, files = faulty(kernel)
    files.fail("write_new", when="after")
    files.fail("delete", times=9)
    with pytest.raises(StorageUnavailableError):
        operation.act(failing, call_on(failing, call), "", context)
    after = state_of(kernel, call)
    assert (after.tables, after.views) == (before.tables, before.views)
    files.clear()
    operation.act(failing, call_on(failing, call), "", context)
    assert operation.is_done(kernel, call, "", context)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_hanging_call_holds_up_nobody_else(kernel: Kernel, call: Call, name: str) -> None:
    operation = OPERATIONS[name]
    create(kernel, call, "bystander")
    for number, (kind, nth) in enumerate(calls_of(kernel, call, operation)):
        suffix = f"-{kind}-{nth}"
        context = operation.prepare(kernel, call, suffix)
        hanging, files = faulty(kernel)
        hang = files.hang(kind, nth=nth)
        outcome: list[object] = []

        def act(
            hanging: Kernel = hanging,
            suffix: str = suffix,
            context: dict[str, object] = context,
            outcome: list[object] = outcome,
        ) -> None:
            outcome.append(operation.act(hanging, call_on(hanging, call), suffix, context))

        thread = threading.Thread(target=act)
        thread.start()
        assert hang.reached.wait(120)
        hanging.commits.tables.commit(call_on(hanging, call), set_property("bystander", f"k{number}", "1"))
        assert (
            f'"k{number}"'.encode()
            in hanging.catalog.tables.load(call_on(hanging, call), table("bystander")).metadata
        )
        assert not outcome
        hang.release()
        thread.join(120)
        assert len(outcome) == 1
        assert operation.is_done(kernel, call, suffix, context)


def test_what_needs_no_storage_works_without(kernel: Kernel, call: Call) -> None:
    for name in "abc":
        create(kernel, call, name)
    without, files = faulty(kernel)
    call = call_on(without, call)
    files.refuse("/")
    without.catalog.tables.rename(call, table("a"), table("z"))
    without.catalog.tables.unregister(call, table("b"))
    without.purge.drops.drop(call, table("c"), purge=True)
    without.catalog.namespaces.create(call, ("other",), {})
    without.catalog.namespaces.drop(call, ("other",))
    assert b"table-uuid" in without.catalog.tables.load(call, table("z")).metadata
    with pytest.raises(StorageUnavailableError):
        without.commits.tables.commit(call, set_property("z", "k", "1"))
    files.clear()
    without.commits.tables.commit(call, set_property("z", "k", "1"))
