"""The graph of roles: what is a member of what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from floecat.store.access import roles
from floecat.store.database.engine import Connection

__all__ = ["Step", "above", "below", "reached", "way"]

Step = Callable[[Sequence[str]], Iterable[tuple[str, str]]]
"""Gives the neighbours of some grantees, as the store writes them: pairs of one of these and a neighbour."""


def above(conn: Connection, account_id: UUID) -> Step:
    """From members to their roles in an account."""
    return lambda some: roles.roles_of(conn, account_id, some)


def below(conn: Connection) -> Step:
    """From roles to their members."""
    return lambda some: roles.members_in(conn, [UUID(each) for each in some if ":" not in each])


def reached(step: Step, *starts: str, most: int | None = None) -> dict[str, str | None]:
    """What steps lead to from some starts, each with the one before it on a shortest way; None at a start.

    However many ways there are between two roles, each is read once, all of a distance in one statement.

    Args:
        step: where to.
        starts: where from.
        most: how many are enough.
    """
    found: dict[str, str | None] = dict.fromkeys(starts)
    waiting = list(found)
    while waiting and (most is None or len(found) < most):
        ends = {end: start for start, end in sorted(step(waiting), reverse=True) if end not in found}
        found |= dict(reversed(ends.items()))
        waiting = list(ends)
    return found


def way(found: Mapping[str, str | None], end: str | None) -> Iterator[str]:
    """The steps from what was reached back to its start."""
    while end is not None:
        yield end
        end = found[end]
