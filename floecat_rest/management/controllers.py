"""What the controllers of the management API have in common."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final
from uuid import UUID

from litestar import Controller, Request
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter

from floecat.errors import BadRequestError, NotFoundError

__all__ = [
    "ManagementController",
    "StateFilter",
    "TableFilter",
    "listed_size",
    "path_id",
]

_LARGEST_PAGE: Final = 1_000

StateFilter = Annotated[
    list[str] | None,
    QueryParameter(name="state", description="State, as the answers have it; repeatable."),
]
TableFilter = Annotated[
    str | None, QueryParameter(description="Name that the table had, as `outer.inner.name`.")
]


async def _check_parameters(request: Request[Any, Any, Any]) -> None:
    # a misspelt filter would list everything, a misspelt `force` would not force, and of two values one
    # would be lost
    known = _query_parameters(request.scope["route_handler"])
    for name in request.query_params:
        if name not in known:
            named = f"it has {', '.join(known)}" if known else "it has none"
            raise BadRequestError(f"Unknown query parameter {name[:80]!r} of {request.method}: {named}")
        if not known[name] and len(request.query_params.getall(name)) > 1:
            raise BadRequestError(f"Invalid parameter {name}: give it once")


@cache
def _query_parameters(handler: BaseRouteHandler) -> dict[str, bool]:
    """The query parameters by name, and whether each is repeatable."""
    found = {}
    for name, declared in handler.parsed_fn_signature.parameters.items():
        if isinstance(declared.kwarg_definition, QueryParameter):
            is_list = any(each.is_non_string_sequence for each in (declared, *declared.inner_types))
            found[declared.kwarg_definition.name or name] = is_list
    return found


class ManagementController(Controller):
    """A controller that refuses query parameters that it does not have, and repeated ones."""

    tags = ["Management"]
    before_request = staticmethod(_check_parameters)


def path_id(request: Request[Any, Any, Any], name: str, what: str) -> UUID:
    """The id in a path.

    Args:
        request: the request.
        name: of the parameter of the path.
        what: what the id is of, for a message.

    Raises:
        NotFoundError: it is no id.
    """
    text = request.path_params[name]
    try:
        return UUID(text)
    except ValueError:
        raise NotFoundError(f"{what} does not exist: {text[:80]}") from None


def listed_size(page_size: int | None) -> int:
    """How many items a page has at most: what is asked for, within a bound."""
    return min(page_size or _LARGEST_PAGE, _LARGEST_PAGE)
