from __future__ import annotations

import json

import pytest
from lance_namespace.errors import ErrorCode

from floecat.clients.lance.errors import Meanings, error_of

MEANINGS = Meanings(ErrorCode.TABLE_NOT_FOUND, ErrorCode.TABLE_ALREADY_EXISTS)


def body(kind: str = "", message: str = "why") -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "code": 0}}).encode()


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "BadRequestException", ErrorCode.INVALID_INPUT),
        (401, "NotAuthorizedException", ErrorCode.UNAUTHENTICATED),
        (403, "ForbiddenException", ErrorCode.PERMISSION_DENIED),
        (404, "NoSuchTableException", ErrorCode.TABLE_NOT_FOUND),
        (404, "NoSuchNamespaceException", ErrorCode.TABLE_NOT_FOUND),
        (405, "", ErrorCode.UNSUPPORTED),
        (406, "UnsupportedOperationException", ErrorCode.UNSUPPORTED),
        (409, "AlreadyExistsException", ErrorCode.TABLE_ALREADY_EXISTS),
        (409, "", ErrorCode.TABLE_ALREADY_EXISTS),
        (409, "NamespaceNotEmptyException", ErrorCode.NAMESPACE_NOT_EMPTY),
        (400, "NamespaceNotEmptyException", ErrorCode.NAMESPACE_NOT_EMPTY),
        (409, "CommitFailedException", ErrorCode.CONCURRENT_MODIFICATION),
        (409, "ConflictException", ErrorCode.CONCURRENT_MODIFICATION),
        (413, "", ErrorCode.INVALID_INPUT),
        (419, "", ErrorCode.UNAUTHENTICATED),
        (422, "", ErrorCode.INVALID_INPUT),
        (429, "", ErrorCode.THROTTLING),
        (500, "CommitStateUnknownException", ErrorCode.INTERNAL),
        (501, "", ErrorCode.UNSUPPORTED),
        (502, "", ErrorCode.INTERNAL),
        (503, "ServiceUnavailableException", ErrorCode.SERVICE_UNAVAILABLE),
        (302, "", ErrorCode.INTERNAL),
    ],
)
def test_codes(status: int, kind: str, code: ErrorCode):
    error = error_of(status, body(kind), MEANINGS)
    assert error.code == code
    assert str(error) == "why"


@pytest.mark.parametrize("odd", [b"", b"<html>", b"[]", b'{"error": "text"}', b'{"error": {"message": 1}}'])
def test_other_bodies(odd: bytes):
    error = error_of(404, odd, MEANINGS)
    assert (error.code, str(error)) == (ErrorCode.TABLE_NOT_FOUND, "The catalog answered 404")


def test_messages_are_cut():
    assert len(str(error_of(400, body(message="x" * 5000), MEANINGS))) == 1000
