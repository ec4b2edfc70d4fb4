"""Which namespaces and tables a connector takes, by the patterns of its policy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from typing import Final

from floecat.errors import BadRequestError
from floecat.identifiers.namespace import Namespace
from floecat.store.catalogs.connector_policies import ConnectorPolicy

__all__ = ["Selection"]

_MOST_PATTERNS: Final = 100
_LONGEST_PATTERN: Final = 1000
_WILDCARD: Final = re.compile(r"[*?\[]")


class Selection:
    """What a policy takes, by names as the place that is searched has them; case counts.

    A pattern matches a whole name: `*` any characters, `?` one, `[ab]` one of those. The levels of a
    namespace are joined with dots. A namespace is taken if a pattern matches it, or one that it is in, and no
    pattern behind `!` does; where all patterns are behind `!`, every other one is taken. The same goes for
    names of tables and views.
    """

    def __init__(self, policy: ConnectorPolicy) -> None:
        """Reads the patterns.

        Raises:
            BadRequestError: there are too many, or one is empty, too long or holds a control character.
        """
        self._namespaces = _Patterns("namespaces", policy.namespaces)
        self._tables = _Patterns("tables", policy.tables)

    def takes(self, namespace: Namespace, name: str) -> bool:
        """Whether a table or view is taken."""
        return self.takes_namespace(namespace) and self._tables.take([name])

    def takes_namespace(self, namespace: Namespace) -> bool:
        """Whether what is directly in a namespace is taken, where its name is."""
        return self._namespaces.take(_paths(namespace))

    def looks_into(self, namespace: Namespace) -> bool:
        """Whether anything in a namespace, at any depth, may be taken."""
        paths = _paths(namespace)
        return not self._namespaces.leave_out(paths) and (
            self._namespaces.take(paths) or self._namespaces.may_take_below(paths[-1])
        )


class _Patterns:
    def __init__(self, what: str, patterns: Sequence[str]) -> None:
        if len(patterns) > _MOST_PATTERNS:
            raise BadRequestError(f"Invalid policy: more than {_MOST_PATTERNS} patterns of {what}")
        for each in patterns:
            if not each.removeprefix("!").strip() or len(each) > _LONGEST_PATTERN or not each.isprintable():
                raise BadRequestError(
                    f"Invalid policy: {each[:80]!r} is no pattern of {what}, as sales, raw.* or !*.tmp, with"
                    f" at most {_LONGEST_PATTERN} characters"
                )
        taken = [each for each in patterns if not each.startswith("!")]
        self._taken = [re.compile(translate(each)) for each in taken]
        self._left_out = [re.compile(translate(each[1:])) for each in patterns if each.startswith("!")]
        self._beginnings = [_WILDCARD.split(each, maxsplit=1)[0] for each in taken]

    def take(self, paths: Sequence[str]) -> bool:
        """Whether a name is taken, by what it is in and itself."""
        return (not self._taken or _any(self._taken, paths)) and not self.leave_out(paths)

    def leave_out(self, paths: Sequence[str]) -> bool:
        """Whether a pattern behind `!` matches."""
        return _any(self._left_out, paths)

    def may_take_below(self, path: str) -> bool:
        """Whether a pattern may match what is in a namespace that it does not match."""
        inside = f"{path}." if path else ""
        return any(each.startswith(inside) or inside.startswith(each) for each in self._beginnings)


def _paths(namespace: Namespace) -> list[str]:
    """The namespaces that one is in, and itself; the root is the empty name."""
    return [".".join(namespace[:end]) for end in range(1, len(namespace) + 1)] or [""]


def _any(patterns: Sequence[re.Pattern[str]], names: Sequence[str]) -> bool:
    return any(pattern.match(name) for pattern in patterns for name in names)
