"""Names of namespaces as one text: schemas, as `A:B:C`.

Gravitino calls a namespace a schema, and joins its levels by a separator that an operator chooses. In the
store they are joined by `.`, each level encoded (`physical_name`), whatever the separator. In a flat catalog
a name is one level as it is.
"""

from __future__ import annotations

from typing import Final

from floecat.errors import BadRequestError, SettingsError
from floecat.identifiers.encoding import MEANS_SOMETHING_IN_URLS
from floecat.identifiers.namespace import Namespace

__all__ = [
    "PREDEFINED_SEPARATORS",
    "SCHEMA_SEPARATOR",
    "check_schema_separator",
    "may_hold_separator",
    "schema_name",
    "split_schema",
]

SCHEMA_SEPARATOR: Final = "gravitino.schema.separator"
"""Property by which clients learn the separator, on both sides."""

PREDEFINED_SEPARATORS: Final = ":;$|~^"
"""Separators of `separator-policy=predefined`."""


def check_schema_separator(separator: str, *, predefined: bool) -> None:
    """Refuses a separator that would be ambiguous.

    Args:
        separator: to be checked.
        predefined: whether it must be one of `PREDEFINED_SEPARATORS`.

    Raises:
        SettingsError: with the reason and others to try.
    """
    reason = _problem(separator)
    if reason is None and predefined and separator not in PREDEFINED_SEPARATORS:
        reason = f"floecat.namespaces.separator-policy takes {' '.join(PREDEFINED_SEPARATORS)} alone"
    if reason is not None:
        raise SettingsError(
            f"Delimiter '{separator}' is not allowed because {reason}. Try ':', ';', or '$'."
            " (floecat.namespaces.separator)"
        )


def split_schema(name: str, separator: str | None) -> Namespace:
    """The levels of a name.

    Args:
        name: the name.
        separator: of the catalog; None if it is flat.

    Raises:
        BadRequestError: a level is empty.
    """
    levels = (name,) if separator is None else tuple(name.split(separator))
    if not all(level.strip() for level in levels):
        raise BadRequestError(f"Invalid schema name {name!r}: a level is empty")
    return levels


def schema_name(namespace: Namespace, separator: str | None) -> str:
    """The name of a namespace; in a flat catalog, those of deeper ones have a `.`."""
    return (separator or ".").join(namespace)


def may_hold_separator(name: str) -> bool:
    """Whether a level may hold a character that somebody could choose as separator."""
    return not name.replace("_", "").replace("-", "").isalnum()


def _problem(separator: str) -> str | None:
    if len(separator) != 1:
        return "it is not one character"
    if separator == ".":
        return "it separates levels in the store"
    if separator in MEANS_SOMETHING_IN_URLS:
        return "it conflicts with path parsing"
    if separator in "`*<>()[]{}":
        return "it conflicts with SQL and patterns"
    if separator.isalnum() or separator in "_-":
        return "names are made of it"
    return None if separator.isprintable() else "it cannot be printed"
