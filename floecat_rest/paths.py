"""Routing on the raw path.

ASGI servers decode the path before an application sees it. After that ``%2F`` looks like a boundary of
segments and ``%2520`` like ``%20``. Here the path goes to the router as it came over the wire, and path
parameters are decoded once, one by one, by `floecat.identifiers`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes

from litestar.enums import ScopeType

from floecat.identifiers.encoding import encode_segment

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send

__all__ = ["RawPaths", "raw_path"]

_LEADING_SLASHES = re.compile("^/{2,}")
_EMPTY_PREFIX = re.compile("^/v1/{2,}")
_WITHOUT_PREFIX = re.compile(r"^/v1/(?=(?:namespaces|tables|views|transactions)(?:/|$))")


class RawPaths:
    """ASGI wrapper that restores the raw path and inserts the default prefix where a path has none."""

    def __init__(self, app: ASGIApp, *, default_prefix: str) -> None:
        """Wrap an application.

        Args:
            app: routes on `scope["path"]`.
            default_prefix: name of the catalog that paths without a prefix mean.
        """
        self._app = app
        self._with_prefix = f"/v1/{encode_segment(default_prefix)}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Rewrite the path of a request and pass it on."""
        if scope["type"] == ScopeType.HTTP:
            path = raw_path(scope)
            if "//" in path:
                # Base URLs that end in a slash, and clients with an empty prefix, are common and harmless.
                path = _EMPTY_PREFIX.sub("/v1/", _LEADING_SLASHES.sub("/", path))
            scope["path"] = _WITHOUT_PREFIX.sub(self._with_prefix, path, count=1)
        await self._app(scope, receive, send)


def raw_path(scope: Scope) -> str:
    """The path as the client sent it, without the query; bytes beyond ASCII in their percent-encoded form."""
    raw, _, _ = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")
    path = raw.decode("ascii") if raw.isascii() else quote_from_bytes(raw, safe="/%:@!$&'()*+,;=~-._")
    root = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(root) else path
