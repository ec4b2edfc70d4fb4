"""The graph of roles: what is a member of what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import UUID

__all__ = ["Edges", "of_members", "of_roles", "reached", "way"]

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


def reached(edges: Edges, *starts: str) -> dict[str, str | None]:
    """What edges lead to from some starts, each with the one before it on a shortest way; None at a start.

    However many ways there are between two roles, this takes a step for each edge.
    """
    found: dict[str, str | None] = dict.fromkeys(starts)
    waiting = list(found)
    for each in waiting:  # grows meanwhile
        for end in edges.get(each, ()):
            if end not in found:
                found[end] = each
                waiting.append(end)
    return found


def way(found: Mapping[str, str | None], end: str | None) -> Iterator[str]:
    """The steps from what was reached back to its start."""
    while end is not None:
        yield end
        end = found[end]
