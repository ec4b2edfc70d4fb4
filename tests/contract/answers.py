"""What answers must look like."""

from __future__ import annotations

import re
from typing import Any

import httpx

__all__ = ["assert_error", "error_of", "etag_of"]

_INTERNALS = re.compile(
    r"Traceback|File \"|<class|object at 0x|site-packages|sqlalchemy|msgspec|psycopg|sqlite3", re.I
)


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """The error of an answer, after a look at its shape (`IcebergErrorResponse`)."""
    assert answer.headers["content-type"].partition(";")[0] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}, body
    error: dict[str, Any] = body["error"]
    assert {"message", "type", "code"} <= set(error) <= {"message", "type", "code", "stack"}, body
    assert type(error["code"]) is int
    assert error["code"] == answer.status_code
    assert isinstance(error["message"], str)
    assert error["message"].strip()
    assert not _INTERNALS.search(error["message"]), error["message"]
    assert re.fullmatch(r"[A-Z][A-Za-z]+(Exception|Error)", error["type"]), error["type"]
    assert "stack" not in error
    return error


def assert_error(answer: httpx.Response, status: int, kind: str, message: str | None = None) -> str:
    """Checks an error: its status, its type, and the exact message if one is given; returns the message."""
    assert answer.status_code == status, f"{answer.status_code}: {answer.text[:2000]}"
    error = error_of(answer)
    assert error["type"] == kind, error
    if message is not None:
        assert error["message"] == message
    text: str = error["message"]
    return text


def etag_of(answer: httpx.Response) -> str:
    """The entity tag of an answer, in the form of RFC 9110 section 8.8.3."""
    assert answer.status_code == 200, answer.text
    tag: str = answer.headers["etag"]
    assert re.fullmatch(r'(W/)?"[\x21\x23-\x7e]+"', tag), tag
    return tag
