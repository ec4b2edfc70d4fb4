"""Names of tables and namespaces as they are typed and printed: levels with dots between them, as in SQL.

A level that holds a dot, a quote or white space stands in double quotes; a quote in it is doubled.
"""

from __future__ import annotations

import re

from floecat.errors import BadRequestError
from floecat.identifiers.namespace import Namespace, TableIdentifier

__all__ = ["parse_identifier", "parse_namespace", "rewritten", "written"]

_LEVEL = re.compile(r'"((?:[^"]|"")*)"|([^".]+)', re.DOTALL)
_PLAIN = re.compile(r'[^".\s]+')


def parse_identifier(text: str) -> TableIdentifier:
    """Reads `namespace.name`, or `outer.inner.name`.

    Raises:
        BadRequestError: it has no namespace, a part is empty, or a quote is not closed.
    """
    levels = _levels(text)
    if levels is None or len(levels) < 2:
        raise BadRequestError(f"Invalid table name: {text!r}, expected NAMESPACE.NAME")
    return TableIdentifier(levels[:-1], levels[-1])


def parse_namespace(text: str) -> Namespace:
    """Reads `outer.inner`.

    Raises:
        BadRequestError: a level is empty, or a quote is not closed.
    """
    levels = _levels(text)
    if levels is None:
        raise BadRequestError(f"Invalid namespace: {text!r}, expected OUTER.INNER")
    return levels


def written(levels: Namespace | TableIdentifier, separator: str | None = None) -> str:
    """Levels, or a table, in the form that the parsers read.

    Args:
        levels: of a namespace; or a table.
        separator: of schemas: the namespace is one name, to be split when its catalog is known.
    """
    if isinstance(levels, TableIdentifier):
        return f"{written(levels.namespace, separator)}.{_quoted(levels.name)}"
    if levels and separator is not None:
        return _quoted(separator.join(levels))
    return ".".join(_quoted(level) for level in levels)


def rewritten(text: str, separator: str | None) -> str:
    """A table that was typed, as `written` spells it with a separator; what is none stays as it is."""
    try:
        return written(parse_identifier(text), separator)
    except BadRequestError:
        return text


def _levels(text: str) -> Namespace | None:
    levels: list[str] = []
    at = 0
    while (match := _LEVEL.match(text, at)) is not None:
        quoted, plain = match.groups()
        levels.append(plain if quoted is None else quoted.replace('""', '"'))
        if match.end() == len(text):
            return tuple(levels) if all(levels) else None
        if text[match.end()] != ".":
            return None
        at = match.end() + 1
    return None


def _quoted(level: str) -> str:
    return level if _PLAIN.fullmatch(level) else '"{}"'.format(level.replace('"', '""'))
