"""Idempotency keys as front ends receive them, tied to the request that they were sent with."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from floecat.entries.calls import Call, RequestKey
from floecat.errors import BadRequestError

__all__ = ["IDEMPOTENCY_KEY", "canonical_json", "with_request_key"]

IDEMPOTENCY_KEY = "idempotency-key"
"""Name of the header or metadata entry that carries the key (Iceberg REST specification)."""

_LONGEST_KEY = 255


def with_request_key(
    call: Call, key: str | None, operation: str, target: Sequence[bytes], body: bytes
) -> Call:
    """The call under an idempotency key, if there is one.

    Args:
        call: who asks.
        key: value of `IDEMPOTENCY_KEY`.
        operation: name of the operation, which has keys of its own.
        target: what the request is about beside its body, as path and query: part of its hash.
        body: JSON, or another encoding in which equal requests are equal bytes.

    Raises:
        BadRequestError: the key is malformed.
    """
    if key is None:
        return call
    if not 0 < len(key) <= _LONGEST_KEY or not key.isprintable():
        raise BadRequestError(
            f"Invalid Idempotency-Key: send a UUID (at most {_LONGEST_KEY} printable characters)"
        )
    digest = sha256()
    for part in (operation.encode(), *target, canonical_json(body)):
        digest.update(b"%d:%b" % (len(part), part))
    return msgspec.structs.replace(call, request=RequestKey(key, operation, digest.hexdigest()))


def canonical_json(body: bytes) -> bytes:
    """The body with sorted keys and no insignificant white space, so that equal requests are equal bytes.

    A body that is not JSON is returned as it is; whoever decodes it refuses it.
    """
    try:
        return msgspec.json.encode(msgspec.json.decode(body), order="sorted") if body else b""
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        return body
