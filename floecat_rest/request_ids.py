"""The id of a request: the client's own if it sends a sane one, else a new one. It is answered and logged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import uuid_utils

from floecat_rest.headers import header_of

__all__ = ["HEADER", "assign_request_id", "request_id_of"]

HEADER = b"x-request-id"

_KEY = "floecat.request_id"
_SANE = re.compile("[A-Za-z0-9._:/+=-]{1,128}")


def assign_request_id(scope: Any) -> str:
    """Put an id into the ASGI scope and return it."""
    sent = header_of(scope["headers"], HEADER)
    request_id = sent if sent and _SANE.fullmatch(sent) else str(uuid_utils.uuid7())
    scope[_KEY] = request_id
    return request_id


def request_id_of(scope: Mapping[str, Any]) -> str:
    """The id that `assign_request_id` gave; "unknown" outside of it."""
    return str(scope.get(_KEY, "unknown"))
