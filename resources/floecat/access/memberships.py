"""The graph of roles: what is a member of what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import UUID

__all__ = ["Edges", "of_members", "of_roles", "paths"]

Edges = Mapping[str, Sequence[str]]
"""Grantees as the store writes them, each with those that are one step away."""


def of_members(members: Iterable[tuple[UUID, str]]) -> Edges:
    """From members to their roles.

    Args:
        members: every role with each of its members.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    for role, member in members:
        found[member].append(str(role))
    return found


def of_roles(members: Iterable[tuple[UUID, str]]) -> Edges:
    """From roles to their members.

    Args:
        members: every role with each of its members.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    for role, member in members:
        found[str(role)].append(member)
    return found


def paths(edges: Edges, start: str) -> Iterator[tuple[str, ...]]:
    """The start, and all that edges lead to: each once, with a shortest path back to the start.

    However many ways there are between two roles, this takes a step for each edge.
    """
    waiting: list[tuple[str, ...]] = [(start,)]
    seen = {start}
    for path in waiting:  # grows meanwhile
        yield path
        for end in edges.get(path[0], ()):
            if end not in seen:
                seen.add(end)
                waiting.append((end, *path))
