"""Idempotency records: one effect per key (Iceberg REST specification, `Idempotency-Key`).

A request claims its key in a transaction of its own, and finishes it inside the transaction that makes its
change. The claim has an owner. A request that takes over a stale claim becomes the owner; the finish of
the previous owner then fails, and its change is rolled back. A finished record is replayed until it expires.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.errors import TransactionConflictError
from floecat.store.database.statements import LIMIT, insert_if_absent
from floecat.store.schema import id_column, integer_column, metadata, name_column, text_column

__all__ = [
    "ClaimResult",
    "Claimed",
    "Finished",
    "HashMismatch",
    "InProgress",
    "Scope",
    "claim",
    "delete_expired",
    "finish",
    "release",
]

_records: Final = sa.Table(
    "idempotency_records",
    metadata,
    id_column("account_id", primary_key=True),
    name_column("principal", primary_key=True),
    name_column("operation", primary_key=True),
    name_column("key", primary_key=True),
    text_column("request_hash"),
    id_column("owner"),
    sa.Column("outcome", sa.LargeBinary(), nullable=True),
    integer_column("claimed_at_ms"),
    integer_column("expires_at_ms", index=True),
)

ABANDONED_AFTER_MS: Final = 24 * 60 * 60 * 1000
"""Time that a claim is kept that is neither finished nor taken over."""

_MAX_LOOKS: Final = 8
_KEY: Final = (_records.c.account_id, _records.c.principal, _records.c.operation, _records.c.key)
_SCOPED: Final = tuple(column == sa.bindparam(f"of_{column.name}") for column in _KEY)
_OWNED: Final = (_records.c.owner == sa.bindparam("of_owner"), _records.c.outcome.is_(None))
_INSERT: Final = insert_if_absent(_records, *_KEY)
_FIND: Final = sa.select(
    _records.c.request_hash,
    _records.c.owner,
    _records.c.outcome,
    _records.c.claimed_at_ms,
    _records.c.expires_at_ms,
).where(*_SCOPED)
_TAKE_OVER: Final = (
    sa.update(_records)
    .where(
        *_SCOPED,
        _records.c.owner == sa.bindparam("seen_owner"),
        # a stale owner may have finished since it was looked at
        sa.or_(_records.c.outcome.is_(None), _records.c.expires_at_ms <= sa.bindparam("now_ms")),
    )
    .values(
        request_hash=sa.bindparam("request_hash"),
        owner=sa.bindparam("owner"),
        outcome=sa.null(),
        claimed_at_ms=sa.bindparam("claimed_at_ms"),
        expires_at_ms=sa.bindparam("expires_at_ms"),
    )
)
_FINISH: Final = (
    sa.update(_records)
    .where(*_SCOPED, *_OWNED)
    .values(outcome=sa.bindparam("outcome"), expires_at_ms=sa.bindparam("expires_at_ms"))
)
_RELEASE: Final = sa.delete(_records).where(*_SCOPED, *_OWNED)
_doomed: Final = (
    sa.select(*_KEY)
    .where(_records.c.expires_at_ms <= sa.bindparam("now_ms"))
    .order_by(_records.c.expires_at_ms)
    .limit(LIMIT)
)
_DELETE_EXPIRED: Final = sa.delete(_records).where(
    sa.tuple_(*_KEY).in_(_doomed), _records.c.expires_at_ms <= sa.bindparam("now_ms")
)


class Scope(NamedTuple):
    """The scope in which a key is unique."""

    account_id: UUID
    principal: str
    operation: str
    key: str


class Claimed(msgspec.Struct, frozen=True):
    """The key is the caller's now."""

    taken_over: bool = False
    """Whether another owner had claimed it and did not finish in time."""


class InProgress(msgspec.Struct, frozen=True):
    """Another request with this key is running."""

    claimed_at_ms: int


class Finished(msgspec.Struct, frozen=True):
    """The request was answered before."""

    outcome: bytes
    expires_at_ms: int


class HashMismatch(msgspec.Struct, frozen=True):
    """The key was used for another request."""


ClaimResult: TypeAlias = Claimed | InProgress | Finished | HashMismatch


class _Record(NamedTuple):
    request_hash: str
    owner: UUID
    outcome: bytes | None
    claimed_at_ms: int
    expires_at_ms: int


def claim(
    conn: Connection, scope: Scope, request_hash: str, owner: UUID, now_ms: int, stale_after_ms: int
) -> ClaimResult:
    """Claims a key, atomically among all who try.

    Args:
        conn: a transaction of its own; the change comes in a later one.
        scope: the key and what it is unique in.
        request_hash: distinguishes a retry from another request.
        owner: an id for this try; the same one again finds the claim it already has.
        stale_after_ms: age at which a claim without an answer may be taken over.

    Raises:
        TransactionConflictError: the record changed with every look; `Store.run` tries again.
    """
    parameters = _of(scope)
    fresh = {
        "request_hash": request_hash,
        "owner": owner,
        "claimed_at_ms": now_ms,
        "expires_at_ms": now_ms + ABANDONED_AFTER_MS,
    }
    for _ in range(_MAX_LOOKS):
        if conn.change(_INSERT, {**scope._asdict(), **fresh}) == 1:
            return Claimed()
        record = _look(conn, parameters)
        if record is None:
            continue
        expired = record.expires_at_ms <= now_ms
        if not expired:
            if record.owner == owner and record.outcome is None:
                return Claimed()  # an earlier look of this very try, whose COMMIT was not answered
            refused = _refusal(record, request_hash, now_ms - stale_after_ms)
            if refused is not None:
                return refused
        taken = {**parameters, **fresh, "seen_owner": record.owner, "now_ms": now_ms}
        if conn.change(_TAKE_OVER, taken) == 1:
            return Claimed(taken_over=not expired)
    raise TransactionConflictError("Another request with this idempotency key was faster")


def finish(conn: Connection, scope: Scope, owner: UUID, *, outcome: bytes, expires_at_ms: int) -> bool:
    """Stores the answer, in the transaction that makes the change.

    Returns:
        False if the claim was taken over. The caller must roll back.
    """
    parameters = {**_of(scope), "of_owner": owner, "outcome": outcome, "expires_at_ms": expires_at_ms}
    return conn.change(_FINISH, parameters) == 1


def release(conn: Connection, scope: Scope, owner: UUID) -> bool:
    """Releases a claim that was not finished, so that the key can be used again.

    Returns:
        False if it was finished or taken over; nothing is changed then.
    """
    return conn.change(_RELEASE, {**_of(scope), "of_owner": owner}) == 1


def delete_expired(conn: Connection, now_ms: int, limit: int) -> int:
    """Deletes expired records, oldest first.

    Returns:
        How many; fewer than `limit` when none are left.
    """
    return conn.change(_DELETE_EXPIRED, {"now_ms": now_ms, "limit": limit})


def _of(scope: Scope) -> dict[str, Any]:
    return {f"of_{name}": value for name, value in scope._asdict().items()}


def _look(conn: Connection, parameters: dict[str, Any]) -> _Record | None:
    row = conn.first(_FIND, parameters)
    return None if row is None else _Record(*row)


def _refusal(record: _Record, request_hash: str, stale_before_ms: int) -> ClaimResult | None:
    """The reason why a record that has not expired cannot be claimed; `None` if it is stale."""
    if record.request_hash != request_hash:
        return HashMismatch()
    if record.outcome is not None:
        return Finished(record.outcome, record.expires_at_ms)
    if record.claimed_at_ms > stale_before_ms:
        return InProgress(record.claimed_at_ms)
    return None
