"""Changes that happen once per idempotency key (Iceberg REST specification, `Idempotency-Key`).

A key is claimed before the work. The owner of the claim stores the answer in the SQL transaction that makes
the change; an owner whose claim was taken over rolls back. So a key has exactly one effect, whatever crashes.
Answers and final refusals are replayed. Failures of the service are not: their key may be tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Protocol, TypeVar
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

import floecat.errors
from floecat.auth.authorizer import Check
from floecat.clock import Clock
from floecat.entries.calls import Call, RequestKey
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
from floecat.store.commits import idempotency
from floecat.store.database.engine import Connection, Store

__all__ = ["AnswerCodec", "Claim", "Finish", "IdempotencyKeys", "JsonAnswer"]

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
    """A function called with the answer, as the last thing inside the transaction that makes the change."""

    def __call__(self, conn: Connection, answer: A_contra, /) -> None:
        """Stores the answer; see `Claim.keep`."""
        ...


class AnswerCodec(Protocol[T]):
    """The codec by which an answer is stored for replay."""

    def encode(self, answer: T) -> bytes:
        """The answer as JSON."""
        ...

    def decode(self, data: bytes) -> T:
        """The answer of `encode`."""
        ...


class JsonAnswer(Generic[T]):
    """Stores small answers whole."""

    def __init__(self, model: type[T]) -> None:
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


class Claim(Generic[T]):
    """A try at a change: the claim on its key, or the answer that an earlier request left under the key.

    As a context it ends the claim. Inside it the change is made, and `keep` is called as the last thing of
    the transaction that makes it. A refusal is stored for replay, any other error gives the key back.
    """

    def __init__(self, codec: AnswerCodec[T], stored: bytes | None = None) -> None:
        self._codec = codec
        self._stored = stored

    @property
    def is_replay(self) -> bool:
        """Whether an earlier request has answered already."""
        return self._stored is not None

    def replay(self) -> T:
        """The answer of the earlier request.

        Raises:
            FloecatError: the earlier request was refused with it.
        """
        outcome = msgspec.json.decode(self._stored or b"", type=_Answered | _Refused)
        if isinstance(outcome, _Refused):
            raise getattr(floecat.errors, outcome.error)(outcome.message)
        return self._codec.decode(bytes(outcome.answer))

    def keep(self, conn: Connection, answer: T, /) -> None:
        """Stores the answer under the key. A request without a key has none to store it under.

        Args:
            conn: the transaction that makes the change.
            answer: what is answered once the transaction is committed.

        Raises:
            Exception: another request took the key over; the transaction must roll back.
        """

    def __enter__(self) -> Claim[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return isinstance(error, _ClaimLost)


class _KeyClaim(Claim[T]):
    """A claimed key and its owner."""

    def __init__(
        self,
        codec: AnswerCodec[T],
        store: Store,
        scope: idempotency.Scope,
        owner: UUID,
        expires_at_ms: int,
    ) -> None:
        super().__init__(codec)
        self._store = store
        self._scope = scope
        self._owner = owner
        self._expires_at_ms = expires_at_ms

    def keep(self, conn: Connection, answer: T, /) -> None:
        self._finish(conn, _Answered(msgspec.Raw(self._codec.encode(answer))))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, _TERMINAL):
            self._keep_refusal(error)
        elif isinstance(error, Exception) and not isinstance(error, _ClaimLost):
            self._release()
        return super().__exit__(kind, error, trace)

    def _finish(self, conn: Connection, outcome: _Answered | _Refused) -> None:
        kept = idempotency.finish(
            conn,
            self._scope,
            self._owner,
            outcome=msgspec.json.encode(outcome),
            expires_at_ms=self._expires_at_ms,
        )
        if not kept:
            raise _ClaimLost

    def _keep_refusal(self, error: FloecatError) -> None:
        """Stores a refusal for replay; the refusal is answered even if the store cannot be reached."""
        outcome = _Refused(type(error).__name__, error.message)
        try:
            self._store.run(lambda conn: self._finish(conn, outcome))
        except (CommitStateUnknownError, UnavailableError):
            _log.warning("the answer of an idempotency key was not stored: the store is unavailable")
        except _ClaimLost:
            _log.info("the request of an idempotency key was refused after another one took the key over")

    def _release(self) -> None:
        """Gives the key back.

        A claim whose transaction was committed is finished, and this leaves it alone. If the store is
        unavailable the claim stays, and another request takes it over once it is stale.
        """
        try:
            self._store.run(lambda conn: idempotency.release(conn, self._scope, self._owner))
        except (CommitStateUnknownError, UnavailableError):
            _log.warning("an idempotency key was not released: the store is unavailable")


class IdempotencyKeys:
    """Claims the keys of requests.

    Attributes:
        lifetime_ms: how long a client may repeat a request.
    """

    def __init__(
        self, store: Store, clock: Clock, *, lifetime_ms: int, grace_ms: int, stale_after_ms: int
    ) -> None:
        """Sets the times of a key's life.

        Args:
            store: where keys are kept.
            lifetime_ms: advertised lifetime of a key.
            grace_ms: how long beyond it an answer is kept.
            stale_after_ms: after which time a claim without an answer may be taken over.
        """
        self._store = store
        self._clock = clock
        self.lifetime_ms = lifetime_ms
        self._keep_ms = lifetime_ms + grace_ms
        self._stale_after_ms = stale_after_ms

    def run(self, call: Call, codec: AnswerCodec[T], work: Callable[[Finish[T]], T], *needed: Check) -> T:
        """The answer of the work, or of the earlier request with the same key.

        Args:
            call: who asks; without an idempotency key the work just runs.
            codec: how the answer is stored.
            work: makes the change, and calls its argument as the last thing inside the transaction, with the
                answer; also when it finds nothing to change.
            needed: see `claim`.

        Raises:
            FloecatError: what `claim`, `Claim.replay` or the work raise.
        """
        while True:
            claim = self.claim(call, codec, *needed)
            if claim.is_replay:
                return claim.replay()
            with claim:
                return work(claim.keep)

    def claim(self, call: Call, codec: AnswerCodec[T], *needed: Check) -> Claim[T]:
        """Claims the key of a call. The caller loops, as the claim may be taken over:

            while True:
                claim = keys.claim(call, codec)
                if claim.is_replay:
                    return claim.replay()
                with claim:
                    ...  # makes the change, and calls `claim.keep` in its transaction
                    return answer

        Args:
            call: who asks; a call without a key is never a replay.
            codec: how the answer is stored.
            needed: privileges without which an earlier answer is not told again. The work asks for its own.

        Raises:
            ForbiddenError: the principal has lost one of the privileges.
            IdempotencyConflictError: the key was used for another request.
            UnavailableError: a request with this key has been running for too long.
        """
        if call.request is None:
            return Claim(codec)
        claim = self._claim(call, call.request, codec)
        if claim.is_replay:
            call.check(*needed)
        return claim

    def _claim(self, call: Call, request: RequestKey, codec: AnswerCodec[T]) -> Claim[T]:
        principal = call.principal
        scope = idempotency.Scope(principal.account_id, principal.name, request.operation, request.key)
        deadline = time.monotonic() + self._stale_after_ms / 1000
        owner = uuids.uuid7()
        while True:
            now_ms = self._clock.now_ms()
            found = self._try_claim(scope, request.request_hash, owner, now_ms)
            if isinstance(found, idempotency.Claimed):
                return _KeyClaim(codec, self._store, scope, owner, now_ms + self._keep_ms)
            if isinstance(found, idempotency.Finished):
                return Claim(codec, found.outcome)
            if isinstance(found, idempotency.HashMismatch):
                raise IdempotencyConflictError("The idempotency key was already used for another request")
            if time.monotonic() > deadline:
                raise UnavailableError("A request with this idempotency key is still running")
            time.sleep(_POLL_S)

    def _try_claim(
        self, scope: idempotency.Scope, request_hash: str, owner: UUID, now_ms: int
    ) -> idempotency.ClaimResult | None:
        """The result of one try; `None` if its outcome is unknown, which the next try finds out."""
        try:
            return self._store.run(
                lambda conn: idempotency.claim(conn, scope, request_hash, owner, now_ms, self._stale_after_ms)
            )
        except CommitStateUnknownError:
            return None
