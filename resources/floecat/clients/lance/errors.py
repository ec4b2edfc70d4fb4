"""Error answers of a catalog as errors of Lance Namespace, with their codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from lance_namespace.errors import ErrorCode, InternalError, LanceNamespaceError, from_error_code

from floecat.clients.lance.wire import ErrorResponse, decode

__all__ = ["Meanings", "error_of"]


class Meanings(NamedTuple):
    """Codes for the two statuses whose meaning depends on the operation."""

    missing: ErrorCode
    """404"""

    conflict: ErrorCode = ErrorCode.CONCURRENT_MODIFICATION
    """409"""


_BY_STATUS: Final[Mapping[int, ErrorCode]] = {
    400: ErrorCode.INVALID_INPUT,
    401: ErrorCode.UNAUTHENTICATED,
    403: ErrorCode.PERMISSION_DENIED,
    405: ErrorCode.UNSUPPORTED,
    406: ErrorCode.UNSUPPORTED,
    413: ErrorCode.INVALID_INPUT,
    419: ErrorCode.UNAUTHENTICATED,
    422: ErrorCode.INVALID_INPUT,
    429: ErrorCode.THROTTLING,
    501: ErrorCode.UNSUPPORTED,
    503: ErrorCode.SERVICE_UNAVAILABLE,
}

# the status of the first differs between servers; the others are 409 without "already exists"
_BY_TYPE: Final[Mapping[str, ErrorCode]] = {
    "NamespaceNotEmptyException": ErrorCode.NAMESPACE_NOT_EMPTY,
    "CommitFailedException": ErrorCode.CONCURRENT_MODIFICATION,
    "ConflictException": ErrorCode.CONCURRENT_MODIFICATION,
}
_LONGEST_MESSAGE: Final = 1000


def error_of(status: int, body: bytes, meanings: Meanings) -> LanceNamespaceError:
    """The error for an answer.

    Args:
        status: of the answer, not 2xx.
        body: of the answer; `IcebergErrorResponse` of the REST specification, or anything.
        meanings: of the operation.
    """
    kind, message = _described(body)
    code = _BY_TYPE.get(kind) if 400 <= status < 500 else None
    if code is None:
        by_operation = {404: meanings.missing, 409: meanings.conflict}
        code = by_operation.get(status) or _BY_STATUS.get(status, ErrorCode.INTERNAL)
    return from_error_code(code, (message or f"The catalog answered {status}")[:_LONGEST_MESSAGE])


def _described(body: bytes) -> tuple[str, str]:
    try:
        error = decode(body, ErrorResponse).error
    except InternalError:
        return "", ""
    return error.type or "", error.message or ""
