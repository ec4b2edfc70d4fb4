"""The routes of the application, by path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from litestar.routes import HTTPRoute

from floecat_rest.http.errors import unknown_path_error

__all__ = ["RouteTable"]

E = TypeVar("E")


class _Node(Generic[E]):
    """A place in the tree of paths."""

    def __init__(self) -> None:
        self.segments: dict[str, _Node[E]] = {}
        self.parameter: _Node[E] | None = None
        self.names: list[str] = []
        self.template = ""
        self.methods: Mapping[str, E] = {}


class RouteTable(Generic[E]):
    """Endpoints by path and method. A path without parameters is preferred to one with some."""

    def __init__(self) -> None:
        self._whole: dict[str, _Node[E]] = {}
        self._root: _Node[E] = _Node()

    def add(self, route: HTTPRoute, methods: Mapping[str, E]) -> None:
        """Adds the endpoints of a path, by method."""
        names = [part.name for part in route.path_components if not isinstance(part, str)]
        node = self._root
        if not names:
            node = self._whole[route.path] = _Node()
        else:
            for part in route.path_components:
                if isinstance(part, str):
                    node = node.segments.setdefault(part, _Node())
                else:
                    node.parameter = node = node.parameter or _Node()
        node.names, node.template, node.methods = names, route.path_format, methods

    def find(self, path: str) -> tuple[Mapping[str, E], str, dict[str, str]]:
        """The endpoints by method, the path as it was added, and its parameters as they were sent.

        Raises:
            NotFoundError: there is no such path.
        """
        values: list[str] = []
        node = self._whole.get(path)
        if node is None:
            node = self._root
            for segment in path.split("/")[1:]:
                following = node.segments.get(segment)
                if following is None:
                    following = node.parameter
                    values.append(segment)
                if following is None:
                    raise unknown_path_error(path)
                node = following
        if not node.methods:
            raise unknown_path_error(path)
        return node.methods, node.template, dict(zip(node.names, values, strict=True))
