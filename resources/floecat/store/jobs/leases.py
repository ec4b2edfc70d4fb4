"""Leases: a name that one owner holds for a time, so that one process at a time does a job.

Times come from the callers' clocks, so a lease should be much longer than these may differ.

`HeldLease` renews a lease in the background, of this table or of a job, and is asked before each step that
cannot be undone. It ends by the clock of this machine: a worker that was stopped for longer than the lease,
or whose store does not answer, gives up by itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from floecat.errors import FloecatError
from floecat.store.database.connections import Connection
from floecat.store.database.prepared_statements import PerDialect
from floecat.store.schema import id_column, integer_column, metadata, name_column

__all__ = ["HeldLease", "LeaseLostError", "acquire", "release", "renew"]

_leases: Final = sa.Table(
    "leases",
    metadata,
    name_column("name", primary_key=True),
    id_column("owner"),
    integer_column("acquired_at_ms"),
    integer_column("expires_at_ms"),
)

_log = logging.getLogger(__name__)


def _acquiring(statement: sqlite.Insert | postgresql.Insert) -> sa.Executable:
    offered = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=[_leases.c.name],
        set_={name: offered[name] for name in ("owner", "acquired_at_ms", "expires_at_ms")},
        where=sa.or_(_leases.c.expires_at_ms <= offered.acquired_at_ms, _leases.c.owner == offered.owner),
    )


_ACQUIRE: Final = PerDialect(_acquiring(sqlite.insert(_leases)), _acquiring(postgresql.insert(_leases)))
_HELD: Final = (_leases.c.name == sa.bindparam("lease"), _leases.c.owner == sa.bindparam("holder"))
_RENEW: Final = sa.update(_leases).where(*_HELD).values(expires_at_ms=sa.bindparam("expires_at_ms"))
_RELEASE: Final = sa.delete(_leases).where(*_HELD)


def acquire(conn: Connection, name: str, owner: UUID, now_ms: int, duration_ms: int) -> bool:
    """Takes a lease that is free, expired or already the owner's.

    Returns:
        Whether the owner holds it now, until `now_ms + duration_ms`.
    """
    parameters = {
        "name": name,
        "owner": owner,
        "acquired_at_ms": now_ms,
        "expires_at_ms": now_ms + duration_ms,
    }
    return conn.change(_ACQUIRE, parameters) == 1


def renew(conn: Connection, name: str, owner: UUID, now_ms: int, duration_ms: int) -> bool:
    """Extends a lease; one that expired is extended too, unless another owner has taken it.

    Returns:
        False if the owner no longer holds it.
    """
    parameters = {"lease": name, "holder": owner, "expires_at_ms": now_ms + duration_ms}
    return conn.change(_RENEW, parameters) == 1


def release(conn: Connection, name: str, owner: UUID) -> bool:
    """Releases a lease.

    Returns:
        False if the owner did not hold it.
    """
    return conn.change(_RELEASE, {"lease": name, "holder": owner}) == 1


class LeaseLostError(Exception):
    """The lease may have passed to another worker."""


class HeldLease:
    """A lease as a context: it is renewed every third of its duration until the context ends."""

    def __init__(self, what: str, renew: Callable[[], bool], *, duration_ms: int, taken_at: float) -> None:
        """Takes a lease that is held.

        Args:
            what: its name in the log.
            renew: extends it by `duration_ms` from now; False if another owner holds it.
            duration_ms: how long it is held without renewal.
            taken_at: when it was asked for, in seconds of `time.monotonic`.
        """
        self._what = what
        self._renew_now = renew
        self._duration_ms = duration_ms
        self._ends_at = taken_at + duration_ms / 1000
        self._lost = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_stopped, name="lease", daemon=True)

    def check(self) -> None:
        """Returns if the lease is surely still held.

        Raises:
            LeaseLostError: it may not be.
        """
        if self._lost or time.monotonic() >= self._ends_at:
            raise LeaseLostError

    def __enter__(self) -> HeldLease:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _renew_until_stopped(self) -> None:
        while not self._stop.wait(self._duration_ms / 3000):
            try:
                self._renew()
            except FloecatError as failure:
                # the lease still stands; there is time for another two tries
                _log.warning("the lease of %s was not renewed: %s", self._what, failure.message)
            if self._lost:
                return

    def _renew(self) -> None:
        started = time.monotonic()
        if self._renew_now():
            self._ends_at = started + self._duration_ms / 1000
        else:
            self._lost = True
