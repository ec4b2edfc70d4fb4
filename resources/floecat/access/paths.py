"""Places that may grant a privilege: the account, the catalog, every namespace above a thing, and itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from floecat.auth.authorizer import Securable
from floecat.identifiers.encoding import physical_name
from floecat.store.access import places
from floecat.store.access.places import Place
from floecat.store.database.engine import Connection

__all__ = ["Path", "find_paths"]


class Path(NamedTuple):
    """The part of a path that exists, from the account inward."""

    steps: tuple[tuple[Securable, Place], ...]
    is_whole: bool
    """Whether the thing itself exists."""

    @property
    def places(self) -> tuple[Place, ...]:
        """Ids and owners."""
        return tuple(place for _, place in self.steps)

    def shown(self, thing: Securable) -> str:
        """A thing of this path, or below it, for people."""
        return thing.shown(self.steps[1][1].schema_separator if len(self.steps) > 1 else None)


def find_paths(
    conn: Connection, account_id: UUID, wanted: Sequence[Securable]
) -> tuple[int | None, list[Path]]:
    """The paths of some things, in one statement, and one more for each catalog that they lie in.

    Returns:
        The version of the account's access, None without such an account; the paths in the given order.
    """
    version, catalogs = places.catalogs(conn, account_id, {each.catalog for each in wanted if each.catalog})
    levels: defaultdict[str, set[str]] = defaultdict(set)
    names: defaultdict[str, set[str]] = defaultdict(set)
    for each in wanted:
        levels[each.catalog].update(
            physical_name(each.namespace[:depth]) for depth in range(1, len(each.namespace) + 1)
        )
        names[each.catalog].update(() if each.name is None or "\0" in each.name else (each.name,))
    below = {
        name: places.below(conn, place.id, levels[name], names[name]) if levels[name] else {}
        for name, place in catalogs.items()
    }
    account = (Securable("account", ""), Place(account_id, None))
    return version, [_path(each, account, catalogs, below.get(each.catalog, {})) for each in wanted]


def _path(
    wanted: Securable,
    account: tuple[Securable, Place],
    catalogs: dict[str, Place],
    below: dict[tuple[str, str | None], Place],
) -> Path:
    steps = [account]
    expected: list[tuple[Securable, Place | None]] = []
    if wanted.kind != "account":
        expected.append((Securable("catalog", wanted.catalog), catalogs.get(wanted.catalog)))
    for depth in range(1, len(wanted.namespace) + 1):
        levels = wanted.namespace[:depth]
        place = below.get((physical_name(levels), None))
        expected.append((Securable("namespace", wanted.catalog, levels), place))
    if wanted.name is not None:
        expected.append((wanted, below.get((physical_name(wanted.namespace), wanted.name))))
    for securable, place in expected:
        if place is None:
            return Path(tuple(steps), is_whole=False)
        steps.append((securable, place))
    return Path(tuple(steps), is_whole=True)
