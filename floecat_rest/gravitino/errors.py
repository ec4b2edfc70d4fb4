"""Errors as Gravitino's clients read them: `{"code", "type", "message", "stack"}`.

Its clients choose the exception by code and type, and format messages with `%`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import msgspec

from floecat.errors import AlreadyExistsError, BadRequestError, FloecatError, NotFoundError
from floecat.identifiers.namespace import Namespace
from floecat.identifiers.schema_names import schema_name
from floecat.identifiers.written_names import written
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
    "schemas_by_name",
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


class _NamedError(FloecatError):
    """An error with a type of its own on the wire.

    Attributes:
        kind: the type.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class UnknownNameError(_NamedError, NotFoundError):
    """Something that a request names does not exist."""


class IllegalNameError(_NamedError, BadRequestError):
    """Something that the body of a request names cannot be used."""


class TakenNameError(_NamedError, AlreadyExistsError):
    """Something of the name is there."""


@contextmanager
def _as(error: type[_NamedError], kind: str, *meant: type[FloecatError]) -> Iterator[None]:
    try:
        yield
    except meant as found:
        raise error(found.message, kind) from None


def taken_is(kind: str) -> AbstractContextManager[None]:
    """Answers a name that is taken as an error of this type."""
    return _as(TakenNameError, kind, AlreadyExistsError)


def missing_is(kind: str) -> AbstractContextManager[None]:
    """Answers a missing thing as an error of this type."""
    return _as(UnknownNameError, kind, NotFoundError)


def illegal_is(
    kind: str, errors: tuple[type[FloecatError], ...] = (NotFoundError, BadRequestError)
) -> AbstractContextManager[None]:
    """Answers a missing thing, or one that is malformed, as an error of a request of this type.

    Args:
        kind: the type.
        errors: those that are meant.
    """
    return _as(IllegalNameError, kind, *errors)


@contextmanager
def schemas_by_name(schemas: Iterable[tuple[Namespace, str | None]]) -> Iterator[None]:
    """Has errors name schemas, and those that they are in, as clients do, not with dots as Iceberg's.

    Args:
        schemas: with the separators of their catalogs; only iterated over where there is an error.
    """
    try:
        yield
    except FloecatError as error:
        for schema, separator in schemas:
            for depth in range(len(schema), 0, -1):
                levels = schema[:depth]
                for text in (written(levels), ".".join(levels)):
                    error.told = error.told.replace(text, schema_name(levels, separator))
        raise


def gravitino_error(error: ErrorModel, raised: Exception) -> tuple[int, bytes]:
    """The status and the body for an error."""
    code, kind = _KINDS.get(error.type, _OTHER)
    if isinstance(raised, _NamedError):
        kind = raised.kind
    # a percent sign breaks the client; this one looks the same
    message = shortened(error.message).replace("%", "\N{FULLWIDTH PERCENT SIGN}")
    body = msgspec.json.encode(GravitinoError(code, kind, message))
    return _UNSUPPORTED_STATUS.get(error.code, error.code), body
