"""Namespaces and the identifiers of tables and views.

A namespace is an ordered, non-empty list of levels (Iceberg REST specification, `Namespace`).
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from floecat.errors import BadRequestError

__all__ = ["MAX_LEVELS", "MAX_NAME_LENGTH", "Namespace", "TableIdentifier", "check_name", "check_namespace"]

Namespace: TypeAlias = tuple[str, ...]
"""Levels of a namespace, outermost first."""

MAX_LEVELS = 32
"""Deepest namespace that is accepted."""

MAX_NAME_LENGTH = 255
"""Longest level or name, in UTF-8 bytes: what file systems take as one path segment."""


_CONTROL = re.compile("[\x00-\x1f\x7f]")


class TableIdentifier(NamedTuple):
    """A namespace and a name in it, of a table or of a view."""

    namespace: Namespace
    name: str

    def __str__(self) -> str:
        """Levels and name joined by dots, as Iceberg writes identifiers in messages."""
        return ".".join((*self.namespace, self.name))


def check_name(name: str, what: str, *, reserved: str = "") -> None:
    """Refuses a level or a name that could not be addressed or stored.

    Args:
        name: the level or name.
        what: how the message calls it, e.g. "table name".
        reserved: characters that separate levels on the wire, and so cannot be part of one.

    Raises:
        BadRequestError: it is empty, too long, or holds a control or a reserved character.
    """
    if not name.strip():
        raise BadRequestError(f"Invalid {what}: must not be empty")
    if name in (".", ".."):
        # clients and proxies resolve such a path segment before it is sent
        raise BadRequestError(f"Invalid {what}: must not be '.' or '..'")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise BadRequestError(f"Invalid {what}: not valid Unicode text") from None
    if size > MAX_NAME_LENGTH:
        raise BadRequestError(f"Invalid {what}: longer than {MAX_NAME_LENGTH} bytes")
    if _CONTROL.search(name):
        raise BadRequestError(f"Invalid {what}: holds a control character")
    for char in reserved:
        if char in name:
            raise BadRequestError(f"Invalid {what}: must not hold the namespace separator {char!r}")


def check_namespace(namespace: Namespace, *, reserved: str = "") -> None:
    """Refuses a namespace that has no levels, too many, or a level that `check_name` refuses.

    Raises:
        BadRequestError: see above.
    """
    if not namespace:
        raise BadRequestError("Invalid namespace: must have at least one level")
    if len(namespace) > MAX_LEVELS:
        raise BadRequestError(f"Invalid namespace: more than {MAX_LEVELS} levels")
    for level in namespace:
        check_name(level, "namespace level", reserved=reserved)
