"""Mutations that happen once per idempotency key (Iceberg REST specification, `Idempotency-Key`).

A key is claimed before the work. The answer is stored in the SQL transaction that makes the change, by the
owner of the claim: whoever lost it to a takeover rolls back. So a key has exactly one effect, whatever
crashes. Answers and deterministic refusals are replayed; failures of the service are not, their key may be
tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

import floecat.errors
from floecat.catalog.calls import Call
from floecat.clock import Clock
from floecat.errors import (
    BadRequestError,
    CommitStateUnknownError,
    ConflictError,
    FloecatError,
    IdempotencyConflictError,
    IllegalArgumentError,
    LocationNotAllowedError,
    NotFoundError,
    UnavailableError,
    UnprocessableError,
    UnsupportedOperationError,
)
from floecat.store import idempotency
from floecat.store.engine import Connection, Store

__all__ = ["AnswerCodec", "Finish", "JsonAnswer", "Mutations"]

T = TypeVar("T")
A_contra = TypeVar("A_contra", contravariant=True)

_log = logging.getLogger(__name__)

_TERMINAL = (
    BadRequestError,
    ConflictError,
    IllegalArgumentError,
    LocationNotAllowedError,
    NotFoundError,
    UnprocessableError,
    UnsupportedOperationError,
)
_POLL_S = 0.05


class Finish(Protocol[A_contra]):
    """Called with the answer, inside the transaction that makes the change."""

    def __call__(self, conn: Connection, answer: A_contra, /) -> None:
        """Stores the answer under the key.

        Raises:
            Exception: the claim was lost; the transaction must roll back.
        """
        ...


class AnswerCodec(Protocol[T]):
    """How an answer is stored for replay."""

    def encode(self, answer: T) -> bytes:
        """The answer as JSON."""
        ...

    def decode(self, data: bytes) -> T:
        """The answer of `encode`."""
        ...


class JsonAnswer(Generic[T]):
    """Stores small answers whole."""

    def __init__(self, model: type[T]) -> None:
        """Takes the type of the answer."""
        self._model = model

    def encode(self, answer: T) -> bytes:
        """The answer as JSON."""
        return msgspec.json.encode(answer)

    def decode(self, data: bytes) -> T:
        """The answer of `encode`."""
        return msgspec.json.decode(data, type=self._model)


class _Answered(msgspec.Struct, tag="answered"):
    answer: msgspec.Raw


class _Refused(msgspec.Struct, tag="refused"):
    error: str
    message: str


class _ClaimLost(Exception):  # noqa: N818 - a signal that rolls a transaction back
    pass


class _Claim:
    """One claimed key and its owner."""

    def __init__(self, scope: idempotency.Scope, owner: UUID, expires_at_ms: int) -> None:
        self.scope = scope
        self.owner = owner
        self.expires_at_ms = expires_at_ms

    def finish(self, conn: Connection, outcome: _Answered | _Refused) -> None:
        encoded = msgspec.json.encode(outcome)
        kept = idempotency.finish(
            conn, self.scope, self.owner, outcome=encoded, expires_at_ms=self.expires_at_ms
        )
        if not kept:
            raise _ClaimLost


class Mutations:
    """Runs mutations under their idempotency keys."""

    def __init__(
        self, store: Store, clock: Clock, *, lifetime_ms: int, grace_ms: int, stale_after_ms: int
    ) -> None:
        """Takes the store and the times of the key's life.

        Args:
            store: where keys are kept.
            clock: wall-clock time.
            lifetime_ms: advertised lifetime of a key.
            grace_ms: how long beyond it an answer is kept.
            stale_after_ms: after which time a claim without an answer may be taken over.
        """
        self._store = store
        self._clock = clock
        self._keep_ms = lifetime_ms + grace_ms
        self._stale_after_ms = stale_after_ms

    def run(self, call: Call, codec: AnswerCodec[T], work: Callable[[Finish[T]], T]) -> T:
        """The answer of the work, or of the earlier request with the same key.

        Args:
            call: who asks; without an idempotency key the work just runs.
            codec: how the answer is stored.
            work: makes the change, and calls its argument as the last thing inside the transaction, with the
                answer; also when it finds nothing to change.

        Raises:
            IdempotencyConflictError: the key was used for another request.
            UnavailableError: a request with this key has been running for too long.
            CommitStateUnknownError: the store did not say whether the change was applied.
            FloecatError: whatever the work raises, or raised the first time.
        """
        if call.request is None:
            return work(_finish_nothing)
        while True:
            claimed = self._claim(call)
            if isinstance(claimed, idempotency.Finished):
                return _replay(claimed.outcome, codec)
            try:
                return self._run_claimed(claimed, codec, work)
            except _ClaimLost:
                continue

    def _run_claimed(self, claim: _Claim, codec: AnswerCodec[T], work: Callable[[Finish[T]], T]) -> T:
        def finish(conn: Connection, answer: T, /) -> None:
            claim.finish(conn, _Answered(msgspec.Raw(codec.encode(answer))))

        try:
            return work(finish)
        except _ClaimLost:
            raise
        except _TERMINAL as error:
            self._finish_error(claim, error)
            raise
        except Exception:
            self._release(claim)
            raise

    def _claim(self, call: Call) -> _Claim | idempotency.Finished:
        request = call.request
        if request is None:
            raise RuntimeError("a call without a key cannot be claimed")
        scope = idempotency.Scope(
            call.principal.account_id, call.principal.name, request.operation, request.key
        )
        deadline = time.monotonic() + self._stale_after_ms / 1000
        owner = uuids.uuid7()
        while True:
            now_ms = self._clock.now_ms()
            found = self._try_claim(scope, request.request_hash, owner, now_ms)
            if isinstance(found, idempotency.Claimed):
                return _Claim(scope, owner, now_ms + self._keep_ms)
            if isinstance(found, idempotency.Finished):
                return found
            if isinstance(found, idempotency.HashMismatch):
                raise IdempotencyConflictError("The idempotency key was already used for another request")
            if time.monotonic() > deadline:
                raise UnavailableError("A request with this idempotency key is still running")
            time.sleep(_POLL_S)

    def _try_claim(
        self, scope: idempotency.Scope, request_hash: str, owner: UUID, now_ms: int
    ) -> idempotency.ClaimResult | None:
        """The result of one look; `None` if the store did not say, and another look will tell."""
        try:
            return self._store.run(
                lambda conn: idempotency.claim(conn, scope, request_hash, owner, now_ms, self._stale_after_ms)
            )
        except CommitStateUnknownError:
            return None

    def _finish_error(self, claim: _Claim, error: FloecatError) -> None:
        """Keeps a refusal for replay. It stands also where the store is away and cannot keep it."""
        outcome = _Refused(type(error).__name__, error.message)
        try:
            self._store.run(lambda conn: claim.finish(conn, outcome))
        except (CommitStateUnknownError, UnavailableError):
            _log.warning("the answer of an idempotency key could not be kept, the store is away")

    def _release(self, claim: _Claim) -> None:
        """Gives the key back.

        A claim whose transaction did commit is finished, and not touched by this. Where the store is away the
        claim stays, and is taken over once it is stale.
        """
        try:
            self._store.run(lambda conn: idempotency.release(conn, claim.scope, claim.owner))
        except (CommitStateUnknownError, UnavailableError):
            _log.warning("an idempotency key could not be released, the store is away")


def _finish_nothing(conn: Connection, answer: object, /) -> None:
    """There is no key to answer for."""


def _replay(encoded: bytes, codec: AnswerCodec[T]) -> T:
    outcome = msgspec.json.decode(encoded, type=_Answered | _Refused)
    if isinstance(outcome, _Refused):
        raise getattr(floecat.errors, outcome.error)(outcome.message)
    return codec.decode(bytes(outcome.answer))
