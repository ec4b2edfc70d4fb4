"""The operations that the application routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from litestar.handlers import HTTPRouteHandler
from litestar.routes import BaseRoute, HTTPRoute

__all__ = ["ServedOperation", "served_operations"]

_TYPED_PARAMETER: Final = re.compile(r"\{([\w-]+):\w+\}")


class ServedOperation(NamedTuple):
    """A method of a path."""

    path: str
    """Spelled as OpenAPI does: `/v1/{prefix}/namespaces`."""

    method: str
    """Method in lower case."""

    handler: HTTPRouteHandler


def served_operations(routes: Iterable[BaseRoute]) -> Iterator[ServedOperation]:
    """All operations but `OPTIONS`, which the framework answers."""
    for route in routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                for method in sorted(handler.http_methods - {"OPTIONS"}):
                    yield ServedOperation(_TYPED_PARAMETER.sub(r"{\1}", route.path), method.lower(), handler)
