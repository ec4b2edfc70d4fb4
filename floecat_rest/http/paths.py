"""Paths, before they are routed.

ASGI servers decode the path before an application sees it. After that ``%2F`` looks like a boundary of
segments and ``%2520`` like ``%20``. Here the path goes to the router as it came over the wire, and path
parameters are decoded once, one by one, by `floecat.identifiers`.

Nothing has an empty name, so a request for one is answered 404. Spark sends such requests often: for a
missing table `db.files` it asks whether `files` is a metadata table of the table `db` in the namespace
without levels, `/namespaces//tables/db`, and goes on only if that does not exist. The router cannot answer
them. It merges empty segments, and would answer for another resource.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_from_bytes

from litestar.enums import ScopeType

from floecat.entries.names import missing_namespace, missing_table, missing_view
from floecat.errors import BadRequestError, FloecatError, NoSuchFunctionError, NotFoundError
from floecat.identifiers.encoding import NamespaceSeparator, decode_segment, encode_segment
from floecat.identifiers.namespace import TableIdentifier

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send

__all__ = ["RawPaths", "empty_name_error"]

_LEADING_SLASHES = re.compile("^/{2,}")
_EMPTY_PREFIX = re.compile("^/v1/{2,}")
_WITHOUT_PREFIX = re.compile(r"^/v1/(?=(?:namespaces|tables|views|transactions)(?:/|$))")
_NAMESPACE: Final = re.compile(r"/v1/[^/]+/namespaces/([^/]*)(?:/([^/]+)(?:/([^/]*)(?:/.*)?)?|/.*)?")
_READS_OR_DROPS: Final = frozenset({"GET", "HEAD", "DELETE"})
_EMPTY_SEGMENT: Final = "Invalid path: a segment is empty"


class RawPaths:
    """ASGI wrapper that restores the raw path and inserts the default prefix where a path has none."""

    def __init__(self, app: ASGIApp, *, default_prefix: str) -> None:
        self._app = app
        self._with_prefix = f"/v1/{encode_segment(default_prefix)}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Rewrites the path of a request and passes it on."""
        if scope["type"] == ScopeType.HTTP:
            path = _raw_path(scope)
            if "//" in path:
                # Base URLs that end in a slash, and clients with an empty prefix, are common and harmless.
                path = _EMPTY_PREFIX.sub("/v1/", _LEADING_SLASHES.sub("/", path))
            scope["path"] = _WITHOUT_PREFIX.sub(self._with_prefix, path, count=1)
        await self._app(scope, receive, send)


def empty_name_error(method: str, path: str, separator: NamespaceSeparator) -> FloecatError | None:
    """The error for a path with an empty name; None if it has none.

    Args:
        method: HTTP method. A POST is malformed; the handlers refuse empty levels and names there.
        path: the raw path, with a prefix.
        separator: splits the levels of a namespace.
    """
    if method not in _READS_OR_DROPS:
        return BadRequestError(_EMPTY_SEGMENT) if "//" in path else None
    found = _NAMESPACE.fullmatch(path)
    if found is not None:
        namespace, kind, name = found.groups()
        missing = _MISSING.get(kind) if name is not None else None
        levels = separator.split_levels(namespace) if namespace else []
        if not levels or not all(levels) or (missing is not None and not name):
            try:
                identifier = TableIdentifier(tuple(map(_decoded, levels)), _decoded(name or ""))
            except BadRequestError as error:
                return error
            return missing(identifier) if missing is not None else missing_namespace(identifier.namespace)
    return NotFoundError(_EMPTY_SEGMENT) if "//" in path else None


def _raw_path(scope: Scope) -> str:
    """The path as the client sent it, without the query; bytes beyond ASCII in their percent-encoded form."""
    raw, _, _ = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")
    path = raw.decode("ascii") if raw.isascii() else quote_from_bytes(raw, safe="/%:@!$&'()*+,;=~-._")
    root = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(root) else path


def _missing_function(identifier: TableIdentifier) -> FloecatError:
    if all(identifier.namespace) and identifier.namespace:
        return NoSuchFunctionError(f"Function does not exist: {identifier}")
    return missing_namespace(identifier.namespace)


def _decoded(segment: str) -> str:
    return decode_segment(segment).literal


_MISSING: Final = {"tables": missing_table, "views": missing_view, "functions": _missing_function}
