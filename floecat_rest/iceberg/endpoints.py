"""The list of endpoints that `/v1/config` gives, made from the routes themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable

from litestar.routes import BaseRoute, HTTPRoute

__all__ = ["UNLISTED", "served_endpoints"]

UNLISTED = "unlisted"
"""Key in `opt` of operations that answer, and that clients should not count on."""

_TYPED_PARAMETER = re.compile(r"\{(\w+):\w+\}")


def served_endpoints(routes: Iterable[BaseRoute]) -> list[str]:
    """The operations below `/v1/` as `<verb> <path template>`, spelled as in the REST specification."""
    return sorted(
        f"{method} {_template(route.path)}"
        for route in routes
        if isinstance(route, HTTPRoute) and route.path.startswith("/v1/")
        for handler in route.route_handlers
        if not handler.opt.get(UNLISTED)
        for method in handler.http_methods
        if method != "OPTIONS"
    )


def _template(path: str) -> str:
    return _TYPED_PARAMETER.sub(r"{\1}", path)
