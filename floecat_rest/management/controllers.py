"""What the controllers of the management API have in common."""

from __future__ import annotations

from functools import cache
from typing import Any

from litestar import Controller, Request
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter

from floecat.errors import BadRequestError

__all__ = ["ManagementController"]


async def _refuse_unknown_parameters(request: Request[Any, Any, Any]) -> None:
    # a misspelt filter would list everything, and a misspelt `force` would not force
    known = _query_parameters(request.scope["route_handler"])
    for name in request.query_params:
        if name not in known:
            named = f"it has {', '.join(known)}" if known else "it has none"
            raise BadRequestError(f"Unknown query parameter {name[:80]!r} of {request.method}: {named}")


@cache
def _query_parameters(handler: BaseRouteHandler) -> tuple[str, ...]:
    declared = handler.parsed_fn_signature.parameters.items()
    found = ((name, parameter.kwarg_definition) for name, parameter in declared)
    return tuple(kwarg.name or name for name, kwarg in found if isinstance(kwarg, QueryParameter))


class ManagementController(Controller):
    """A controller that refuses query parameters that it does not have."""

    tags = ["Management"]
    before_request = staticmethod(_refuse_unknown_parameters)
