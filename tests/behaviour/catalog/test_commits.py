"""Commits under races, faults and lost answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import msgspec
import pytest
from msgspec.structs import replace

from floecat.auth.authorizer import Privilege
from floecat.auth.principals import Principal
from floecat.commits.commit import CreateTable
from floecat.entries.calls import Call, LoadedTable, PageRequest
from floecat.errors import (
    AlreadyExistsError,
    CommitFailedError,
    CommitStateUnknownError,
    FloecatError,
    IdempotencyConflictError,
    NoSuchNamespaceError,
    NoSuchTableError,
    StorageUnavailableError,
    UnavailableError,
)
from floecat.runtime import Kernel
from floecat.settings import BackoffSettings
from tests.behaviour.catalog.changes import SCHEMA, append, change, create, set_property, table
from tests.behaviour.catalog.conftest import with_key
from tests.services.faults import FaultyFileIO
from tests.services.lost_answers import lose_answers
from tests.storages import call_on


def metadata(loaded: LoadedTable) -> dict[str, object]:
    document: dict[str, object] = json.loads(loaded.metadata)
    return document


def files_of(loaded: LoadedTable) -> list[str]:
    """Names of the metadata files in the table's location."""
    folder = Path(urlparse(str(metadata(loaded)["location"])).path) / "metadata"
    return sorted(file.name for file in folder.iterdir())


def with_faults(kernel: Kernel) -> tuple[Kernel, FaultyFileIO]:
    faults = FaultyFileIO(kernel.files)
    return Kernel(kernel.settings, kernel.store, faults, kernel.clock), faults


def in_parallel(works: list[Callable[[], object]]) -> list[object]:
    """Runs all at once; a FloecatError is an outcome like any other."""
    outcomes: list[object] = [None] * len(works)
    gate = threading.Barrier(len(works))

    def run(position: int) -> None:
        gate.wait()
        try:
            outcomes[position] = works[position]()
        except FloecatError as error:
            outcomes[position] = error

    threads = [threading.Thread(target=run, args=(position,)) for position in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_commits_whose_requirements_hold_never_conflict(kernel: Kernel, call: Call) -> None:
    # two kernels share the store but no lock, as two processes do
    create(kernel, call, "t")
    other = Kernel(kernel.settings, kernel.store, kernel.files, kernel.clock)
    works = [
        lambda n=n, k=k: k.commits.tables.commit(call, set_property("t", f"k{n}", "1"))
        for n, k in enumerate([kernel, other] * 6)
    ]
    outcomes = in_parallel(works)
    assert [outcome for outcome in outcomes if isinstance(outcome, FloecatError)] == []
    final = metadata(kernel.catalog.tables.load(call, table("t")))
    properties = final["properties"]
    assert isinstance(properties, dict)
    assert sum(key.startswith("k") for key in properties) == 12
    log = final["metadata-log"]
    assert isinstance(log, list)
    assert len(log) == 12


def test_losers_of_a_race_leave_no_metadata_file(kernel: Kernel, call: Call) -> None:
    created = create(kernel, call, "t")
    location = str(metadata(created)["location"])
    outcomes = in_parallel(
        [lambda n=n: kernel.commits.tables.commit(call, append("t", n, None, location)) for n in range(1, 9)]
    )
    winners = [outcome for outcome in outcomes if isinstance(outcome, LoadedTable)]
    losers = [outcome for outcome in outcomes if not isinstance(outcome, LoadedTable)]
    assert len(winners) == 1
    assert all(isinstance(loser, CommitFailedError) for loser in losers)
    assert len(files_of(created)) == 2


def test_one_of_many_creates_wins(kernel: Kernel, call: Call) -> None:
    outcomes = in_parallel([lambda: create(kernel, call, "t") for _ in range(16)])
    winners = [outcome for outcome in outcomes if isinstance(outcome, LoadedTable)]
    assert len(winners) == 1
    assert {str(outcome) for outcome in outcomes if isinstance(outcome, AlreadyExistsError)} == {
        "Table already exists: ns.t"
    }
    loaded = kernel.catalog.tables.load(call, table("t"))
    assert loaded.metadata_location == winners[0].metadata_location
    warehouse = Path(urlparse(call.catalog.storage_location).path)
    assert len(list(warehouse.rglob("*.metadata.json"))) == 1


def test_a_namespace_that_is_dropped_meanwhile_takes_no_table(kernel: Kernel, call: Call) -> None:
    for _ in range(10):
        outcomes = in_parallel(
            [lambda: create(kernel, call, "t"), lambda: kernel.catalog.namespaces.drop(call, ("ns",))]
        )
        if isinstance(outcomes[0], LoadedTable):
            assert isinstance(outcomes[1], FloecatError)
            kernel.purge.drops.drop(call, table("t"), purge=False)
        else:
            assert isinstance(outcomes[0], NoSuchNamespaceError)
            assert outcomes[1] is None
            kernel.catalog.namespaces.create(call, ("ns",), {})


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_file_cannot_be_written_changes_nothing(kernel: Kernel, call: Call, when: str) -> None:
    created = create(kernel, call, "t")
    faulty, faults = with_faults(kernel)
    faults.fail("write_new", when=when)  # type: ignore[arg-type]
    with pytest.raises(StorageUnavailableError):
        faulty.commits.tables.commit(call_on(faulty, call), set_property("t", "x", "1"))
    assert faulty.catalog.tables.load(call, table("t")).metadata == created.metadata
    assert len(files_of(created)) == 1


def test_a_transaction_whose_second_file_fails_writes_none(kernel: Kernel, call: Call) -> None:
    before = [create(kernel, call, name) for name in "ab"]
    faulty, faults = with_faults(kernel)
    faults.refuse(str(metadata(before[1])["location"]))
    with pytest.raises(StorageUnavailableError):
        faulty.commits.tables.commit_transaction(
            call_on(faulty, call), [set_property(name, "x", "1") for name in "ab"]
        )
    assert [kernel.catalog.tables.load(call, table(name)).metadata for name in "ab"] == [
        loaded.metadata for loaded in before
    ]
    assert [len(files_of(loaded)) for loaded in before] == [1, 1]


def test_a_lost_answer_is_confirmed(kernel: Kernel, call: Call) -> None:
    created = create(kernel, call, "t")
    with lose_answers(kernel.store, applied=True):
        committed = kernel.commits.tables.commit(call, set_property("t", "x", "1"))
    assert kernel.catalog.tables.load(call, table("t")).metadata == committed.metadata
    assert len(files_of(created)) == 2


def test_an_unknown_outcome_is_said_and_keeps_the_file(kernel: Kernel, call: Call) -> None:
    created = create(kernel, call, "t")
    with lose_answers(kernel.store, applied=False), pytest.raises(CommitStateUnknownError):
        kernel.commits.tables.commit(call, set_property("t", "x", "1"))
    assert kernel.catalog.tables.load(call, table("t")).metadata == created.metadata
    assert len(files_of(created)) == 2


@pytest.mark.parametrize("applied", [True, False])
def test_a_retry_after_a_lost_answer_has_one_effect(kernel: Kernel, call: Call, applied: bool) -> None:
    created = create(kernel, call, "t")
    location = str(metadata(created)["location"])
    keyed = with_key(call, "0190a1b2-0000-7000-8000-000000000002")
    first = append("t", 1, None, location)
    with lose_answers(kernel.store, applied=applied, after=1):  # the claim is the first transaction
        if applied:
            kernel.commits.tables.commit(keyed, first)
        else:
            with pytest.raises(CommitStateUnknownError):
                kernel.commits.tables.commit(keyed, first)
    again = metadata(kernel.commits.tables.commit(keyed, first))
    snapshots = again["snapshots"]
    assert isinstance(snapshots, list)
    assert [snapshot["snapshot-id"] for snapshot in snapshots] == [1]
    assert again == metadata(kernel.catalog.tables.load(call, table("t")))


def test_commits_of_others_are_followed_up_to_the_bound(kernel: Kernel, call: Call) -> None:
    create(kernel, call, "t")
    replan = BackoffSettings(max_attempts=3, initial_sleep_ms=0, max_sleep_ms=0)
    gateway = replace(kernel.settings.gateway, commit=replace(kernel.settings.gateway.commit, replan=replan))
    others = [lambda: kernel.commits.tables.commit(call, set_property("t", "other", "1"))] * 2

    class Overtaken(FaultyFileIO):
        def write_new(self, *given: Any, **more: Any) -> None:
            if others:
                others.pop()()
            super().write_new(*given, **more)

    slow = Kernel(
        replace(kernel.settings, gateway=gateway), kernel.store, Overtaken(kernel.files), kernel.clock
    )
    slow.commits.tables.commit(call_on(slow, call), set_property("t", "own", "1"))
    others += [lambda: kernel.commits.tables.commit(call, set_property("t", "other", f"{len(others)}"))] * 3
    with pytest.raises(UnavailableError, match=r"\(floecat.gateway.commit.replan.max-attempts\)"):
        slow.commits.tables.commit(call_on(slow, call), set_property("t", "own", "2"))
    properties = metadata(kernel.catalog.tables.load(call, table("t")))["properties"]
    assert isinstance(properties, dict)
    assert (properties["other"], properties["own"]) == ("0", "1")


def test_unregister_is_a_fence(kernel: Kernel, call: Call) -> None:
    create(kernel, call, "t")
    outcomes = in_parallel(
        [
            *[
                lambda n=n: kernel.commits.tables.commit(call, set_property("t", f"k{n}", "1"))
                for n in range(6)
            ],
            lambda: kernel.catalog.tables.unregister(call, table("t")),
        ]
    )
    last = outcomes.pop()
    assert isinstance(last, LoadedTable)
    properties = metadata(last)["properties"]
    assert isinstance(properties, dict)
    committed = {f"k{n}" for n, outcome in enumerate(outcomes) if isinstance(outcome, LoadedTable)}
    assert {key for key in properties if key.startswith("k")} == committed
    for outcome in outcomes:
        assert isinstance(outcome, LoadedTable | NoSuchTableError)
    with pytest.raises(NoSuchTableError):
        kernel.commits.tables.commit(call, set_property("t", "late", "1"))


def test_a_transaction_may_create_tables(kernel: Kernel, call: Call) -> None:
    create(kernel, call, "a")
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
    }
    creation = change(
        "new",
        [
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": schema},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ],
        [{"type": "assert-create"}],
    )
    kernel.commits.tables.commit_transaction(call, [set_property("a", "x", "1"), creation])
    assert metadata(kernel.catalog.tables.load(call, table("new")))["metadata-log"] == []
    with pytest.raises(CommitFailedError, match="Requirement failed: table already exists"):
        kernel.commits.tables.commit_transaction(call, [set_property("a", "x", "2"), creation])
    properties = metadata(kernel.catalog.tables.load(call, table("a")))["properties"]
    assert isinstance(properties, dict)
    assert properties["x"] == "1"


def test_a_staged_table_is_completed_from_the_store(kernel: Kernel, call: Call) -> None:
    request = CreateTable(name="s", schema=SCHEMA, properties={"s3.secret-access-key": "hidden", "a": "b"})
    staged = kernel.commits.tables.stage_table(call, ("ns",), request, "stage-1")
    assert staged.metadata_location is None
    assert staged.etag is None
    assert kernel.catalog.tables.list(call, ("ns",), PageRequest()).items == []
    other = Kernel(kernel.settings, kernel.store, kernel.files, kernel.clock)
    only_assert = change("s", [], [{"type": "assert-create"}])
    made = metadata(other.commits.tables.commit(call, only_assert, "stage-1"))
    assert made["table-uuid"] == metadata(staged)["table-uuid"]
    assert made["location"] == metadata(staged)["location"]
    properties = made["properties"]
    assert isinstance(properties, dict)
    assert properties["a"] == "b"
    assert "s3.secret-access-key" not in properties


def test_the_commit_log_is_gapless_and_ordered(kernel: Kernel, call: Call) -> None:
    from floecat.store.commits import commit_log

    for name in "abc":
        create(kernel, call, name)
    in_parallel(
        [
            lambda n=n: kernel.commits.tables.commit(call, set_property("abc"[n % 3], f"k{n}", "1"))
            for n in range(9)
        ]
    )
    kernel.catalog.tables.rename(call, table("a"), table("z"))
    kernel.purge.drops.drop(call, table("b"), purge=True)
    with kernel.store.read() as conn:
        rows = commit_log.read_after(conn, call.catalog.id, 0, 100)
    assert [row.commit_version for row in rows] == list(range(1, 15))
    assert [row.operation for row in rows] == ["create"] * 3 + ["commit"] * 9 + ["rename", "drop"]


def test_a_staged_table_is_used_up_by_its_commit(kernel: Kernel, call: Call) -> None:
    request = CreateTable(name="s", schema=SCHEMA)
    staged = kernel.commits.tables.stage_table(call, ("ns",), request, "stage-1")
    completing = change("s", [], [{"type": "assert-create"}])
    kernel.commits.tables.commit(call, completing, "stage-1")
    kernel.purge.drops.drop(call, table("s"), purge=False)
    with pytest.raises(FloecatError):  # nothing is staged any more, and the commit alone describes no table
        kernel.commits.tables.commit(call, completing, "stage-1")
    assert not kernel.parts.entries.find_many(call, [(Privilege.WRITE_TABLE, table("s"))])
    assert staged.metadata


def test_a_staged_table_is_its_callers_own(kernel: Kernel, call: Call) -> None:
    kernel.commits.tables.stage_table(call, ("ns",), CreateTable(name="s", schema=SCHEMA), "stage-1")
    somebody = msgspec.structs.replace(call, principal=Principal("somebody", call.principal.account_id))
    with pytest.raises(FloecatError):
        kernel.commits.tables.commit(somebody, change("s", [], [{"type": "assert-create"}]), "stage-1")


def test_staging_again_under_a_key_is_the_same_staging(kernel: Kernel, call: Call) -> None:
    keyed = with_key(call, "0190a1b2-0000-7000-8000-000000000003", request_hash="one")
    request = CreateTable(name="s", schema=SCHEMA)
    first = kernel.commits.tables.stage_table(keyed, ("ns",), request, "k")
    assert kernel.commits.tables.stage_table(keyed, ("ns",), request, "k") == first
    other = with_key(call, "0190a1b2-0000-7000-8000-000000000003", request_hash="two")
    with pytest.raises(IdempotencyConflictError):
        kernel.commits.tables.stage_table(other, ("ns",), request, "k")


@pytest.mark.parametrize(
    "key",
    [
        "s3.secret-access-key",
        "adls.account-key",
        "adls.sas-token",
        "adls.connection-string",
        "client.api_key",
    ],
)
def test_secrets_are_not_kept_with_a_staged_table(kernel: Kernel, call: Call, key: str) -> None:
    request = CreateTable(name="s", schema=SCHEMA, properties={key: "hidden", "owner": "me"})
    kernel.commits.tables.stage_table(call, ("ns",), request, "stage-1")
    made = metadata(
        kernel.commits.tables.commit(call, change("s", [], [{"type": "assert-create"}]), "stage-1")
    )
    properties = made["properties"]
    assert isinstance(properties, dict)
    assert properties["owner"] == "me"
    assert key not in properties
