"""Errors as Iceberg REST clients read them.

Every answer that is not 2xx or 304 has the body ``{"error": {"message", "type", "code"}}`` (REST
specification, `IcebergErrorResponse`). Java clients choose the exception by status and `type`, so both come
from one table.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from floecat import errors
from floecat_rest.http.json_responses import Answer
from floecat_rest.http.request_log import request_id_of

if TYPE_CHECKING:
    from litestar.types import Scope

__all__ = [
    "ERROR_KINDS",
    "ErrorForm",
    "ErrorKind",
    "ErrorModel",
    "IcebergErrorResponse",
    "MethodNotAllowedError",
    "UnsupportedMediaTypeError",
    "answer_error",
    "describe_error",
    "encode_error",
    "iceberg_error",
    "shortened",
    "unknown_path_error",
]

_log = logging.getLogger(__name__)


class ErrorKind(NamedTuple):
    """The status and the type of an error on the wire."""

    status: int
    type: str


class UnsupportedMediaTypeError(errors.BadRequestError):
    """The body is declared to be something other than JSON."""


class MethodNotAllowedError(errors.BadRequestError):
    """The path has no such method.

    Attributes:
        allow: the methods that it has.
    """

    def __init__(self, allow: str) -> None:
        super().__init__("Method Not Allowed")
        self.allow = allow


ERROR_KINDS: Mapping[type[Exception], ErrorKind] = {
    errors.BadRequestError: ErrorKind(400, "BadRequestException"),
    errors.PayloadTooLargeError: ErrorKind(413, "BadRequestException"),
    MethodNotAllowedError: ErrorKind(405, "UnsupportedOperationException"),
    UnsupportedMediaTypeError: ErrorKind(415, "BadRequestException"),
    errors.IllegalArgumentError: ErrorKind(400, "IllegalArgumentException"),
    errors.UnprocessableError: ErrorKind(422, "UnprocessableEntityException"),
    errors.NotAuthorizedError: ErrorKind(401, "NotAuthorizedException"),
    errors.ForbiddenError: ErrorKind(403, "ForbiddenException"),
    errors.NotFoundError: ErrorKind(404, "NotFoundException"),
    errors.NoSuchWarehouseError: ErrorKind(404, "NoSuchWarehouseException"),
    errors.NoSuchNamespaceError: ErrorKind(404, "NoSuchNamespaceException"),
    errors.NoSuchTableError: ErrorKind(404, "NoSuchTableException"),
    errors.NoSuchViewError: ErrorKind(404, "NoSuchViewException"),
    errors.NoSuchFunctionError: ErrorKind(404, "NoSuchFunctionException"),
    errors.NoSuchPlanIdError: ErrorKind(404, "NoSuchPlanIdException"),
    errors.NoSuchPlanTaskError: ErrorKind(404, "NoSuchPlanTaskException"),
    errors.ConflictError: ErrorKind(409, "ConflictException"),
    errors.AlreadyExistsError: ErrorKind(409, "AlreadyExistsException"),
    errors.NamespaceNotEmptyError: ErrorKind(409, "NamespaceNotEmptyException"),
    errors.CommitFailedError: ErrorKind(409, "CommitFailedException"),
    errors.UnsupportedOperationError: ErrorKind(406, "UnsupportedOperationException"),
    errors.CommitStateUnknownError: ErrorKind(500, "CommitStateUnknownException"),
    errors.PurgeFailedError: ErrorKind(500, "ServiceFailureException"),
    errors.UnavailableError: ErrorKind(503, "ServiceUnavailableException"),
}
"""Kinds of the kernel's errors; a class without a row uses the row of its nearest base."""

_LONGEST_MESSAGE = 1000
_LONGEST_REASON = 500
_LONGEST_PATH = 200

ErrorForm: TypeAlias = Callable[["ErrorModel", Exception], tuple[int, bytes]]
"""Gives the status and the body of an error, as the clients of some paths read them."""

_NOT_DESCRIBING = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")
"""Characters that `error_description` may not hold (RFC 6750 section 3)."""

_DOUBLED = "/v1/v1/"
_FIRST_SEGMENTS = frozenset({"config", "namespaces", "tables", "views", "transactions", "oauth"})

_INTERNAL = ErrorKind(500, "InternalServerError")


class ErrorModel(msgspec.Struct):
    """The error itself."""

    message: str
    type: str
    code: int


class IcebergErrorResponse(msgspec.Struct):
    """Body of every error response except those of `/v1/oauth/tokens`."""

    error: ErrorModel


def describe_error(error: Exception, request_id: str) -> tuple[ErrorModel, dict[str, str]]:
    """The body and the headers for an error.

    The text of an unexpected error stays in the log. The message gives the request id to search for.
    """
    kind = next((ERROR_KINDS[base] for base in type(error).__mro__ if base in ERROR_KINDS), _INTERNAL)
    if kind is _INTERNAL or not isinstance(error, errors.FloecatError):
        return _internal(request_id), {}
    headers: dict[str, str] = {}
    if isinstance(error, errors.NotAuthorizedError):
        headers["WWW-Authenticate"] = _challenge(error)
    if isinstance(error, MethodNotAllowedError):
        headers["Allow"] = error.allow
    if isinstance(error, errors.UnavailableError):
        headers["Retry-After"] = str(error.retry_after_s)
    return ErrorModel(error.told, kind.type, kind.status), headers


def shortened(message: str) -> str:
    """A message that can be sent: one that repeats a very long name is cut; lone surrogates are replaced."""
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]}…"
    return message.encode("utf-8", "replace").decode()


def encode_error(error: ErrorModel) -> bytes:
    """The body as JSON."""
    sent = ErrorModel(shortened(error.message), error.type, error.code)
    return msgspec.json.encode(IcebergErrorResponse(sent))


def iceberg_error(error: ErrorModel, _raised: Exception) -> tuple[int, bytes]:
    """The status and the body for an error."""
    return error.code, encode_error(error)


def answer_error(scope: Scope, error: Exception, form: ErrorForm = iceberg_error) -> Answer:
    """The answer for any error of a request. Logs those that an operator must see.

    Args:
        form: as the clients of its path read errors.
    """
    request_id = request_id_of(scope)
    method, path = scope.get("method"), scope["path"]
    raised = error
    if isinstance(error, errors.NoSuchWarehouseError) and path.startswith(_DOUBLED):
        error = unknown_path_error(path)
    described, headers = describe_error(error, request_id)
    if described.code >= 500 or isinstance(error, errors.StorageRefusedError):
        known = isinstance(error, errors.FloecatError)
        internal = described.code >= 500 and described.code != 503
        _log.log(
            logging.ERROR if internal else logging.WARNING,
            "%s %s failed: %s%s [%s]",
            method,
            path,
            error if known else type(error).__name__,
            "" if internal else _reason(error),
            request_id,
            exc_info=error if internal else None,
        )
    _release(raised)
    # A response to HEAD has no body, errors included.
    status, content = form(described, error)
    return Answer(
        status,
        b"" if method == "HEAD" else content,
        [(k.lower().encode(), v.encode("latin-1")) for k, v in headers.items()],
    )


def unknown_path_error(path: str) -> errors.NotFoundError:
    """Tells the sender of a path without a route what was meant. Clients append `/v1/…` to their URI."""
    before, version, _ = path.partition("/v1/")
    if f"{path}/".startswith(_DOUBLED):
        hint = "The URI of the catalog ends before /v1"
    elif version and before and not path.startswith("/management/"):
        hint = f"The URI of the catalog ends before {before[:_LONGEST_PATH]}, as paths begin with /v1"
    elif path.split("/")[1] in _FIRST_SEGMENTS:
        hint = "Paths of the catalog begin with /v1"
    else:
        hint = "/schema lists the paths that are served"
    return errors.NotFoundError(f"Path does not exist: {path[:_LONGEST_PATH]}. {hint}")


def _challenge(error: errors.NotAuthorizedError) -> str:
    """The `WWW-Authenticate` challenge (RFC 6750 section 3), without a reason if the client sent no token."""
    if not isinstance(error, errors.InvalidTokenError):
        return "Bearer"
    described = _NOT_DESCRIBING.sub("?", error.message.replace('"', "'")[:_LONGEST_REASON])
    return f'Bearer error="invalid_token", error_description="{described}"'


def _release(error: BaseException | None) -> None:
    """Drops what an error refers to, now that it is logged.

    Its traceback refers to the frame of who awaited the work of a thread, that to the future, and that to the
    error: the request and its body would stay in memory until the garbage collector comes.
    """
    while error is not None and error.__traceback__ is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _reason(error: Exception) -> str:
    """The message of the store's driver, or of the operating system. It stays in the log."""
    return f": {' '.join(str(error.__cause__).split())[:_LONGEST_REASON]}" if error.__cause__ else ""


def _internal(request_id: str) -> ErrorModel:
    return ErrorModel(
        f"Internal error; search the log of the service for request id {request_id}",
        _INTERNAL.type,
        _INTERNAL.status,
    )
