"""Plans in the store, as principals find them: each is of one table and one principal."""

from __future__ import annotations

from uuid import UUID

from floecat.auth.authorizer import Privilege
from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.entries.names import existing_entry
from floecat.errors import NoSuchPlanIdError
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.database.engine import Connection, Store
from floecat.store.planning import plans, queries
from floecat.store.planning.plans import PlanRow
from floecat.store.planning.queries import QueryRow

__all__ = ["REPLAY_MS", "PlanRows"]

REPLAY_MS = 60_000
"""Time that a plan is kept after it has answered everything, in case that an answer was lost."""


class PlanRows:
    """Finds plans, and keeps those alive that are asked for."""

    def __init__(self, store: Store, clock: Clock, *, ttl_ms: int) -> None:
        self._store = store
        self._clock = clock
        self.ttl_ms = ttl_ms

    def find(self, call: Call, identifier: TableIdentifier, plan_id: UUID) -> tuple[QueryRow, PlanRow]:
        """A plan of a table.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            NoSuchPlanIdError: there is no such plan of this table and principal, or it has expired.
        """
        entry = existing_entry(self._store, call, "table", identifier, Privilege.READ_TABLE)
        now_ms = self._clock.now_ms()
        with self._store.read() as conn:
            found = plans.get(conn, plan_id, now_ms)
        if found is None or found[1].entry_id != entry.id or found[0].principal != call.principal.name:
            raise NoSuchPlanIdError(f"Plan does not exist: {plan_id}")
        query, _ = found
        if query.ended_at_ms is None and query.expires_at_ms - now_ms < self.ttl_ms // 2:
            self._store.run(lambda conn: self.renew(conn, plan_id))
        return found

    def renew(self, conn: Connection, plan_id: UUID) -> None:
        """Starts the time of a plan again."""
        now_ms = self._clock.now_ms()
        queries.renew(conn, plan_id, now_ms + self.ttl_ms, now_ms)
