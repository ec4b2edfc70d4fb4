"""Leases: a name that one owner holds for a time, so that one process at a time does a job.

Times come from the callers' clocks, so a lease should be much longer than these may differ.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from floecat.store.database.connections import Connection, PerDialect
from floecat.store.schema import leases as _leases

__all__ = ["acquire", "release", "renew"]


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
    """Extends a lease. One that expired is extended too, unless somebody took it meanwhile.

    Returns:
        False if the owner does not hold it any more.
    """
    parameters = {"lease": name, "holder": owner, "expires_at_ms": now_ms + duration_ms}
    return conn.change(_RENEW, parameters) == 1


def release(conn: Connection, name: str, owner: UUID) -> bool:
    """Gives a lease back.

    Returns:
        False if the owner did not hold it.
    """
    return conn.change(_RELEASE, {"lease": name, "holder": owner}) == 1
