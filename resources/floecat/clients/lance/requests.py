"""Requests of callers and of Lance's engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TypeVar

from lance_namespace.errors import InvalidInputError
from pydantic import BaseModel

__all__ = ["takes", "word"]

S = TypeVar("S")
R = TypeVar("R", bound=BaseModel)
A = TypeVar("A")


def takes(kind: type[R], *refused: str) -> Callable[[Callable[[S, R], A]], Callable[[S, R], A]]:
    """Makes an operation accept its request as a mapping too.

    Lance's engine passes mappings instead of models when it renews credentials.

    Args:
        kind: of the request.
        refused: members that would change the answer, and that are not offered; `identity` always is one.
    """

    def wrap(operation: Callable[[S, R], A]) -> Callable[[S, R], A]:
        @wraps(operation)
        def with_model(namespace: S, request: R) -> A:
            found = _read(kind, request)
            for name in ("identity", *refused):
                if (value := getattr(found, name)) is not None and value is not False:
                    raise InvalidInputError(f"{name} of a {kind.__name__} is not supported")
            return operation(namespace, found)

        return with_model

    return wrap


def word(value: str | None, name: str, allowed: tuple[str, ...]) -> str:
    """Reads a mode, in any case, PascalCase or snake_case; the first one allowed if there is no value.

    Raises:
        InvalidInputError: it is none of those allowed.
    """
    found = (value or allowed[0]).replace("_", "").lower()
    if found not in allowed:
        raise InvalidInputError(f"{name} must be one of {', '.join(allowed)}")
    return found


def _read(kind: type[R], request: R | Mapping[str, object]) -> R:
    if isinstance(request, kind):
        return request
    try:
        return kind.model_validate(request)
    except ValueError as error:
        raise InvalidInputError(f"Not a {kind.__name__}: {error}") from None
