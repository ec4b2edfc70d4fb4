"""Queries: leases of a client, which see each table in one state."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import pytest
import uuid_utils.compat as uuids

from floecat.auth.principals import Principal
from floecat.entries.calls import Call
from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    NoSuchQueryError,
    NoSuchTableError,
    PinMismatchError,
    UnavailableError,
)
from floecat.planning.plans.plan_requests import PlanTableScan
from floecat.planning.plans.plans import PlanClient
from floecat.planning.queries import TableObligations, pin_identity
from floecat.runtime import Kernel
from floecat.settings.limits import LimitSettings
from tests.behaviour.catalog.changes import append, change, create, table
from tests.clocks import SetClock

T = table("t")
MINUTE_MS = 60_000


@pytest.fixture
def store_url(upgraded_store: Callable[[str], str]) -> str:
    """One store: its own tests ask both."""
    return upgraded_store("sqlite")


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def timed(kernel: Kernel, clock: SetClock) -> Kernel:
    """The kernel with a clock of its own and at most two open queries of a principal."""
    settings = msgspec.structs.replace(kernel.settings, limits=LimitSettings(open_queries_per_principal=2))
    return Kernel(settings, kernel.store, kernel.files, clock)


@pytest.fixture
def anna(timed: Kernel, call: Call) -> Call:
    return timed.catalog.calls.open(Principal("anna", call.principal.account_id), "floecat")


@pytest.fixture
def grow(timed: Kernel, anna: Call) -> Callable[[int], None]:
    """Appends the snapshot of a number to `t`, which is made with the first one."""

    def append_to(number: int) -> None:
        if number == 1:
            create(timed, anna, "t")
        location = timed.catalog.tables.load(anna, T).metadata_location or ""
        made = append("t", number, number - 1 or None, location.rpartition("/metadata/")[0])
        timed.commits.tables.commit(anna, made)

    return append_to


class TestLeases:
    def test_begun_renewed_ended(self, timed: Kernel, anna: Call, clock: SetClock) -> None:
        queries = timed.planning.queries
        query = queries.begin(anna)
        assert (query.row.state, query.row.expires_at_ms) == ("submitted", clock.ms + MINUTE_MS)
        assert queries.renew(anna, query.row.id, 10 * MINUTE_MS) == clock.ms + 10 * MINUTE_MS
        assert queries.renew(anna, query.row.id, 1) == clock.ms + 10 * MINUTE_MS
        queries.complete(anna, query.row.id)
        assert queries.get(anna, query.row.id).row.state == "completed"
        for _ in range(2):
            queries.end(anna, query.row.id, commit=True)
        assert queries.get(anna, query.row.id).row.state == "ended_commit"
        with pytest.raises(NoSuchQueryError, match="ended"):
            queries.renew(anna, query.row.id)
        clock.ms += MINUTE_MS
        with pytest.raises(NoSuchQueryError):
            queries.get(anna, query.row.id)

    def test_no_lease_is_longer_than_ten_minutes(self, timed: Kernel, anna: Call, clock: SetClock) -> None:
        query = timed.planning.queries.begin(anna, ttl_ms=100 * MINUTE_MS)
        clock.ms += 10 * MINUTE_MS
        with pytest.raises(NoSuchQueryError):
            timed.planning.queries.get(anna, query.row.id)

    def test_ids_of_clients(self, timed: Kernel, anna: Call) -> None:
        query_id = uuids.uuid7()
        timed.planning.queries.begin(anna, query_id=query_id)
        with pytest.raises(AlreadyExistsError):
            timed.planning.queries.begin(anna, query_id=query_id)

    def test_of_others(self, timed: Kernel, anna: Call) -> None:
        query_id = timed.planning.queries.begin(anna).row.id
        bert = timed.catalog.calls.open(Principal("bert", anna.principal.account_id), "floecat")
        for ask in (
            timed.planning.queries.get,
            timed.planning.queries.renew,
            timed.planning.queries.complete,
        ):
            with pytest.raises(NoSuchQueryError):
                ask(bert, query_id)

    def test_are_bounded(self, timed: Kernel, anna: Call) -> None:
        first, _ = timed.planning.queries.begin(anna), timed.planning.queries.begin(anna)
        with pytest.raises(UnavailableError, match="open-queries-per-principal is 2"):
            timed.planning.queries.begin(anna)
        timed.planning.queries.end(anna, first.row.id, commit=False)
        timed.planning.queries.begin(anna)

    def test_obligations_are_kept(self, timed: Kernel, anna: Call) -> None:
        owed = TableObligations(table_id=uuids.uuid7(), masks={"name": "'***'"}, row_filter="region = 'eu'")
        query = timed.planning.queries.begin(anna, obligations=[owed])
        assert timed.planning.queries.get(anna, query.row.id).obligations == [owed]


class TestPins:
    def test_the_first_touch_wins(self, timed: Kernel, anna: Call, grow: Callable[[int], None]) -> None:
        grow(1)
        query_id = timed.planning.queries.begin(anna).row.id
        first = timed.planning.queries.pin(anna, query_id, T)
        assert (first.kind, first.snapshot_id) == ("current", 1)
        grow(2)
        assert timed.planning.queries.pin(anna, query_id, T) == first
        assert timed.planning.queries.pin(anna, query_id, T, snapshot_id=1) == first
        assert timed.planning.queries.get(anna, query_id).pins == [first]
        with pytest.raises(PinMismatchError, match=r"reads snapshot 1 of ns\.t, and now asks for 2"):
            timed.planning.queries.pin(anna, query_id, T, snapshot_id=2)
        other = timed.planning.queries.pin(anna, timed.planning.queries.begin(anna).row.id, T)
        assert other.snapshot_id == 2
        assert pin_identity(other) != pin_identity(first)

    def test_a_pin_outlives_its_snapshot(
        self, timed: Kernel, anna: Call, grow: Callable[[int], None]
    ) -> None:
        grow(1)
        query_id = timed.planning.queries.begin(anna).row.id
        pinned = timed.planning.queries.pin(anna, query_id, T)
        grow(2)
        gone = {"action": "remove-snapshots", "snapshot-ids": [1]}
        timed.commits.tables.commit(anna, change("t", [gone]))
        assert timed.planning.queries.pin(anna, query_id, T, snapshot_id=1) == pinned

    def test_as_of_a_time(self, timed: Kernel, anna: Call, grow: Callable[[int], None]) -> None:
        grow(1)
        time.sleep(0.002)  # snapshots have the time of the machine
        between = time.time_ns() // 1_000_000
        time.sleep(0.002)
        grow(2)
        query = timed.planning.queries.begin(anna, as_of_default_ms=between)
        pinned = timed.planning.queries.pin(anna, query.row.id, T)
        assert (pinned.kind, pinned.snapshot_id, pinned.first_as_of_ms) == ("as_of", 1, between)
        with pytest.raises(BadRequestError, match="no snapshot as of"):
            timed.planning.queries.pin(anna, query.row.id, T, as_of_ms=1)
        timed.planning.queries.pin(anna, query.row.id, T, as_of_ms=between + 1)
        [kept] = timed.planning.queries.get(anna, query.row.id).pins
        assert (kept.first_as_of_ms, kept.last_as_of_ms) == (between, between + 1)

    def test_what_is_not_there(self, timed: Kernel, anna: Call, grow: Callable[[int], None]) -> None:
        create(timed, anna, "empty")
        query_id = timed.planning.queries.begin(anna).row.id
        assert timed.planning.queries.pin(anna, query_id, table("empty")).snapshot_id is None
        with pytest.raises(NoSuchTableError):
            timed.planning.queries.pin(anna, query_id, table("nothing"))
        grow(1)
        with pytest.raises(BadRequestError, match="no snapshot 9"):
            timed.planning.queries.pin(anna, query_id, T, snapshot_id=9)
        with pytest.raises(NoSuchQueryError):
            timed.planning.queries.pin(anna, uuids.uuid7(), T)

    def test_a_plan_is_a_query_with_a_pin(self, timed: Kernel, anna: Call) -> None:
        create(timed, anna, "empty")
        plan = timed.planning.plans.plan(anna, table("empty"), PlanTableScan(), PlanClient(MINUTE_MS))
        query = timed.planning.queries.get(anna, plan.plan_id)
        assert query.row.state == "ended_commit"
        assert [pin.snapshot_id for pin in query.pins] == [None]
