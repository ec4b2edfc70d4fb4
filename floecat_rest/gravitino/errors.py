"""Errors as Gravitino's clients read them: `{"code", "type", "message", "stack"}`.

Its clients choose the exception by code and type, and format messages with `%`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec

from floecat.errors import AlreadyExistsError, BadRequestError, FloecatError, NotFoundError
from floecat_rest.gravitino.wire import GravitinoError
from floecat_rest.http.errors import ErrorModel, shortened

__all__ = [
    "GRAVITINO_PATHS",
    "IllegalNameError",
    "TakenNameError",
    "UnknownNameError",
    "gravitino_error",
    "illegal_is",
    "missing_is",
    "taken_is",
]

GRAVITINO_PATHS: Final = ("/api/metalakes", "/api/version")
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


class UnknownNameError(NotFoundError):
    """Something that a request names does not exist.

    Attributes:
        kind: type of the error on the wire.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class IllegalNameError(BadRequestError):
    """Something that the body of a request names cannot be used.

    Attributes:
        kind: type of the error on the wire.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class TakenNameError(AlreadyExistsError):
    """Something of the name is there.

    Attributes:
        kind: type of the error on the wire.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


@contextmanager
def taken_is(kind: str) -> Iterator[None]:
    """Answers a name that is taken as an error of this type."""
    try:
        yield
    except AlreadyExistsError as error:
        raise TakenNameError(error.message, kind) from None


@contextmanager
def missing_is(kind: str) -> Iterator[None]:
    """Answers a missing thing as an error of this type."""
    try:
        yield
    except NotFoundError as error:
        raise UnknownNameError(error.message, kind) from None


@contextmanager
def illegal_is(
    kind: str, errors: tuple[type[FloecatError], ...] = (NotFoundError, BadRequestError)
) -> Iterator[None]:
    """Answers a missing thing, or one that is malformed, as an error of a request of this type.

    Args:
        kind: the type.
        errors: those that are meant.
    """
    try:
        yield
    except errors as error:
        raise IllegalNameError(error.message, kind) from None


def gravitino_error(error: ErrorModel, raised: Exception) -> tuple[int, bytes]:
    """The status and the body for an error."""
    code, kind = _KINDS.get(error.type, _OTHER)
    if isinstance(raised, UnknownNameError | IllegalNameError | TakenNameError):
        kind = raised.kind
    # a percent sign breaks the client; this one looks the same
    message = shortened(error.message).replace("%", "\N{FULLWIDTH PERCENT SIGN}")
    body = msgspec.json.encode(GravitinoError(code, kind, message))
    return _UNSUPPORTED_STATUS.get(error.code, error.code), body
