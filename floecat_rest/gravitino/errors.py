"""Errors as Gravitino's clients read them: `{"code", "type", "message", "stack"}`.

Its clients choose the exception by code and type, and format messages with `%`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from floecat_rest.gravitino.wire import GravitinoError
from floecat_rest.http.errors import ErrorModel, shortened

__all__ = ["GRAVITINO_PATHS", "gravitino_error"]

GRAVITINO_PATHS: Final = "/api/metalakes"
"""Beginning of the paths whose errors have this form."""

_OTHER: Final = (1002, "RuntimeException")
_KINDS: Final[Mapping[str, tuple[int, str]]] = {
    "BadRequestException": (1001, "IllegalArgumentException"),
    "IllegalArgumentException": (1001, "IllegalArgumentException"),
    "UnprocessableEntityException": (1001, "IllegalArgumentException"),
    "NotFoundException": (1003, "NotFoundException"),
    "NoSuchWarehouseException": (1003, "NoSuchCatalogException"),
    "NoSuchNamespaceException": (1003, "NoSuchSchemaException"),
    "NoSuchTableException": (1003, "NoSuchTableException"),
    "AlreadyExistsException": (1004, "SchemaAlreadyExistsException"),
    "NamespaceNotEmptyException": (1005, "NonEmptySchemaException"),
    "UnsupportedOperationException": (1006, "UnsupportedOperationException"),
    "ServiceUnavailableException": (1007, "ConnectionFailedException"),
    "ForbiddenException": (1008, "ForbiddenException"),
    "ConflictException": (1010, "InUseException"),
    "NotAuthorizedException": (1011, "UnauthorizedException"),
}
"""Codes and types by the type of the error on the Iceberg side."""

_UNSUPPORTED_STATUS: Final = {406: 405}


def gravitino_error(error: ErrorModel) -> tuple[int, bytes]:
    """The status and the body for an error."""
    code, kind = _KINDS.get(error.type, _OTHER)
    # a percent sign breaks the client; this one looks the same
    message = shortened(error.message).replace("%", "\N{FULLWIDTH PERCENT SIGN}")
    body = msgspec.json.encode(GravitinoError(code, kind, message))
    return _UNSUPPORTED_STATUS.get(error.code, error.code), body
